//! `[tenant]`: how callers are told apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[tenant]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tenant {
    /// Request headers that carry credentials or name an account. Callers that differ in one of
    /// them share nothing.
    pub headers: Vec<String>,
    /// Query parameters that carry credentials.
    pub parameters: Vec<String>,
    /// Cookies that are no credentials, such as those of load balancers; `*` and `?` are wild. A
    /// cookie that changes with each answer would make each request another tenant's.
    pub ignored_cookies: Vec<String>,
}

/// Headers of the common APIs and gateways.
const HEADERS: [&str; 28] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "api-key",
    "apikey",
    "x-api-key",
    "x-api-token",
    "x-auth-token",
    "x-access-token",
    "x-goog-api-key",
    "x-goog-user-project",
    "x-amz-security-token",
    "ocp-apim-subscription-key",
    "openai-organization",
    "openai-project",
    "anthropic-api-key",
    "x-portkey-api-key",
    "x-portkey-virtual-key",
    "x-litellm-api-key",
    "x-litellm-key",
    "cf-aig-authorization",
    "cf-access-client-id",
    "cf-access-client-secret",
    "cf-access-jwt-assertion",
    "helicone-auth",
    "helicone-user-id",
    "x-forwarded-user",
    "x-forwarded-access-token",
];

/// Parameters of the common APIs and gateways.
const PARAMETERS: [&str; 10] = [
    "key",
    "api-key",
    "api_key",
    "apikey",
    "access_token",
    "auth_token",
    "token",
    "subscription-key",
    "code",
    "sig",
];

/// Cookies of the common load balancers and bot managers.
const IGNORED_COOKIES: [&str; 18] = [
    "AWSALB*",
    "AWSELB*",
    "ARRAffinity*",
    "ApplicationGatewayAffinity*",
    "BIGipServer*",
    "GCLB",
    "GAESA",
    "INGRESSCOOKIE",
    "SERVERID",
    "__cf_bm",
    "__cflb",
    "_cfuvid",
    "cf_clearance",
    "akaalb_*",
    "bm_sv",
    "incap_ses_*",
    "nlbi_*",
    "visid_incap_*",
];

impl Default for Tenant {
    fn default() -> Self {
        Tenant {
            headers: HEADERS.map(str::to_owned).to_vec(),
            parameters: PARAMETERS.map(str::to_owned).to_vec(),
            ignored_cookies: IGNORED_COOKIES.map(str::to_owned).to_vec(),
        }
    }
}

//! Who sends a request, as fingerprints: credentials, models, and the first links of a
//! conversation's chains.
//!
//! INVARIANT: two requests share nothing unless all of their credentials agree.

use hyper::HeaderMap;
use hyper::header::HeaderName;

use crate::config;
use crate::core::conversation::Fingerprint;
use crate::core::policy::Policy;
use crate::core::strategy::TEXT_VERSION;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Outline;
use crate::proxy::plan_request::PlanRequest;

/// Headers that carry credentials or name an account. All of them make the tenant.
const CREDENTIALS: [&str; 10] = [
    "authorization",
    "proxy-authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "openai-organization",
    "openai-project",
    "x-forwarded-user",
    "cookie",
];

/// Whether a header is part of a request's credentials.
pub(super) fn is_credential(name: &HeaderName) -> bool {
    CREDENTIALS.contains(&name.as_str())
}

/// The credentials among a request's headers.
pub(super) fn credentials(headers: &HeaderMap) -> HeaderMap {
    headers
        .iter()
        .filter(|(name, _)| is_credential(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Who asks for what, in which wire format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub dialect: Dialect,
    pub tenant: &'a Fingerprint,
    pub model: Option<&'a str>,
}

/// Makes the fingerprints.
#[derive(Debug)]
pub(super) struct Identities {
    /// Key of the tenants' fingerprints. Every process has its own, so that a dump of fingerprints
    /// reveals nothing about credentials.
    tenant_key: [u8; 32],
    /// The upstream's name in fingerprints: origin and base path.
    upstream: String,
}

impl Identities {
    pub(super) fn new(upstream: &config::Upstream) -> Self {
        let base_path = upstream.base_path.as_deref().unwrap_or_default();
        Identities {
            tenant_key: crate::random::bytes(),
            upstream: format!("{}{base_path}", upstream.origin),
        }
    }

    /// The upstream's name in fingerprints.
    pub(super) fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The fingerprint of a request's credentials: a keyed hash, whatever order they come in.
    pub(super) fn tenant(&self, headers: &HeaderMap) -> Fingerprint {
        let mut credentials: Vec<(&str, &[u8])> = headers
            .iter()
            .filter(|(name, _)| is_credential(name))
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        credentials.sort_unstable();
        let mut hasher = blake3::Hasher::new_keyed(&self.tenant_key);
        for (name, value) in credentials {
            for part in [name.as_bytes(), value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Fingerprint(*hasher.finalize().as_bytes())
    }

    /// The key of everything that the upstream teaches about a model: tenant, path and the model's
    /// name. Azure's stands in the path. Tenants learn separately: an error may quote text of one
    /// of them, which must not narrow another's window.
    pub(super) fn model_key(&self, asker: Asker<'_>, path: &str) -> Fingerprint {
        Fingerprint::of_parts(&[
            b"model",
            asker.dialect.as_str().as_bytes(),
            &asker.tenant.0,
            self.upstream.as_bytes(),
            path.as_bytes(),
            asker.model.unwrap_or_default().as_bytes(),
        ])
    }

    /// The first link of the chain of checkpoints: tenant, upstream, policy, window, and the version
    /// of what strategies write.
    pub(super) fn checkpoint_seed(
        &self,
        asker: Asker<'_>,
        policy: &Policy,
        window: u64,
    ) -> Fingerprint {
        self.checkpoint_seed_of(TEXT_VERSION, asker, policy, window)
    }

    fn checkpoint_seed_of(
        &self,
        text_version: u32,
        asker: Asker<'_>,
        policy: &Policy,
        window: u64,
    ) -> Fingerprint {
        let model = asker.model;
        // Derived decisions also depend on what is known of the model, and on its name where an
        // expression may read it.
        let family = policy.family_for(model);
        let prices = policy
            .prices_for(model)
            .map(|prices| [prices.cache_read, prices.cache_write].map(f64::to_bits));
        let name = policy.when.as_ref().and(model).unwrap_or_default();
        let known = format!("{family:?} {prices:?} {name}");
        Fingerprint::of_parts(&[
            b"checkpoint",
            &text_version.to_le_bytes(),
            asker.dialect.as_str().as_bytes(),
            &asker.tenant.0,
            self.upstream.as_bytes(),
            &policy.identity.0,
            &window.to_le_bytes(),
            known.as_bytes(),
        ])
    }

    /// The first link of the chain of reported usage: tenant, upstream, model, and the fixed parts
    /// of the prompt.
    pub(super) fn usage_seed(&self, request: &PlanRequest, outline: &Outline<'_>) -> Fingerprint {
        let model = request.model.as_deref().unwrap_or_default();
        let mut parts: Vec<&[u8]> = vec![
            b"usage",
            request.dialect.as_str().as_bytes(),
            &request.tenant.0,
            self.upstream.as_bytes(),
            request.path.as_bytes(),
            model.as_bytes(),
        ];
        // The choice among tools is left out: clients change it from turn to turn, and it costs
        // next to nothing.
        let fixed = [
            outline.fixed.tools,
            outline.fixed.functions,
            outline.fixed.response_format,
        ];
        parts.extend(fixed.map(|part| part.unwrap_or_default().as_bytes()));
        Fingerprint::of_parts(&parts)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::core::planner::Session;
    use crate::core::tokens::Encoding;

    #[test]
    fn versions_of_what_strategies_write_share_no_checkpoint() {
        let config = crate::config::load(&crate::config::Sources::default()).unwrap();
        let identities = Identities::new(&config.upstream);
        let tenant = identities.tenant(&HeaderMap::new());
        let asker = Asker {
            dialect: Dialect::ChatCompletions,
            tenant: &tenant,
            model: Some("gpt-4o"),
        };
        let policy = config.policies.first().unwrap();
        let body =
            br#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
            {"role":"user","content":"c"}]}"#;
        let session = Session::open_afresh(
            asker.dialect,
            asker.dialect.outline(body).unwrap(),
            Encoding::for_model("gpt-4o"),
        )
        .unwrap();
        let keys = |seed: Fingerprint| -> Vec<Fingerprint> {
            let checkpoints = session.checkpoint_keys(&seed).into_iter();
            let keys = checkpoints.map(|key| key.prefix);
            keys.chain(session.summary_keys(&seed)).collect()
        };
        let of = |version| keys(identities.checkpoint_seed_of(version, asker, policy, 128_000));
        let (old, new) = (of(TEXT_VERSION - 1), of(TEXT_VERSION));
        assert!(!new.is_empty() && new.iter().all(|key| !old.contains(key)));
        assert_eq!(
            new,
            keys(identities.checkpoint_seed(asker, policy, 128_000)),
            "the seed in use has the version of this build"
        );
    }

    #[test]
    fn all_credentials_make_the_tenant_in_any_order() {
        let source = crate::config::Sources::default();
        let config = crate::config::load(&source).unwrap();
        let identities = Identities::new(&config.upstream);
        let tenant = |names: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(*name, HeaderValue::from_static("secret"));
            }
            identities.tenant(&headers)
        };
        let both = tenant(&["authorization", "openai-project"]);
        assert_eq!(
            both,
            tenant(&["openai-project", "x-other", "authorization"])
        );
        assert_ne!(both, tenant(&["authorization"]));
        assert_ne!(
            both,
            Identities::new(&config.upstream).tenant(&HeaderMap::new())
        );
    }
}

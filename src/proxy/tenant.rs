//! Who sends a request, as fingerprints: credentials, models, and the first links of a
//! conversation's chains.
//!
//! INVARIANT: two requests share nothing unless all of their credentials agree.

use std::borrow::Cow;

use hyper::HeaderMap;
use hyper::header::{COOKIE, HeaderName};
use percent_encoding::percent_decode_str;

use crate::config;
use crate::core::conversation::Fingerprint;
use crate::core::models::{Family, ModelFacts};
use crate::core::policy::Policy;
use crate::core::strategy::TEXT_VERSION;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Outline;
use crate::proxy::headers;
use crate::proxy::plan_request::PlanRequest;

/// Who asks for what, in which wire format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub dialect: Dialect,
    pub tenant: &'a Fingerprint,
    pub model: Option<&'a str>,
    /// What is known of the model.
    pub known: &'a ModelFacts,
}

/// A credential: its kind, its name and its value.
type Credential<'a> = (&'static str, Cow<'a, str>, Cow<'a, [u8]>);

/// Makes the fingerprints.
#[derive(Debug)]
pub(super) struct Identities {
    /// Key of the tenants' fingerprints, so that a dump of fingerprints reveals nothing about
    /// credentials. It follows from the ledger's secret; without one every process has its own.
    tenant_key: [u8; 32],
    /// The places of credentials.
    credentials: config::Tenant,
    /// The upstream's name in fingerprints: origin and base path.
    upstream: String,
}

impl Identities {
    pub(super) fn new(
        upstream: &config::Upstream,
        tenant: config::Tenant,
        tenant_key: [u8; 32],
    ) -> Self {
        let base_path = upstream.base_path.as_deref().unwrap_or_default();
        Identities {
            tenant_key,
            credentials: tenant,
            upstream: format!("{}{base_path}", upstream.origin),
        }
    }

    /// The upstream's name in fingerprints.
    pub(super) fn upstream(&self) -> &str {
        &self.upstream
    }

    /// Whether a header is part of a request's credentials.
    pub(super) fn is_credential(&self, name: &HeaderName) -> bool {
        self.credentials.headers.contains(name) || *name == headers::TOKEN
    }

    /// The credentials among a request's headers.
    pub(super) fn credentials(&self, headers: &HeaderMap) -> HeaderMap {
        headers
            .iter()
            .filter(|(name, _)| self.is_credential(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// The fingerprint of a request's credentials, in its headers and its query: a keyed hash,
    /// whatever order they come in. Where the operator names headers that tell tenants apart, and
    /// the request has them, it is theirs.
    pub(super) fn tenant(&self, headers: &HeaderMap, query: Option<&str>) -> Fingerprint {
        if let Some(named) = self.named(headers) {
            return self.fingerprint(named);
        }
        let mut credentials: Vec<Credential<'_>> = Vec::new();
        for (name, value) in headers.iter().filter(|(name, _)| self.is_credential(name)) {
            if *name == COOKIE {
                let cookies = self.cookies(value.as_bytes());
                credentials.extend(cookies.map(|cookie| ("cookie", Cow::default(), cookie.into())));
            } else {
                let value = Cow::from(value.as_bytes());
                credentials.push(("header", Cow::from(name.as_str()), value));
            }
        }
        let parameters = query.unwrap_or_default().split('&');
        for (name, value) in parameters.filter_map(|pair| pair.split_once('=')) {
            let name = percent_decode_str(name).decode_utf8_lossy();
            let name = name.to_ascii_lowercase();
            if self.credentials.parameters.contains(&name) {
                let value = percent_decode_str(value).into();
                credentials.push(("parameter", Cow::from(name), value));
            }
        }
        self.fingerprint(credentials)
    }

    /// The tenant's name in the headers that the operator trusts; `None` when one of them is
    /// missing.
    fn named<'h>(&self, headers: &'h HeaderMap) -> Option<Vec<Credential<'h>>> {
        let names = &self.credentials.named;
        if names.is_empty() || !names.iter().all(|name| headers.contains_key(name)) {
            return None;
        }
        let named = headers.iter().filter(|(name, _)| names.contains(name));
        let named = named.map(|(name, value)| {
            (
                "named",
                Cow::from(name.as_str()),
                Cow::from(value.as_bytes()),
            )
        });
        Some(named.collect())
    }

    fn fingerprint(&self, mut credentials: Vec<Credential<'_>>) -> Fingerprint {
        credentials.sort_unstable();
        let mut hasher = blake3::Hasher::new_keyed(&self.tenant_key);
        for (kind, name, value) in credentials {
            for part in [kind.as_bytes(), name.as_bytes(), &value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Fingerprint(*hasher.finalize().as_bytes())
    }

    /// The cookies of a header that may be credentials.
    fn cookies<'a>(&self, header: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let cookies = header.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        cookies.filter(|cookie| {
            let name = cookie.split(|byte| *byte == b'=').next();
            let name = String::from_utf8_lossy(name.unwrap_or_default().trim_ascii_end());
            !cookie.is_empty() && !self.credentials.ignored_cookies.is_match(&*name)
        })
    }

    /// The key of everything that the upstream teaches about a model: tenant, path and the model's
    /// name. Azure's stands in the path. Tenants learn separately: an error may quote text of one
    /// of them, which must not narrow another's window.
    pub(super) fn model_key(&self, asker: Asker<'_>, path: &str) -> Fingerprint {
        let parts: [&[u8]; 5] = [
            b"model",
            asker.dialect.as_str().as_bytes(),
            self.upstream.as_bytes(),
            path.as_bytes(),
            asker.model.unwrap_or_default().as_bytes(),
        ];
        Fingerprint::of_parts_under(asker.tenant, &parts)
    }

    /// The first link of the chain of checkpoints: tenant, upstream, policy, window, and the
    /// version of what strategies write.
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
        // Derived decisions also depend on what is known of the model, and on its name where an
        // expression may read it.
        let Family {
            alternates,
            wants_reasoning,
        } = policy.family_for(asker.known);
        let prices = policy
            .prices_for(asker.known)
            .map(|prices| [prices.cache_read, prices.cache_write].map(f64::to_le_bytes));
        let name = policy.when.as_ref().and(asker.model).unwrap_or_default();
        let input = Policy::input_limit(asker.known, window).map(u64::to_le_bytes);
        let parts: [&[u8]; 10] = [
            b"checkpoint",
            &text_version.to_le_bytes(),
            asker.dialect.as_str().as_bytes(),
            self.upstream.as_bytes(),
            &policy.identity.0,
            &window.to_le_bytes(),
            &[u8::from(alternates), u8::from(wants_reasoning)],
            prices.as_ref().map_or(&[], |prices| prices.as_flattened()),
            name.as_bytes(),
            input.as_ref().map_or(&[], |limit| limit),
        ];
        Fingerprint::of_parts_under(asker.tenant, &parts)
    }

    /// The first link of the chain of reported usage: tenant, upstream, model, and the fixed parts
    /// of the prompt.
    pub(super) fn usage_seed(&self, request: &PlanRequest, outline: &Outline<'_>) -> Fingerprint {
        let model = request.model.as_deref().unwrap_or_default();
        // The choice among tools is left out: clients change it from turn to turn, and it costs
        // next to nothing.
        let fixed = [
            outline.fixed.tools,
            outline.fixed.functions,
            outline.fixed.response_format,
        ];
        let [tools, functions, format] = fixed.map(|part| part.unwrap_or_default().as_bytes());
        let parts: [&[u8]; 8] = [
            b"usage",
            request.dialect.as_str().as_bytes(),
            self.upstream.as_bytes(),
            request.path.as_bytes(),
            model.as_bytes(),
            tools,
            functions,
            format,
        ];
        Fingerprint::of_parts_under(&request.tenant, &parts)
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
        let identities = Identities::new(&config.upstream, config.tenant.clone(), [7; 32]);
        let tenant = identities.tenant(&HeaderMap::new(), None);
        let asker = Asker {
            dialect: Dialect::ChatCompletions,
            tenant: &tenant,
            model: Some("gpt-4o"),
            known: &ModelFacts::of(Some("gpt-4o")),
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

    fn identities() -> Identities {
        let config = crate::config::load(&crate::config::Sources::default()).unwrap();
        Identities::new(&config.upstream, config.tenant, crate::random::bytes())
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn all_credentials_make_the_tenant_in_any_order() {
        let identities = identities();
        let tenant = |lines: &[(&'static str, &'static str)]| {
            identities.tenant(&headers(lines), Some("x=1"))
        };
        let both = tenant(&[("authorization", "s"), ("openai-project", "s")]);
        let swapped = [
            ("openai-project", "s"),
            ("x-other", "s"),
            ("authorization", "s"),
        ];
        assert_eq!(both, tenant(&swapped));
        assert_ne!(both, tenant(&[("authorization", "s")]));
        let another_process = self::identities();
        assert_ne!(
            identities.tenant(&HeaderMap::new(), None),
            another_process.tenant(&HeaderMap::new(), None)
        );
    }

    #[test]
    fn every_place_of_a_credential_tells_callers_apart() {
        let identities = identities();
        let none = identities.tenant(&HeaderMap::new(), None);
        for name in identities.credentials.headers.clone() {
            let of = |value| {
                let mut headers = HeaderMap::new();
                headers.insert(name.clone(), HeaderValue::from_static(value));
                identities.tenant(&headers, None)
            };
            assert_ne!(of("a"), of("b"), "{name}");
            assert_ne!(of("a"), none, "{name}");
        }
        let of = |query: &str| identities.tenant(&HeaderMap::new(), Some(query));
        for name in &identities.credentials.parameters {
            assert_ne!(of(&format!("{name}=a")), of(&format!("{name}=b")), "{name}");
        }
        assert_ne!(of("key=a"), of("api-key=a"));
        assert_eq!(of("%6Bey=%61"), of("v=1&KEY=a"), "however it is spelled");
        assert_eq!(
            of("api-version=1"),
            none,
            "not every parameter is a credential"
        );
    }

    #[test]
    fn cookies_of_load_balancers_do_not_make_a_tenant() {
        let identities = identities();
        let of = |lines: &[(&'static str, &'static str)]| identities.tenant(&headers(lines), None);
        let session = of(&[("cookie", "session=1")]);
        assert_ne!(session, of(&[("cookie", "session=2")]));
        assert_eq!(
            session,
            of(&[("cookie", "AWSALB=x; session=1; AWSALBCORS=y")])
        );
        assert_eq!(
            session,
            of(&[("cookie", "__cf_bm=a"), ("cookie", "session=1")])
        );
        assert_eq!(of(&[]), of(&[("cookie", "AWSALB=changes; _cfuvid=too")]));
    }

    #[test]
    fn headers_that_the_operator_trusts_name_the_tenant_whatever_its_key() {
        let mut config = crate::config::load(&crate::config::Sources::default()).unwrap();
        config.tenant.named = vec![HeaderName::from_static("x-team")];
        let identities = Identities::new(&config.upstream, config.tenant, [7; 32]);
        let of = |lines: &[(&'static str, &'static str)]| identities.tenant(&headers(lines), None);
        let blue = of(&[("x-team", "blue"), ("authorization", "monday")]);
        assert_eq!(
            blue,
            of(&[("authorization", "tuesday"), ("x-team", "blue")])
        );
        assert_eq!(blue, of(&[("x-team", "blue")]));
        assert_ne!(blue, of(&[("x-team", "red"), ("authorization", "monday")]));
        let unnamed = of(&[("authorization", "monday")]);
        assert_ne!(blue, unnamed);
        assert_ne!(unnamed, of(&[("authorization", "tuesday")]));
        assert_ne!(
            of(&[]),
            of(&[("x-team", "")]),
            "no name is not an empty one"
        );
    }

    /// The key of the checkpoint of a conversation.
    fn checkpoint_key(credential: &str, origin: &str, policy: u8, content: &str) -> Fingerprint {
        let mut config = crate::config::load(&crate::config::Sources::default()).unwrap();
        config.upstream.origin = origin.parse().unwrap();
        let identities = Identities::new(&config.upstream, config.tenant.clone(), [7; 32]);
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::try_from(credential).unwrap());
        let tenant = identities.tenant(&headers, None);
        let asker = Asker {
            dialect: Dialect::ChatCompletions,
            tenant: &tenant,
            model: Some("gpt-4o"),
            known: &ModelFacts::of(Some("gpt-4o")),
        };
        let mut known = std::sync::Arc::into_inner(config.policies.remove(0)).unwrap();
        known.identity = Fingerprint::of(&[policy]);
        let body = serde_json::json!({"messages": [{"role": "user", "content": content}]});
        let body = body.to_string();
        let outline = asker.dialect.outline(body.as_bytes()).unwrap();
        let session = Session::open_afresh(asker.dialect, outline, Encoding::O200K).unwrap();
        let seed = identities.checkpoint_seed(asker, &known, 128_000);
        session.checkpoint_keys(&seed).last().unwrap().prefix
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
        #[test]
        fn any_byte_that_differs_changes_the_key(
            credential in "[!-~]{1,40}",
            content in "[ -~]{1,60}",
            at in proptest::prelude::any::<proptest::sample::Index>(),
        ) {
            let origin = "http://127.0.0.1:9/";
            let key = checkpoint_key(&credential, origin, 0, &content);
            let changed = |text: &str| {
                let mut bytes = text.as_bytes().to_vec();
                let at = at.index(bytes.len());
                bytes[at] = if bytes[at] == b'a' { b'b' } else { b'a' };
                String::from_utf8(bytes).unwrap()
            };
            proptest::prop_assert_eq!(key, checkpoint_key(&credential, origin, 0, &content));
            for other in [
                checkpoint_key(&changed(&credential), origin, 0, &content),
                checkpoint_key(&credential, "http://127.0.0.1:8/", 0, &content),
                checkpoint_key(&credential, origin, 1, &content),
                checkpoint_key(&credential, origin, 0, &changed(&content)),
                checkpoint_key(&credential, origin, 0, &format!("{content} ")),
            ] {
                proptest::prop_assert_ne!(key, other);
            }
        }
    }
}

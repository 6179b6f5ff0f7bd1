//! Routing: which requests are inspected, and the policy of each.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use globset::GlobMatcher;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request};
use percent_encoding::percent_decode_str;

use crate::config::Config;
use crate::core::models;
use crate::core::models::ModelFacts;
use crate::core::policy::Policy;
use crate::core::wire::Dialect;
use crate::observe::event::{Endpoint, Provider, TrafficMetrics, UncompactedApi};
use crate::observe::{Metrics, plain_name};
use crate::proxy::exchange::Exchange;
use crate::proxy::headers;

/// Label of models that neither the table nor a policy knows.
const OTHER_MODELS: &str = "other";

/// No policy matches a request: a defect, since the last policy is for all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no policy matches the request")]
pub(super) struct NoPolicy;

/// The endpoints and policies of one configuration.
#[derive(Debug)]
pub(super) struct Routes {
    chat_suffixes: Vec<String>,
    policies: Vec<Route>,
    /// Labels of models that the table does not know, each with its glob.
    model_labels: Vec<(String, GlobMatcher)>,
    provider: Provider,
    metrics: Arc<Metrics>,
}

/// A policy and the metrics of its traffic.
#[derive(Debug)]
struct Route {
    policy: Arc<Policy>,
    /// By model label: those that the configuration names, and those of the table once they are
    /// used. Both are bounded, whatever names clients send.
    traffic: RwLock<HashMap<Cow<'static, str>, Arc<TrafficMetrics>>>,
}

impl Routes {
    /// The routes of a configuration, with the series created that it names.
    pub(super) fn new(config: &Config, metrics: &Arc<Metrics>) -> Self {
        let route = |policy: &Arc<Policy>| Route {
            policy: Arc::clone(policy),
            traffic: RwLock::default(),
        };
        let routes = Routes {
            chat_suffixes: config.chat_suffixes.clone(),
            policies: config.policies.iter().map(route).collect(),
            model_labels: config.model_labels.clone(),
            provider: Provider::at(&config.upstream.origin),
            metrics: Arc::clone(metrics),
        };
        for route in &routes.policies {
            routes.traffic(route, Cow::Borrowed(OTHER_MODELS));
            for (pattern, _) in &routes.model_labels {
                // A pattern mostly begins with the name that it stands for.
                let begins = pattern.trim_end_matches(['*', '?']);
                let known = models::table_name(begins).map(Cow::Borrowed);
                routes.traffic(route, known.unwrap_or_else(|| Cow::Owned(pattern.clone())));
            }
        }
        routes
    }

    /// The series of a policy's traffic under a model label.
    fn traffic(&self, route: &Route, label: Cow<'static, str>) -> Arc<TrafficMetrics> {
        // An entry is inserted whole.
        let known = route.traffic.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(traffic) = known.get(&label) {
            return Arc::clone(traffic);
        }
        drop(known);
        let mut known = route
            .traffic
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let traffic = known.entry(label).or_insert_with_key(|label| {
            let (metrics, policy) = (&self.metrics, &route.policy.name);
            Arc::new(metrics.traffic(policy, label, &self.provider))
        });
        Arc::clone(traffic)
    }

    /// The label of a model: the name that the model table has for it, else the pattern of a policy
    /// that it matches.
    fn model_label(&self, model: &str, known: &ModelFacts) -> Cow<'static, str> {
        if let Some((name, _)) = known.row {
            return Cow::Borrowed(name);
        }
        let mut labels = self.model_labels.iter();
        let named = labels.find(|(_, glob)| glob.is_match(model));
        named.map_or(Cow::Borrowed(OTHER_MODELS), |(label, _)| {
            Cow::Owned(label.clone())
        })
    }

    /// The wire format of a request that is to be inspected.
    fn dialect(&self, method: &Method, path: &str) -> Option<Dialect> {
        let dialect = Dialect::route(&normalized(path), &self.chat_suffixes);
        dialect.filter(|_| method == Method::POST)
    }

    /// The policy of a request and the metrics of its traffic: the policy it names, if that is
    /// selectable, else the first that matches.
    pub(super) fn choose(
        &self,
        (model, known): (Option<&str>, &ModelFacts),
        path: &str,
        request_headers: &HeaderMap,
    ) -> Result<(Arc<Policy>, Arc<TrafficMetrics>), NoPolicy> {
        let header = |name: &str| request_headers.get(name)?.to_str().ok();
        let selected = request_headers.get(&headers::POLICY).and_then(|name| {
            let name = name.to_str().ok()?;
            let mut routes = self.policies.iter();
            routes.find(|route| route.policy.delivery.selectable && route.policy.name == name)
        });
        let mut routes = self.policies.iter();
        let route = selected
            .or_else(|| routes.find(|route| route.policy.matches(model, path, header)))
            .ok_or(NoPolicy)?;
        let label = model.map_or(Cow::Borrowed(OTHER_MODELS), |model| {
            self.model_label(model, known)
        });
        let traffic = self.traffic(route, label);
        Ok((Arc::clone(&route.policy), traffic))
    }
}

/// A path as servers understand it: percent-encoding decoded, empty and dot segments resolved, no
/// slash at its end. The path that is sent stays as it is.
fn normalized(path: &str) -> Cow<'_, str> {
    let is_plain = !path.contains(['%'])
        && !path.contains("//")
        && !path.contains("/.")
        && !path.ends_with('/');
    if is_plain {
        return Cow::Borrowed(path);
    }
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut segments = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    Cow::Owned(format!("/{}", segments.join("/")))
}

/// Ends of the paths of APIs that hold conversations and pass uncompacted. `/threads/ID/messages`
/// is none of them.
const UNCOMPACTED: [(&str, Endpoint); 5] = [
    ("/v1/responses", Endpoint::Responses),
    ("/openai/responses", Endpoint::Responses),
    ("/codex/responses", Endpoint::Responses),
    ("/v1/messages", Endpoint::Messages),
    ("/anthropic/messages", Endpoint::Messages),
];

/// The endpoint of a POST that is not inspected.
fn uncompacted(path: &str) -> Endpoint {
    match path {
        "/responses" => Endpoint::Responses,
        "/messages" => Endpoint::Messages,
        path => {
            let mut known = UNCOMPACTED.iter();
            let known = known.find(|(end, _)| path.ends_with(end));
            known.map_or(Endpoint::Other, |(_, endpoint)| *endpoint)
        }
    }
}

impl Exchange {
    /// 2. Route: requests of a known dialect are inspected, all else is streamed through unread.
    pub(super) fn route(&mut self, request: &Request<Incoming>) -> Option<Dialect> {
        let routes = &self.snapshot.routes;
        let (method, path) = (request.method(), request.uri().path());
        self.dialect = routes.dialect(method, path);
        self.endpoint = match self.dialect {
            Some(dialect) => dialect.into(),
            None if method == Method::POST => uncompacted(&normalized(path)),
            None => Endpoint::Other,
        };
        let seen = &self.proxy.shared.seen;
        let before = match self.endpoint {
            Endpoint::Responses => Some(&seen.responses),
            Endpoint::Messages => Some(&seen.messages),
            Endpoint::Chat | Endpoint::Other => None,
        };
        if let Some(before) = before {
            let (endpoint, already) = (self.endpoint, before.swap(true, Ordering::Relaxed));
            UncompactedApi { endpoint, already }.emit();
        }
        self.dialect
    }

    /// The policy of a request; its traffic is recorded under that policy from here on.
    pub(super) fn choose_policy(
        &mut self,
        (model, known): (Option<&str>, &ModelFacts),
        parts: &Parts,
    ) -> Result<Arc<Policy>, NoPolicy> {
        let routes = &self.snapshot.routes;
        let path = normalized(parts.uri.path());
        let (policy, traffic) = routes.choose((model, known), &path, &parts.headers)?;
        self.traffic = Some(traffic);
        if self.snapshot.config.log_model {
            self.model_name = model.map(plain_name);
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, normalized, uncompacted};

    #[test]
    fn apis_that_pass_uncompacted_are_known_by_their_path() {
        for (path, endpoint) in [
            ("/v1/responses", Endpoint::Responses),
            ("/responses", Endpoint::Responses),
            ("/openai/v1/responses", Endpoint::Responses),
            ("/v1/messages", Endpoint::Messages),
            ("/api/v1/messages", Endpoint::Messages),
            ("/v1/threads/t_1/messages", Endpoint::Other),
            ("/v1/responses/r_1/cancel", Endpoint::Other),
            ("/v1/embeddings", Endpoint::Other),
        ] {
            assert_eq!(uncompacted(path), endpoint, "{path}");
        }
    }

    #[test]
    fn one_path_has_many_spellings() {
        for path in [
            "/v1/chat/completions",
            "/v1/chat/completions/",
            "/v1/%63hat/completion%73",
            "//v1//chat//completions",
            "/v1/./chat/x/../completions",
            "/v1/chat%2Fcompletions",
            "/v1/chat/completions%2f",
        ] {
            assert_eq!(normalized(path), "/v1/chat/completions", "{path}");
        }
        assert_eq!(normalized("/"), "/");
        assert_eq!(normalized("/%ff"), "/\u{fffd}");
    }
}

//! Routing: which requests are inspected, and the policy of each.

use std::borrow::Cow;
use std::sync::Arc;

use globset::GlobMatcher;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request};
use percent_encoding::percent_decode_str;

use crate::config::Config;
use crate::core::policy::Policy;
use crate::core::wire::Dialect;
use crate::observe::Metrics;
use crate::observe::event::TrafficMetrics;
use crate::proxy::exchange::Exchange;
use crate::proxy::headers;

/// Label of models that no policy names.
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
    /// Labels of models, each with its glob.
    model_labels: Vec<(String, GlobMatcher)>,
}

/// A policy and the metrics of its traffic.
#[derive(Debug)]
struct Route {
    policy: Arc<Policy>,
    /// By model label.
    traffic: Vec<Arc<TrafficMetrics>>,
    /// Of models without a label of their own.
    other_traffic: Arc<TrafficMetrics>,
}

impl Routes {
    /// The routes of a configuration, with their series created.
    pub(super) fn new(config: &Config, metrics: &Metrics) -> Self {
        let traffic = |policy: &Policy, label: &str| Arc::new(metrics.traffic(&policy.name, label));
        let route = |policy: &Arc<Policy>| {
            let labels = config.model_labels.iter();
            Route {
                traffic: labels.map(|(label, _)| traffic(policy, label)).collect(),
                other_traffic: traffic(policy, OTHER_MODELS),
                policy: Arc::clone(policy),
            }
        };
        Routes {
            chat_suffixes: config.chat_suffixes.clone(),
            policies: config.policies.iter().map(route).collect(),
            model_labels: config.model_labels.clone(),
        }
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
        model: Option<&str>,
        path: &str,
        request_headers: &HeaderMap,
    ) -> Result<(Arc<Policy>, Arc<TrafficMetrics>), NoPolicy> {
        let header = |name: &str| {
            let value = request_headers.get(name)?;
            value.to_str().ok()
        };
        let selected = header(headers::POLICY).and_then(|name| {
            let mut routes = self.policies.iter();
            routes.find(|route| route.policy.delivery.selectable && route.policy.name == name)
        });
        let mut routes = self.policies.iter();
        let route = selected
            .or_else(|| routes.find(|route| route.policy.matches(model, path, header)))
            .ok_or(NoPolicy)?;
        let label = model.and_then(|model| {
            let mut labels = self.model_labels.iter();
            labels.position(|(_, glob)| glob.is_match(model))
        });
        let traffic = label.and_then(|label| route.traffic.get(label));
        let traffic = traffic.unwrap_or(&route.other_traffic);
        Ok((Arc::clone(&route.policy), Arc::clone(traffic)))
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

impl Exchange {
    /// 2. Route: requests of a known dialect are inspected, all else is streamed through unread.
    pub(super) fn route(&mut self, request: &Request<Incoming>) -> Option<Dialect> {
        let routes = &self.snapshot.routes;
        self.dialect = routes.dialect(request.method(), request.uri().path());
        self.dialect
    }

    /// The policy of a request; its traffic is recorded under that policy from here on.
    pub(super) fn choose_policy(
        &mut self,
        model: Option<&str>,
        parts: &Parts,
    ) -> Result<Arc<Policy>, NoPolicy> {
        let routes = &self.snapshot.routes;
        let path = normalized(parts.uri.path());
        let (policy, traffic) = routes.choose(model, &path, &parts.headers)?;
        self.traffic = Some(traffic);
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::normalized;

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

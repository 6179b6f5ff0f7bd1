//! The Prometheus metrics. Every label value comes from a closed set or from the configuration.
//!
//! A metric belongs to the events of one file in `event/`, which registers it and alone updates it.

use prometheus::{Encoder, IntGaugeVec, Registry, TextEncoder};

use crate::observe::event::compaction::CompactionMetrics;
use crate::observe::event::connect::ConnectMetrics;
use crate::observe::event::discovery::DiscoveryMetrics;
use crate::observe::event::genai::Provider;
use crate::observe::event::ledger::LedgerMetrics;
use crate::observe::event::overflow::OverflowMetrics;
use crate::observe::event::planning::PlanningMetrics;
use crate::observe::event::request::RequestMetrics;
use crate::observe::event::summary::{SummarizerMetrics, SummaryMetrics};
use crate::observe::event::traffic::{TrafficFamilies, TrafficMetrics};
use crate::observe::event::usage::UsageMetrics;
use crate::observe::event::webhook::WebhookMetrics;
use crate::observe::registry::{LabelDescription, MetricDescription, Registered, Registrar};

/// All metrics, registered. Only events update them.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    descriptions: Vec<MetricDescription>,
    pub(super) requests: RequestMetrics,
    pub(super) traffic: TrafficFamilies,
    pub(super) planning: PlanningMetrics,
    pub(super) compactions: CompactionMetrics,
    pub(super) overflows: OverflowMetrics,
    pub(super) usage: UsageMetrics,
    pub(super) summaries: SummaryMetrics,
    pub(super) webhooks: WebhookMetrics,
    pub(super) discovery: DiscoveryMetrics,
    pub(super) connects: ConnectMetrics,
    pub(super) ledger: LedgerMetrics,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// When two metrics clash: a defect.
    pub fn new() -> Registered<Self> {
        let mut registrar = Registrar::default();
        build_info(&mut registrar)?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let requests = RequestMetrics::register(&mut registrar)?;
        let traffic = TrafficFamilies::register(&mut registrar)?;
        let planning = PlanningMetrics::register(&mut registrar)?;
        let compactions = CompactionMetrics::register(&mut registrar)?;
        let overflows = OverflowMetrics::register(&mut registrar)?;
        let usage = UsageMetrics::register(&mut registrar)?;
        let summaries = SummaryMetrics::register(&mut registrar)?;
        let webhooks = WebhookMetrics::register(&mut registrar)?;
        let discovery = DiscoveryMetrics::register(&mut registrar)?;
        let connects = ConnectMetrics::register(&mut registrar)?;
        #[cfg(target_os = "linux")]
        registrar.process()?;
        let ledger = LedgerMetrics::register(&mut registrar)?;
        let (registry, descriptions) = registrar.finish();
        Ok(Metrics {
            registry,
            descriptions,
            requests,
            traffic,
            planning,
            compactions,
            overflows,
            usage,
            summaries,
            webhooks,
            discovery,
            connects,
            ledger,
        })
    }

    /// Every metric: name, type, labels with their values, help. In the order of registration.
    #[must_use]
    pub fn describe(&self) -> &[MetricDescription] {
        &self.descriptions
    }

    /// The series of one policy's traffic with one model, created at 0.
    #[must_use]
    pub fn traffic(&self, policy: &str, model: &str, provider: &Provider) -> TrafficMetrics {
        self.compactions.create(policy);
        self.summaries.create(policy);
        self.traffic.of(policy, model, provider)
    }

    /// The series of one summariser, created at 0.
    #[must_use]
    pub fn summarizer(&self, name: &str) -> SummarizerMetrics {
        self.summaries.of_summarizer(name)
    }

    /// All metrics as Prometheus text.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Encoding into memory fails only for a metric without a name.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}

fn build_info(registrar: &mut Registrar) -> Registered<IntGaugeVec> {
    registrar.gauges(
        "baler_build_info",
        "Always 1; the labels name the build.",
        vec![LabelDescription::open("version")],
    )
}

#[cfg(test)]
mod tests {
    use super::{Metrics, Provider};

    /// The values of a line's labels, by label.
    fn values<'l>(line: &'l str, label: &str) -> Option<&'l str> {
        let (_, rest) = line.split_once(&format!("{label}=\""))?;
        rest.split('"').next()
    }

    #[test]
    fn every_closed_label_value_exists_at_zero_from_the_start() {
        let metrics = Metrics::new().unwrap();
        let text = String::from_utf8(metrics.render()).unwrap();
        for metric in metrics.describe() {
            let prefixes = ["baler_", "gen_ai_", "process_"];
            assert!(
                prefixes
                    .iter()
                    .any(|prefix| metric.name.starts_with(prefix))
            );
            assert!(!metric.help.is_empty());
            for label in &metric.labels {
                let Some(known) = &label.values else { continue };
                if metric.labels.iter().any(|label| label.values.is_none()) {
                    continue;
                }
                for value in known {
                    assert!(
                        text.lines().any(|line| line.starts_with(metric.name)
                            && values(line, label.name) == Some(value)),
                        "{} {}={value}",
                        metric.name,
                        label.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_series_is_described() {
        let metrics = Metrics::new().unwrap();
        let _traffic = metrics.traffic("policy", "model", &Provider::default());
        let _summarizer = metrics.summarizer("default");
        let text = String::from_utf8(metrics.render()).unwrap();
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            let mut words = line.split(' ').skip(2);
            let (name, kind) = (words.next().unwrap(), words.next().unwrap());
            let described = metrics
                .describe()
                .iter()
                .find(|metric| metric.name == name)
                .unwrap();
            assert_eq!(described.kind.as_str(), kind, "{name}");
        }
    }
}

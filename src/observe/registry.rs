//! Registers metrics, describes them, and creates every series whose labels are known.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use crate::observe::label::Label;

/// A metric, or why it could not be registered: two metrics with one name, a defect.
pub(super) type Registered<M> = Result<M, prometheus::Error>;

/// What a metric is, as documents list it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricDescription {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// Its labels, in the order of registration.
    pub labels: Vec<LabelDescription>,
    /// Its help text.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// An amount that only grows.
    Counter,
    /// A state.
    Gauge,
    /// A distribution.
    Histogram,
}

impl MetricKind {
    /// The word after `# TYPE name`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A label of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelDescription {
    /// Its name.
    pub name: &'static str,
    /// Its values when they form a closed set; `None` when the configuration or the build names
    /// them.
    pub values: Option<Vec<&'static str>>,
}

impl LabelDescription {
    /// A label whose values the configuration or the build names.
    pub(super) fn open(name: &'static str) -> Self {
        LabelDescription { name, values: None }
    }

    /// A label with the values of a closed set.
    pub(super) fn of<L: Label>(name: &'static str) -> Self {
        let mut values: Vec<&'static str> = Vec::new();
        for value in L::all() {
            if !values.contains(&value.as_str()) {
                values.push(value.as_str());
            }
        }
        LabelDescription {
            name,
            values: Some(values),
        }
    }

    /// A label with the values listed.
    pub(super) fn listed(name: &'static str, values: &[&'static str]) -> Self {
        LabelDescription {
            name,
            values: Some(values.to_vec()),
        }
    }
}

/// The series of one metric by its label values, each looked up once.
#[derive(Debug)]
pub(super) struct Series<K, M>(Vec<(K, M)>);

impl<K: Copy + PartialEq, M> Series<K, M> {
    /// One series per key.
    pub(super) fn new(keys: impl IntoIterator<Item = K>, series: impl Fn(K) -> M) -> Self {
        Series(keys.into_iter().map(|key| (key, series(key))).collect())
    }

    /// The series of `key`; absent only for a key that was not listed.
    pub(super) fn of(&self, key: K) -> Option<&M> {
        let (_, series) = self.0.iter().find(|(known, _)| *known == key)?;
        Some(series)
    }
}

impl<K: Copy + PartialEq> Series<K, IntCounter> {
    pub(super) fn inc(&self, key: K) {
        self.inc_by(key, 1);
    }

    pub(super) fn inc_by(&self, key: K, amount: u64) {
        if let Some(counter) = self.of(key) {
            counter.inc_by(amount);
        }
    }
}

impl<K: Copy + PartialEq> Series<K, Histogram> {
    pub(super) fn observe(&self, key: K, value: f64) {
        if let Some(histogram) = self.of(key) {
            histogram.observe(value);
        }
    }
}

/// Registers metrics one by one.
#[derive(Debug, Default)]
pub(super) struct Registrar {
    registry: Registry,
    descriptions: Vec<MetricDescription>,
}

impl Registrar {
    /// The registry and the descriptions of all it holds.
    pub(super) fn finish(self) -> (Registry, Vec<MetricDescription>) {
        (self.registry, self.descriptions)
    }

    fn add<M: Collector + Clone + 'static>(
        &mut self,
        metric: M,
        description: MetricDescription,
    ) -> Registered<M> {
        self.registry.register(Box::new(metric.clone()))?;
        self.descriptions.push(description);
        Ok(metric)
    }

    pub(super) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
    ) -> Registered<IntCounter> {
        let description = describe(name, MetricKind::Counter, help, Vec::new());
        self.add(IntCounter::new(name, help)?, description)
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Registered<IntGauge> {
        let description = describe(name, MetricKind::Gauge, help, Vec::new());
        self.add(IntGauge::new(name, help)?, description)
    }

    pub(super) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        buckets: &[f64],
    ) -> Registered<Histogram> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let description = describe(name, MetricKind::Histogram, help, Vec::new());
        self.add(Histogram::with_opts(options)?, description)
    }

    /// Counters by one closed label.
    pub(super) fn counter_by<L: Label>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
    ) -> Registered<Series<L, IntCounter>> {
        let counters = self.counters(name, help, vec![LabelDescription::of::<L>(label)])?;
        Ok(Series::new(L::all(), |value| {
            counters.with_label_values(&[value.as_str()])
        }))
    }

    /// Histograms by one closed label.
    pub(super) fn histogram_by<L: Label>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        buckets: &[f64],
    ) -> Registered<Series<L, Histogram>> {
        let labels = vec![LabelDescription::of::<L>(label)];
        let histograms = self.histograms(name, help, labels, buckets)?;
        Ok(Series::new(L::all(), |value| {
            histograms.with_label_values(&[value.as_str()])
        }))
    }

    /// Counters by several labels, or by open ones.
    pub(super) fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<LabelDescription>,
    ) -> Registered<IntCounterVec> {
        let counters = IntCounterVec::new(Opts::new(name, help), &names(&labels))?;
        self.add(counters, describe(name, MetricKind::Counter, help, labels))
    }

    /// Gauges of whole numbers by labels.
    pub(super) fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<LabelDescription>,
    ) -> Registered<IntGaugeVec> {
        let gauges = IntGaugeVec::new(Opts::new(name, help), &names(&labels))?;
        self.add(gauges, describe(name, MetricKind::Gauge, help, labels))
    }

    /// Gauges of fractions by labels.
    pub(super) fn float_gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<LabelDescription>,
    ) -> Registered<GaugeVec> {
        let gauges = GaugeVec::new(Opts::new(name, help), &names(&labels))?;
        self.add(gauges, describe(name, MetricKind::Gauge, help, labels))
    }

    /// The state of the process, by the names that all Prometheus clients use: CPU time, memory,
    /// file descriptors, threads, start. The system tells it on Linux only.
    #[cfg(target_os = "linux")]
    pub(super) fn process(&mut self) -> Registered<()> {
        let collector = prometheus::process_collector::ProcessCollector::for_self();
        self.registry.register(Box::new(collector))?;
        for (name, kind, help) in PROCESS {
            self.descriptions
                .push(describe(name, kind, help, Vec::new()));
        }
        Ok(())
    }

    /// Histograms by labels.
    pub(super) fn histograms(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<LabelDescription>,
        buckets: &[f64],
    ) -> Registered<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let histograms = HistogramVec::new(options, &names(&labels))?;
        self.add(
            histograms,
            describe(name, MetricKind::Histogram, help, labels),
        )
    }
}

/// The metrics of the process.
#[cfg(target_os = "linux")]
const PROCESS: [(&str, MetricKind, &str); 7] = [
    (
        "process_cpu_seconds_total",
        MetricKind::Counter,
        "CPU time of the process, in whole seconds.",
    ),
    (
        "process_open_fds",
        MetricKind::Gauge,
        "Open file descriptors.",
    ),
    (
        "process_max_fds",
        MetricKind::Gauge,
        "File descriptors that may be open.",
    ),
    (
        "process_virtual_memory_bytes",
        MetricKind::Gauge,
        "Virtual memory.",
    ),
    (
        "process_resident_memory_bytes",
        MetricKind::Gauge,
        "Resident memory.",
    ),
    (
        "process_start_time_seconds",
        MetricKind::Gauge,
        "Start of the process, as a Unix time.",
    ),
    ("process_threads", MetricKind::Gauge, "Threads."),
];

fn describe(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    labels: Vec<LabelDescription>,
) -> MetricDescription {
    MetricDescription {
        name,
        kind,
        labels,
        help,
    }
}

fn names(labels: &[LabelDescription]) -> Vec<&'static str> {
    labels.iter().map(|label| label.name).collect()
}

/// Buckets of the time that requests wait for an upstream or a service, seconds.
pub(super) const WAIT_BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
/// Buckets of counts of messages, calls and the like.
pub(super) const ITEM_BUCKETS: [f64; 11] = [
    0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0,
];
/// Buckets of relative errors and of small shares.
pub(super) const ERROR_BUCKETS: [f64; 10] =
    [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0];

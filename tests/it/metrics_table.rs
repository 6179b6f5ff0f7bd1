//! The table of metrics in the documentation, held against what a running Baler exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{Baler, Upstream, json_answer, message, request, words};

/// A metric as one of both sides describes it: its labels, and the values that they take.
#[derive(Debug, Default)]
struct Metric {
    /// `counter`, `gauge` or `histogram`.
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
    /// The row of the table.
    text: String,
}

/// Labels whose values come from the configuration, from the traffic, or are listed elsewhere.
const OPEN_LABELS: [&str; 12] = [
    "action",
    "endpoint",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "model",
    "policy",
    "server_address",
    "server_port",
    "status",
    "strategy",
    "summarizer",
    "version",
];

/// The rows `| name | type | labels | meaning |` of the document that has the table.
fn documented() -> BTreeMap<String, Metric> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("deploy/README.md")).unwrap();
    let mut metrics = BTreeMap::new();
    let prefixes = ["| `baler_", "| `gen_ai_", "| `process_"];
    let is_row = |line: &&str| prefixes.iter().any(|prefix| line.starts_with(prefix));
    for row in table.lines().filter(is_row) {
        // Other tables of the document may begin with a metric, too; they have fewer cells.
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, _] = cells[..] else {
            continue;
        };
        // Each label begins its part of the cell; its values follow a colon.
        let labels = labels
            .split(';')
            .filter_map(|label| label.trim().split('`').nth(1));
        let metric = Metric {
            kind: kind.to_owned(),
            labels: labels
                .map(|label| (label.to_owned(), BTreeSet::new()))
                .collect(),
            text: row.to_owned(),
        };
        let name = name.trim_matches('`').to_owned();
        assert!(!metrics.contains_key(&name), "{name} has two rows");
        metrics.insert(name, metric);
    }
    assert!(metrics.len() > 30, "the table has {} rows", metrics.len());
    metrics
}

/// What Prometheus text says: families by their TYPE lines, labels and values by their series.
fn exported(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let metric = Metric {
                kind: kind.to_owned(),
                ..Metric::default()
            };
            metrics.insert(name.to_owned(), metric);
        } else if let Some((series, labels)) = line.split_once('{') {
            let family = ["_bucket", "_sum", "_count"]
                .into_iter()
                .filter_map(|suffix| series.strip_suffix(suffix))
                .find(|family| metrics.contains_key(*family))
                .unwrap_or(series);
            let metric = metrics.get_mut(family).expect("TYPE comes first");
            let (labels, _) = labels.rsplit_once('}').unwrap();
            for label in labels
                .split("\",")
                .filter(|label| !label.starts_with("le="))
            {
                let (name, value) = label.split_once("=\"").unwrap();
                let values = metric.labels.entry(name.to_owned()).or_default();
                values.insert(value.trim_end_matches('"').to_owned());
            }
        }
    }
    metrics
}

#[tokio::test]
async fn the_table_of_metrics_is_what_is_exported() {
    // An answer that reports usage, so that every family has a series.
    let (address, _) = Upstream::automatic(|_| {
        json_answer(concat!(
            r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}],"#,
            r#""usage":{"prompt_tokens":900,"completion_tokens":1,"total_tokens":901}}"#,
        ))
    })
    .await;
    let baler = Baler::start("[[policy]]\nwindow = 2000\n", address).await;
    let turns = (0..6).flat_map(|turn| {
        [
            message("user", &words(turn, 200)),
            message("assistant", &words(turn + 9, 200)),
        ]
    });
    let mut messages: Vec<String> = turns.collect();
    messages.push(message("user", "Go on."));
    assert_eq!(baler.chat(&request(&messages)).await.status, 200);
    baler.metric_reaches("baler_usage_learned_total", 1.0).await;

    let (documented, exported) = (
        documented(),
        exported(&baler.probe("/metrics").await.text()),
    );
    let mut faults = Vec::new();
    for name in documented
        .keys()
        .filter(|name| !exported.contains_key(*name))
    {
        faults.push(format!("{name} is documented and not exported"));
    }
    for (name, metric) in &exported {
        let Some(row) = documented.get(name) else {
            faults.push(format!("{name} is exported and not documented"));
            continue;
        };
        if metric.kind != row.kind {
            faults.push(format!(
                "{name} is a {}, documented {}",
                metric.kind, row.kind
            ));
        }
        let labels = |metric: &Metric| metric.labels.keys().cloned().collect::<Vec<_>>();
        if labels(metric) != labels(row) {
            let (exported, documented) = (labels(metric), labels(row));
            faults.push(format!(
                "{name} has labels {exported:?}, documented {documented:?}"
            ));
        }
        let closed = metric
            .labels
            .iter()
            .filter(|(label, _)| !OPEN_LABELS.contains(&label.as_str()));
        for (label, values) in closed {
            for value in values
                .iter()
                .filter(|value| !row.text.contains(&format!("`{value}`")))
            {
                faults.push(format!(
                    "{name} has {label}={value:?}, which is not documented"
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n  {}",
        faults.len(),
        faults.join("\n  ")
    );
}

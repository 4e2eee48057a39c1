//! Generates deploy/grafana from the definitions of the metrics, and checks that all metrics named in dashboards and
//! alert rules exist.

mod grafana;
mod known;
mod panels;
mod store;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use weir_advisor::figures::metric::{METRICS, Metric, MetricKind, SHARD, Unit};

use self::grafana::{PANEL_HEIGHT, PANEL_WIDTH, datasource_json, source_variable};
use self::panels::{PANELS, Panel};

const DASHBOARD: &str = "deploy/grafana/weir-observe.json";
const STORE_DASHBOARD: &str = "deploy/grafana/weir-job-store.json";
const TYPES_DASHBOARD: &str = "deploy/grafana/weir-job-types.json";
const LIMITS_DASHBOARD: &str = "deploy/grafana/weir-job-limits.json";
const RULES: &str = "deploy/prometheus";

/// Returns an error if a dashboard is outdated, and for each unknown metric.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = metrics_without_one_panel();
    for (file, expected) in dashboards() {
        if fs::read_to_string(root.join(file)).unwrap_or_default() != expected {
            problems.push(format!("{file} is out of date: cargo run -p xtask -- dashboards write"));
        }
    }
    let known = known::Known::read(root)?;
    let mut files: Vec<_> = dashboards().iter().map(|(file, _)| root.join(file)).collect();
    files.extend(json_files(&root.join(RULES))?);
    let mut used = 0;
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let names = known::names(&text);
        used += names.len();
        let unknown = names.into_iter().filter(|name| !known.has(name));
        let shown = file.strip_prefix(root).unwrap_or(file).display();
        problems.extend(unknown.map(|name| format!("{shown}: there is no metric {name}")));
    }
    if problems.is_empty() {
        println!("dashboards: {} panels, {used} names of metrics, all there", PANELS.len());
    }
    Ok(problems)
}

/// Returns the dashboards with their texts.
fn dashboards() -> [(&'static str, String); 4] {
    let observed = (DASHBOARD, dashboard_text());
    [
        observed,
        (STORE_DASHBOARD, store::text()),
        (TYPES_DASHBOARD, store::types_text()),
        (LIMITS_DASHBOARD, store::limits_text()),
    ]
}

/// Writes the dashboards.
pub(crate) fn write(root: &Path) -> anyhow::Result<Vec<String>> {
    for (file, text) in dashboards() {
        fs::write(root.join(file), text).context(file)?;
        println!("dashboards: {file} written");
    }
    Ok(Vec::new())
}

fn json_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<_> =
        entries.map(|entry| entry.map(|it| it.path())).collect::<Result<_, _>>()?;
    files.sort();
    Ok(files)
}

/// Returns the metrics that no panel or several panels show.
fn metrics_without_one_panel() -> Vec<String> {
    let shown = |metric: &Metric| {
        PANELS.iter().flat_map(|panel| panel.metrics).filter(|name| **name == metric.name).count()
    };
    let wrong = METRICS.iter().filter(|metric| shown(metric) != 1);
    wrong
        .map(|metric| format!("{DASHBOARD}: {} stands on {} panels", metric.name, shown(metric)))
        .collect()
}

fn dashboard_text() -> String {
    let mut panels = Vec::new();
    let (mut y, mut row, mut place) = (0, "", 0);
    for panel in &PANELS {
        if panel.row != row {
            // A row that is half full leaves its other half free.
            y += if place % 2 == 1 { PANEL_HEIGHT } else { 0 };
            (row, place) = (panel.row, 0);
            panels.push(row_json(panels.len(), row, y));
            y += 1;
        }
        panels.push(panel_json(panels.len(), panel, (place % 2) * PANEL_WIDTH, y));
        y += if place % 2 == 1 { PANEL_HEIGHT } else { 0 };
        place += 1;
    }
    let dashboard = json!({
        "uid": "weir-observe",
        "title": "Weir: what is observed",
        "description": "Sidekiq, its Redis and its Postgres, as a Weir with [observe] sees them. Made by cargo run -p xtask -- dashboards write.",
        "tags": ["weir"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-3h", "to": "now" },
        "templating": { "list": [datasource_json(), instance_variable()] },
        "panels": panels,
    });
    let text = serde_json::to_string_pretty(&dashboard).unwrap_or_default();
    format!("{text}\n")
}

fn instance_variable() -> Value {
    json!({
        "name": "instance",
        "label": "Weir",
        "type": "query",
        "datasource": source_variable(),
        "query": "label_values(weir_observe_look_timestamp_seconds, instance)",
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

fn row_json(id: usize, title: &str, y: usize) -> Value {
    let place = json!({ "x": 0, "y": y, "w": 2 * PANEL_WIDTH, "h": 1 });
    json!({ "id": id + 1, "type": "row", "title": title, "gridPos": place, "collapsed": false, "panels": [] })
}

fn panel_json(id: usize, panel: &Panel, x: usize, y: usize) -> Value {
    let metrics: Vec<&Metric> = panel.metrics.iter().map(|name| find_metric(name)).collect();
    let targets =
        metrics.iter().enumerate().map(|(at, metric)| target_json(at, metric, metrics.len() > 1));
    let words: Vec<&str> = metrics.iter().map(|metric| metric.help).collect();
    json!({
        "id": id + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": words.join(". "),
        "datasource": source_variable(),
        "gridPos": { "x": x, "y": y, "w": PANEL_WIDTH, "h": PANEL_HEIGHT },
        "fieldConfig": { "defaults": { "unit": grafana_unit(metrics[0]), "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"] } },
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn find_metric(name: &str) -> &'static Metric {
    let found = METRICS.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("a panel names {name}, which is no metric"))
}

fn target_json(at: usize, metric: &Metric, has_others: bool) -> Value {
    let series = format!("{}{{instance=~\"$instance\"}}", metric.series());
    let expression = match metric.kind {
        MetricKind::Gauge => series,
        MetricKind::Counter => format!("rate({series}[$__rate_interval])"),
    };
    // Where there is one Redis only, nothing stands in the place of its name.
    let shard = metric.of_each_sidekiq.then_some(SHARD);
    let labels = metric.labels.iter().copied().chain(shard);
    let labels: Vec<String> = labels.map(|label| format!("{{{{{label}}}}}")).collect();
    let own = metric.name.replace('_', " ");
    // Without a label of its own it would have no name where there is one Redis.
    let legend = match (metric.labels.is_empty(), has_others) {
        (false, false) => labels.join(" "),
        (true, _) | (false, true) => [&[own][..], &labels].concat().join(" "),
    };
    let letter = char::from(b'A' + u8::try_from(at).unwrap_or_default());
    json!({ "refId": letter.to_string(), "expr": expression, "legendFormat": legend, "datasource": source_variable() })
}

/// Returns Grafana's name of the unit.
fn grafana_unit(metric: &Metric) -> &'static str {
    match (metric.kind, metric.unit) {
        (MetricKind::Counter, _) | (MetricKind::Gauge, Unit::PerSecond) => "cps",
        (_, Unit::Seconds) => "s",
        (_, Unit::Bytes) => "bytes",
        (_, Unit::Share) => "percentunit",
        (_, Unit::Count | Unit::Yes) => "short",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_on_one_panel() {
        assert_eq!(metrics_without_one_panel(), [] as [String; 0]);
    }

    #[test]
    fn counters_are_shown_as_rates_and_panels_do_not_overlap() {
        let dashboard: Value = serde_json::from_str(&dashboard_text()).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let mut places = std::collections::BTreeSet::new();
        for panel in panels {
            let place = &panel["gridPos"];
            assert!(places.insert((place["y"].as_u64(), place["x"].as_u64())), "{panel}");
        }
        let text = dashboard_text();
        assert!(
            text.contains("rate(weir_observe_jobs_processed_total{instance=~\\\"$instance\\\"}[")
        );
        assert!(!text.contains("rate(weir_observe_queue_size"));
    }

    #[test]
    fn sidekiq_metrics_are_labelled_with_their_redis() {
        let legend = |name| target_json(0, find_metric(name), false)["legendFormat"].clone();
        for (name, expected) in [
            ("queue_size", "{{queue}} {{redis}}"),
            ("threads", "threads {{redis}}"),
            ("redis_clients", "{{redis}}"),
            ("lock_waits", "lock waits"),
        ] {
            assert_eq!(legend(name), expected, "{name}");
        }
    }
}

//! The dashboard of the job store: latency by operation, commands, memory, by shard.

use serde_json::{Value, json};

use super::grafana::{PANEL_HEIGHT, PANEL_WIDTH, datasource_json, source_variable};

/// A chart.
struct StorePanel {
    title: &'static str,
    description: &'static str,
    unit: &'static str,
    /// Each with its legend. `$S` stands for the selector of the series.
    queries: &'static [(&'static str, &'static str)],
}

const PANELS: [StorePanel; 12] = [
    StorePanel {
        title: "Median duration of an operation",
        description: "As Weir measures it, with the way to Redis and back. The embedded store times one of eight",
        unit: "s",
        queries: &[(
            "histogram_quantile(0.5, sum by (le, shard, operation) (rate(weir_jobs_store_seconds_bucket$S)))",
            "{{operation}} {{shard}}",
        )],
    },
    StorePanel {
        title: "99th percentile of the duration of an operation",
        description: "As Weir measures it, with the way to Redis and back. The embedded store times one of eight",
        unit: "s",
        queries: &[(
            "histogram_quantile(0.99, sum by (le, shard, operation) (rate(weir_jobs_store_seconds_bucket$S)))",
            "{{operation}} {{shard}}",
        )],
    },
    StorePanel {
        title: "Operations",
        description: "Operations of the store, of all Weir nodes",
        unit: "ops",
        queries: &[(
            "sum by (shard, operation) (rate(weir_jobs_store_operations_total$S))",
            "{{operation}} {{shard}}",
        )],
    },
    StorePanel {
        title: "Commands of Redis",
        description: "Of all clients, by what they do. The commands in a script count as well",
        unit: "ops",
        queries: &[(
            "max by (shard, kind) (rate(weir_jobs_store_commands_total$S))",
            "{{kind}} {{shard}}",
        )],
    },
    StorePanel {
        title: "Mean duration of a command inside Redis",
        description: "That of a script includes its commands",
        unit: "s",
        queries: &[(
            "max by (shard, kind) (rate(weir_jobs_store_command_seconds_total$S) / rate(weir_jobs_store_commands_total$S))",
            "{{kind}} {{shard}}",
        )],
    },
    StorePanel {
        title: "CPU of Redis",
        description: "Of the thread that runs the commands: one core is its limit",
        unit: "percentunit",
        queries: &[("max by (shard) (rate(weir_jobs_store_cpu_seconds_total$S))", "{{shard}}")],
    },
    StorePanel {
        title: "CPU time of Redis per job",
        description: "Of all shards, by the jobs that ended on these Weir nodes. Too high where Sidekiq works as well",
        unit: "s",
        queries: &[(
            "sum(max by (shard) (rate(weir_jobs_store_cpu_seconds_total$S))) / sum(rate(weir_jobs_processed_total$S))",
            "per job",
        )],
    },
    StorePanel {
        title: "Memory of Redis",
        description: "With its limit (maxmemory), if it has one",
        unit: "bytes",
        queries: &[
            ("max by (shard) (weir_jobs_store_memory_bytes$G)", "{{shard}}"),
            ("max by (shard) (weir_jobs_store_memory_max_bytes$G) > 0", "limit {{shard}}"),
        ],
    },
    StorePanel {
        title: "Payloads that are no jobs",
        description: "Moved to the dead set, since the start of each node",
        unit: "short",
        queries: &[("sum by (shard) (weir_jobs_store_malformed_payloads_total$G)", "{{shard}}")],
    },
    StorePanel {
        title: "Nodes",
        description: "Nodes that share the store, by state. Stopped: in order, within the last hour",
        unit: "short",
        queries: &[("max by (state) (weir_jobs_nodes$G)", "{{state}}")],
    },
    StorePanel {
        title: "Shards that can be used",
        description: "1: each node can use the shard; 0: at least one node can't",
        unit: "short",
        queries: &[("min by (shard) (weir_jobs_shard_up$G)", "{{shard}}")],
    },
    StorePanel {
        title: "Jobs on a shard",
        description: "In all states, when last read",
        unit: "short",
        queries: &[(
            "sum by (shard) (max by (shard, state) (weir_jobs_shard_jobs$G))",
            "{{shard}}",
        )],
    },
];

const INSTANCE: &str = "{instance=~\"$instance\"}";

/// Returns the text of the dashboard.
pub(super) fn text() -> String {
    let panels = PANELS.iter().enumerate().map(|(at, panel)| panel_json(at, panel));
    let dashboard = json!({
        "uid": "weir-job-store",
        "title": "Weir: the job store",
        "description": "Latency, commands and memory of the store of jobs, by shard. Made by cargo run -p xtask -- dashboards write.",
        "tags": ["weir"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-3h", "to": "now" },
        "templating": { "list": [datasource_json(), instance_json()] },
        "panels": panels.collect::<Vec<_>>(),
    });
    format!("{}\n", serde_json::to_string_pretty(&dashboard).unwrap_or_default())
}

fn instance_json() -> Value {
    json!({
        "name": "instance",
        "label": "Weir",
        "type": "query",
        "datasource": source_variable(),
        "query": "label_values(weir_jobs_store_operations_total, instance)",
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

fn panel_json(at: usize, panel: &StorePanel) -> Value {
    let place = json!({
        "x": at % 2 * PANEL_WIDTH,
        "y": at / 2 * PANEL_HEIGHT,
        "w": PANEL_WIDTH,
        "h": PANEL_HEIGHT,
    });
    let targets = panel.queries.iter().enumerate().map(|(at, (query, legend))| {
        let expression = query
            .replace("$S", &format!("{INSTANCE}[$__rate_interval]"))
            .replace("$G", INSTANCE);
        let letter = char::from(b'A' + u8::try_from(at).unwrap_or_default());
        json!({ "refId": letter.to_string(), "expr": expression, "legendFormat": legend, "datasource": source_variable() })
    });
    json!({
        "id": at + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": source_variable(),
        "gridPos": place,
        "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"] } },
        "targets": targets.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_is_of_the_chosen_instances_and_panels_do_not_overlap() {
        let dashboard: Value = serde_json::from_str(&text()).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let mut places = std::collections::BTreeSet::new();
        for panel in panels {
            let place = &panel["gridPos"];
            assert!(places.insert((place["y"].as_u64(), place["x"].as_u64())), "{panel}");
            for target in panel["targets"].as_array().expect("targets") {
                let query = target["expr"].as_str().expect("a query");
                let metrics = query.matches("weir_jobs_").count();
                assert_eq!(query.matches(INSTANCE).count(), metrics, "{query}");
                assert!(!query.contains("$S") && !query.contains("$G"), "{query}");
            }
        }
    }
}

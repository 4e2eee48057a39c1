//! The dashboards of the job store (latency by operation, commands, memory, by shard), of the types of jobs, and of limits.

use serde_json::{Value, json};

use super::grafana::{PANEL_HEIGHT, PANEL_WIDTH, datasource_json, source_variable};

/// A chart.
struct JobsPanel {
    title: &'static str,
    description: &'static str,
    unit: &'static str,
    /// Each with its legend. `$S` stands for the selector of the series with the interval of rates, `$G` for the
    /// selector alone, `$I` for the condition in it, `$R` for the interval.
    queries: &'static [(&'static str, &'static str)],
}

const STORE_PANELS: [JobsPanel; 12] = [
    JobsPanel {
        title: "Median duration of an operation",
        description: "As Weir measures it, with the way to Redis and back. The embedded store times one of eight",
        unit: "s",
        queries: &[(
            "histogram_quantile(0.5, sum by (le, shard, operation) (rate(weir_jobs_store_seconds_bucket$S)))",
            "{{operation}} {{shard}}",
        )],
    },
    JobsPanel {
        title: "99th percentile of the duration of an operation",
        description: "As Weir measures it, with the way to Redis and back. The embedded store times one of eight",
        unit: "s",
        queries: &[(
            "histogram_quantile(0.99, sum by (le, shard, operation) (rate(weir_jobs_store_seconds_bucket$S)))",
            "{{operation}} {{shard}}",
        )],
    },
    JobsPanel {
        title: "Operations",
        description: "Operations of the store, of all Weir nodes",
        unit: "ops",
        queries: &[(
            "sum by (shard, operation) (rate(weir_jobs_store_operations_total$S))",
            "{{operation}} {{shard}}",
        )],
    },
    JobsPanel {
        title: "Commands of Redis",
        description: "Of all clients, by what they do. The commands in a script count as well",
        unit: "ops",
        queries: &[(
            "max by (shard, kind) (rate(weir_jobs_store_commands_total$S))",
            "{{kind}} {{shard}}",
        )],
    },
    JobsPanel {
        title: "Mean duration of a command inside Redis",
        description: "That of a script includes its commands",
        unit: "s",
        queries: &[(
            "max by (shard, kind) (rate(weir_jobs_store_command_seconds_total$S) / rate(weir_jobs_store_commands_total$S))",
            "{{kind}} {{shard}}",
        )],
    },
    JobsPanel {
        title: "CPU of Redis",
        description: "Of the thread that runs the commands: one core is its limit",
        unit: "percentunit",
        queries: &[("max by (shard) (rate(weir_jobs_store_cpu_seconds_total$S))", "{{shard}}")],
    },
    JobsPanel {
        title: "CPU time of Redis per job",
        description: "Of all shards, by the jobs that ended on these Weir nodes. Too high where Sidekiq works as well",
        unit: "s",
        queries: &[(
            "sum(max by (shard) (rate(weir_jobs_store_cpu_seconds_total$S))) / sum(rate(weir_jobs_processed_total$S))",
            "per job",
        )],
    },
    JobsPanel {
        title: "Memory of Redis",
        description: "With its limit (maxmemory), if it has one",
        unit: "bytes",
        queries: &[
            ("max by (shard) (weir_jobs_store_memory_bytes$G)", "{{shard}}"),
            ("max by (shard) (weir_jobs_store_memory_max_bytes$G) > 0", "limit {{shard}}"),
        ],
    },
    JobsPanel {
        title: "Payloads that are no jobs",
        description: "Moved to the dead set, since the start of each node",
        unit: "short",
        queries: &[("sum by (shard) (weir_jobs_store_malformed_payloads_total$G)", "{{shard}}")],
    },
    JobsPanel {
        title: "Nodes",
        description: "Nodes that share the store, by state. Stopped: in order, within the last hour",
        unit: "short",
        queries: &[("max by (state) (weir_jobs_nodes$G)", "{{state}}")],
    },
    JobsPanel {
        title: "Shards that can be used",
        description: "1: each node can use the shard; 0: at least one node can't",
        unit: "short",
        queries: &[("min by (shard) (weir_jobs_shard_up$G)", "{{shard}}")],
    },
    JobsPanel {
        title: "Jobs on a shard",
        description: "In all states, when last read",
        unit: "short",
        queries: &[(
            "sum by (shard) (max by (shard, state) (weir_jobs_shard_jobs$G))",
            "{{shard}}",
        )],
    },
];

/// The panels of types show those that are first at present, because there may be 200.
const TYPE_PANELS: [JobsPanel; 6] = [
    JobsPanel {
        title: "Workers' time by type",
        description: "Workers that are busy with each type: the sum of its runs per second. The first 15 types",
        unit: "short",
        queries: &[(
            "topk(15, sum by (jobtype) (rate(weir_jobs_type_run_seconds_total$S)))",
            "{{jobtype}}",
        )],
    },
    JobsPanel {
        title: "Jobs in progress by type",
        description: "The first 15 types",
        unit: "short",
        queries: &[("topk(15, sum by (jobtype) (weir_jobs_type_running$G))", "{{jobtype}}")],
    },
    JobsPanel {
        title: "Jobs that ended by type",
        description: "With or without an error. The first 15 types",
        unit: "ops",
        queries: &[(
            "topk(15, sum by (jobtype) (rate(weir_jobs_type_ended_total$S)))",
            "{{jobtype}}",
        )],
    },
    JobsPanel {
        title: "Failures by type",
        description: "The first 15 types",
        unit: "ops",
        queries: &[(
            "topk(15, sum by (jobtype) (rate(weir_jobs_type_ended_total{result=\"failed\",$I}$R)))",
            "{{jobtype}}",
        )],
    },
    JobsPanel {
        title: "95th percentile of the wait by type",
        description: "Over the last hour, of the node where it is longest. The first 15 types",
        unit: "s",
        queries: &[(
            "topk(15, max by (jobtype) (weir_jobs_type_wait_quantile_seconds{quantile=\"0.95\",$I}))",
            "{{jobtype}}",
        )],
    },
    JobsPanel {
        title: "95th percentile of the run by type",
        description: "Over the last hour, of the node where it is longest. The first 15 types",
        unit: "s",
        queries: &[(
            "topk(15, max by (jobtype) (weir_jobs_type_run_quantile_seconds{quantile=\"0.95\",$I}))",
            "{{jobtype}}",
        )],
    },
];

/// No panel has tenants by name: there may be 100,000.
const LIMIT_PANELS: [JobsPanel; 10] = [
    JobsPanel {
        title: "Jobs that wait because of a limit",
        description: "By the kind of the limit: jobs at once (of the queue or of a tenant), rate, shared resource",
        unit: "short",
        queries: &[
            ("sum by (queue) (weir_jobs_queue_concurrency_blocked$G) > 0", "concurrency {{queue}}"),
            ("sum by (queue) (weir_jobs_queue_rate_blocked$G) > 0", "rate {{queue}}"),
            ("sum by (queue) (weir_jobs_queue_resource_blocked$G) > 0", "resource {{queue}}"),
        ],
    },
    JobsPanel {
        title: "Pushes rejected by a cap",
        description: "jobs_max, bytes_max and tenant_jobs_max of a queue, and disk_max",
        unit: "ops",
        queries: &[(
            "sum by (queue, cap) (rate(weir_jobs_queue_full_total$S))",
            "{{queue}} {{cap}}",
        )],
    },
    JobsPanel {
        title: "Use of concurrency, by queue",
        description: "Jobs in progress of those that may be. In Redis, of this node's view",
        unit: "percentunit",
        queries: &[(
            "sum by (queue) (weir_jobs_queue_working$G) / max by (queue) (weir_jobs_queue_concurrency$G)",
            "{{queue}}",
        )],
    },
    JobsPanel {
        title: "Use of shared resources",
        description: "Jobs in progress of those that may use the resource at once",
        unit: "percentunit",
        queries: &[(
            "sum by (resource) (weir_jobs_resource_working$G) / max by (resource) (weir_jobs_resource_concurrency$G)",
            "{{resource}}",
        )],
    },
    JobsPanel {
        title: "Jobs that wait for a shared resource",
        description: "A job that waits for two counts for both",
        unit: "short",
        queries: &[("sum by (resource) (weir_jobs_resource_blocked$G)", "{{resource}}")],
    },
    JobsPanel {
        title: "Tenants",
        description: "With a lane of their own, and lanes that tenants share because there are more than tenants_max",
        unit: "short",
        queries: &[
            ("sum by (queue) (weir_jobs_queue_tenant_lanes$G) > 0", "{{queue}}"),
            ("sum by (queue) (weir_jobs_queue_shared_lanes$G) > 0", "shared {{queue}}"),
        ],
    },
    JobsPanel {
        title: "Tenants at a limit",
        description: "Tenants with jobs that wait, because as many of theirs are in progress as may be, or because of their rate",
        unit: "short",
        queries: &[
            ("sum by (queue) (weir_jobs_queue_full_lanes$G) > 0", "concurrency {{queue}}"),
            ("sum by (queue) (weir_jobs_queue_sleeping_lanes$G) > 0", "rate {{queue}}"),
        ],
    },
    JobsPanel {
        title: "Time to drain",
        description: "At the rates of the last minute, with the retries that will come back. No line: the queue does not shrink",
        unit: "s",
        queries: &[("max by (queue) (weir_jobs_queue_drain_seconds$G)", "{{queue}}")],
    },
    JobsPanel {
        title: "Limits lowered after a crash",
        description: "Time until limits of jobs at once apply in full again",
        unit: "s",
        queries: &[("max by (instance) (weir_jobs_limits_lowered_seconds$G)", "{{instance}}")],
    },
    JobsPanel {
        title: "Cron jobs and batches",
        description: "Times of cron jobs by result; batches, and those whose jobs that are left have all failed",
        unit: "short",
        queries: &[
            ("sum by (result) (increase(weir_jobs_cron_runs_total$S))", "cron {{result}}"),
            ("sum(weir_jobs_batches$G)", "batches"),
            ("sum(weir_jobs_batches_waiting$G)", "batches that wait for failed jobs"),
        ],
    },
];

const INSTANCE: &str = "instance=~\"$instance\"";
const INTERVAL: &str = "[$__rate_interval]";

/// A dashboard of jobs.
struct JobsDashboard {
    uid: &'static str,
    title: &'static str,
    description: &'static str,
    /// The metric whose instances can be chosen.
    metric: &'static str,
    panels: &'static [JobsPanel],
}

/// Returns the text of the dashboard of the store.
pub(super) fn text() -> String {
    dashboard_text(&JobsDashboard {
        uid: "weir-job-store",
        title: "Weir: the job store",
        description: "Latency, commands and memory of the store of jobs, by shard.",
        metric: "weir_jobs_store_operations_total",
        panels: &STORE_PANELS,
    })
}

/// Returns the text of the dashboard of the types of jobs.
pub(super) fn types_text() -> String {
    dashboard_text(&JobsDashboard {
        uid: "weir-job-types",
        title: "Weir: types of jobs",
        description: "Run time, failures and waits by type of job.",
        metric: "weir_jobs_type_started_total",
        panels: &TYPE_PANELS,
    })
}

/// Returns the text of the dashboard of limits.
pub(super) fn limits_text() -> String {
    dashboard_text(&JobsDashboard {
        uid: "weir-job-limits",
        title: "Weir: limits of jobs",
        description: "What limits hold back, pushes that caps reject, tenants, cron jobs and batches.",
        metric: "weir_jobs_connections",
        panels: &LIMIT_PANELS,
    })
}

fn dashboard_text(dashboard: &JobsDashboard) -> String {
    let panels = dashboard.panels.iter().enumerate().map(|(at, panel)| panel_json(at, panel));
    let made = "Made by cargo run -p xtask -- dashboards write.";
    let dashboard = json!({
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": format!("{} {made}", dashboard.description),
        "tags": ["weir"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-3h", "to": "now" },
        "templating": { "list": [datasource_json(), instance_json(dashboard.metric)] },
        "panels": panels.collect::<Vec<_>>(),
    });
    format!("{}\n", serde_json::to_string_pretty(&dashboard).unwrap_or_default())
}

fn instance_json(metric: &str) -> Value {
    json!({
        "name": "instance",
        "label": "Weir",
        "type": "query",
        "datasource": source_variable(),
        "query": format!("label_values({metric}, instance)"),
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

fn panel_json(at: usize, panel: &JobsPanel) -> Value {
    let place = json!({
        "x": at % 2 * PANEL_WIDTH,
        "y": at / 2 * PANEL_HEIGHT,
        "w": PANEL_WIDTH,
        "h": PANEL_HEIGHT,
    });
    let targets = panel.queries.iter().enumerate().map(|(at, (query, legend))| {
        let expression = query
            .replace("$S", &format!("{{{INSTANCE}}}{INTERVAL}"))
            .replace("$G", &format!("{{{INSTANCE}}}"))
            .replace("$I", INSTANCE)
            .replace("$R", INTERVAL);
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
        for text in [text(), types_text()] {
            let dashboard: Value = serde_json::from_str(&text).expect("JSON");
            let panels = dashboard["panels"].as_array().expect("panels");
            let mut places = std::collections::BTreeSet::new();
            for panel in panels {
                let place = &panel["gridPos"];
                assert!(places.insert((place["y"].as_u64(), place["x"].as_u64())), "{panel}");
                for target in panel["targets"].as_array().expect("targets") {
                    let query = target["expr"].as_str().expect("a query");
                    let metrics = query.matches("weir_jobs_").count();
                    assert_eq!(query.matches(INSTANCE).count(), metrics, "{query}");
                    assert!(
                        !["$S", "$G", "$I", "$R"].iter().any(|it| query.contains(it)),
                        "{query}"
                    );
                }
            }
        }
    }
}

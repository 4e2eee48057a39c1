//! The nodes that share the jobs or the realtime channels with the one that is asked.

use weir_admin::status::Status;
use weir_base::node::{JoinedNode, joined};
use weir_jobs::node::NodeFigures as Jobs;
use weir_realtime::shared_log::NodeFigures as Realtime;

use crate::exit::Exit;
use crate::output::{self, seconds};

type Node<'a> = JoinedNode<'a, Jobs, Realtime>;

const COLUMNS: [&str; 13] = [
    "NODE", "ID", "STATE", "VERSION", "UP", "LOAD", "CORES", "JOBS/S", "WORKING", "CLIENTS",
    "CHANNELS", "REDIS", "REPORT",
];

/// Returns the nodes by hostname. Without a shared store, there are none.
fn of(status: &Status) -> Vec<Node<'_>> {
    let jobs = status.jobs.as_ref().map(|jobs| &jobs.log.nodes[..]).unwrap_or_default();
    let realtime = status.realtime.as_ref().map(|realtime| &realtime.nodes[..]);
    joined(jobs, realtime.unwrap_or_default())
}

/// Prints a line for each node.
pub(super) fn print(status: &Status) {
    for node in of(status) {
        let this = if node.is_self { " (this node)" } else { "" };
        let figures = match node.age_seconds {
            None => "of a version that reports nothing".to_owned(),
            Some(age) => figures(&node, age),
        };
        output::line(&format!("{:<12} {}{this}: {}, {figures}", "node", name(&node), node.state));
    }
}

/// Prints a table of all nodes and the addresses of their consoles. Reports whether one is away.
pub(super) fn print_all(status: &Status) -> Exit {
    let nodes = of(status);
    if nodes.is_empty() {
        output::line(
            "this node shares neither jobs nor realtime channels with others: see `store` in [jobs] and \
             `broker` in [realtime]",
        );
        return Exit::Fine;
    }
    output::table(&COLUMNS, &nodes.iter().map(row).collect::<Vec<_>>());
    for node in nodes.iter().filter(|node| !node.process.console.is_empty()) {
        output::line(&format!("console of {}: {}", name(node), node.process.console));
    }
    let is_away = nodes.iter().any(|node| node.state == "away");
    if is_away { Exit::FoundProblem } else { Exit::Fine }
}

/// Returns the nodes as JSON.
pub(super) fn json(status: &Status) -> serde_json::Value {
    let node = |node: &Node<'_>| {
        serde_json::json!({
            "id": node.id,
            "is_self": node.is_self,
            "state": node.state,
            "age_seconds": node.age_seconds,
            "process": node.process,
            "jobs": node.first,
            "realtime": node.second,
        })
    };
    of(status).iter().map(node).collect()
}

/// Names come from the store, so special characters are escaped.
fn name(node: &Node<'_>) -> String {
    let name = format!("{} {}", node.process.hostname.escape_debug(), node.id.escape_debug());
    name.trim_start().to_owned()
}

fn figures(node: &Node<'_>, age: f64) -> String {
    let process = node.process;
    let mut words = vec![format!("version {}", process.version.escape_debug())];
    if let Some(jobs) = node.first {
        words.push(format!("{:.1} jobs/s", jobs.jobs_per_second));
        words.push(format!("{} working", jobs.busy));
        words.push(output::count(jobs.workers, "worker"));
        words.push(output::count(jobs.connections, "connection"));
    }
    if let Some(realtime) = node.second {
        words.push(output::count(realtime.clients, "realtime client"));
        words.push(output::count(realtime.channels, "channel"));
    }
    words.push(format!("load {:.1}", process.load));
    words.push(output::count(process.cores.into(), "core"));
    words.push(format!("{age:.0} s ago"));
    words.join(", ")
}

fn row(node: &Node<'_>) -> Vec<String> {
    let process = node.process;
    let jobs = |figure: fn(&Jobs) -> String| node.first.map_or_else(none, figure);
    let realtime = |figure: fn(&Realtime) -> String| node.second.map_or_else(none, figure);
    let this = if node.is_self { " *" } else { "" };
    let Some(age) = node.age_seconds else {
        let known = [String::new(), output::printable(node.id) + this, node.state.to_owned()];
        let unknown = std::iter::repeat_with(none).take(COLUMNS.len() - known.len());
        return known.into_iter().chain(unknown).collect();
    };
    vec![
        output::printable(&process.hostname),
        output::printable(node.id) + this,
        node.state.to_owned(),
        output::printable(&process.version),
        seconds(process.uptime_seconds),
        format!("{:.1}", process.load),
        process.cores.to_string(),
        jobs(|jobs| format!("{:.1}", jobs.jobs_per_second)),
        jobs(|jobs| jobs.busy.to_string()),
        realtime(|realtime| realtime.clients.to_string()),
        realtime(|realtime| realtime.channels.to_string()),
        realtime(|realtime| format!("{:.1} ms", realtime.log_seconds * 1_000.0)),
        format!("{} ago", seconds(age)),
    ]
}

fn none() -> String {
    "-".to_owned()
}

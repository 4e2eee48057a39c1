//! The nodes that share jobs or realtime channels, as they reported themselves.

use askama::Template;
use weir_base::node::{JoinedNode, joined};
use weir_jobs::node::NodeFigures as JobFigures;
use weir_realtime::shared_log::NodeFigures as RealtimeFigures;

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::request::{PageRequest, PageResult};
use super::snapshot;
use crate::figures;
use crate::visible::visible;

type Node<'a> = JoinedNode<'a, JobFigures, RealtimeFigures>;

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: PageFrame,
    live: LiveSection,
}

#[derive(Template)]
#[template(path = "nodes_live.html")]
struct NodesLive {
    nodes: Vec<NodeRow>,
}

struct NodeRow {
    hostname: String,
    id: String,
    is_self: bool,
    state: String,
    tag: &'static str,
    /// The address of another node's console.
    console: Option<String>,
    /// The figures of a node that reports any.
    figures: Option<NodeFigures>,
}

struct NodeFigures {
    version: String,
    uptime: String,
    load: String,
    rate: String,
    busy: String,
    workers: String,
    connections: String,
    clients: String,
    channels: String,
    redis: String,
    age: String,
}

/// `GET /nodes`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let snapshot = snapshot::for_request(&request).await?;
    let jobs = snapshot.jobs.as_ref().map(|jobs| &jobs.overview.log.nodes[..]);
    let realtime = snapshot.realtime.as_ref().map(|realtime| &realtime.overview.nodes[..]);
    let nodes = joined(jobs.unwrap_or_default(), realtime.unwrap_or_default());
    let live = NodesLive { nodes: nodes.iter().map(NodeRow::new).collect() };
    request.live_response(live.render(), &[], |live| {
        Ok(html(&NodesPage { frame: request.frame(Section::Nodes, "Nodes").refreshed(), live }))
    })
}

impl NodeRow {
    fn new(node: &Node<'_>) -> Self {
        let text = |text: &str| visible(text).into_owned();
        let console = &node.process.console;
        Self {
            hostname: text(&node.process.hostname),
            id: text(node.id),
            is_self: node.is_self,
            state: text(node.state),
            tag: if node.state == "away" { "critical" } else { "muted" },
            console: (!console.is_empty() && !node.is_self).then(|| console.clone()),
            figures: node.age_seconds.map(|age| NodeFigures::new(node, age)),
        }
    }
}

impl NodeFigures {
    fn new(node: &Node<'_>, age: f64) -> Self {
        let none = || "–".to_owned();
        let jobs = |figure: fn(&JobFigures) -> String| node.first.map_or_else(none, figure);
        let realtime =
            |figure: fn(&RealtimeFigures) -> String| node.second.map_or_else(none, figure);
        let process = node.process;
        Self {
            version: visible(&process.version).into_owned(),
            uptime: figures::whole_duration(process.uptime_seconds),
            load: format!("{:.1} of {}", process.load, figures::count(process.cores.into())),
            rate: jobs(|jobs| figures::rate(jobs.jobs_per_second)),
            busy: jobs(|jobs| figures::count(jobs.busy)),
            workers: jobs(|jobs| figures::count(jobs.workers)),
            connections: jobs(|jobs| figures::count(jobs.connections)),
            clients: realtime(|realtime| figures::count(realtime.clients)),
            channels: realtime(|realtime| figures::count(realtime.channels)),
            redis: realtime(|realtime| figures::duration(realtime.log_seconds)),
            age: figures::whole_duration(age),
        }
    }
}

//! The store of the jobs, by shard: how long its operations take, and what the Redis behind it
//! does.

use askama::Template;
use serde::Deserialize;
use weir_jobs::view::{StoreCommandView, StoreOperationView, StoreServerView, StoreShardView};

use super::chart;
use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::named_value::NamedValue;
use super::ranges::{self, ChartRange};
use super::request::{PageRequest, PageResult};
use super::snapshot;
use crate::address::address;
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

/// `?shard=..&range=..`
#[derive(Debug, Default, Deserialize)]
struct StoreQuery {
    #[serde(default)]
    shard: String,
    #[serde(default)]
    range: String,
}

#[derive(Template)]
#[template(path = "store.html")]
struct StorePage {
    frame: PageFrame,
    live: LiveSection,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    points_max: u64,
    /// None: the shard has no charts yet.
    chart_source: Option<String>,
    chart_shards_max: String,
    shards: Vec<ShardLink>,
    has_server: bool,
}

/// A link to the page of a shard.
struct ShardLink {
    name: String,
    address: String,
    is_chosen: bool,
}

#[derive(Template)]
#[template(path = "store_live.html")]
struct StoreLive {
    store: String,
    problem: Option<String>,
    /// None: the store measures nothing.
    shard: Option<ShardPart>,
}

struct ShardPart {
    name: String,
    malformed: u64,
    operations: Vec<OperationRow>,
    server: Option<ServerPart>,
}

struct OperationRow {
    name: &'static str,
    rate: String,
    median: String,
    p99: String,
    total: String,
}

struct ServerPart {
    tiles: Vec<NamedValue>,
    commands: Vec<CommandRow>,
}

struct CommandRow {
    command: String,
    kind: String,
    rate: String,
    mean: String,
}

/// Rows are written once a second; a finer chart would have gaps.
const SECONDS_PER_POINT_MIN: u64 = 2;
const CHART_POINTS_MAX: u64 = 360;

/// `GET /store`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let snapshot = snapshot::for_request(&request).await?;
    let overview = &snapshot.jobs()?.overview;
    let query = request.query::<StoreQuery>()?;
    let chosen = match overview.stores.iter().find(|shard| shard.shard == query.shard) {
        Some(shard) => Some(shard),
        None if query.shard.is_empty() => overview.stores.first(),
        None => return Err(unknown(&query.shard)),
    };
    let live = StoreLive {
        store: overview.store_text(),
        problem: overview.log.problem.clone(),
        shard: chosen.map(ShardPart::new),
    };
    let name = chosen.map(|shard| shard.shard.clone()).unwrap_or_default();
    request.live_response(live.render(), &[("shard", &query.shard)], |live| {
        let with_range = |range| address("/store", &[("shard", &query.shard), ("range", range)]);
        let ranges = ranges::all(&ranges::QUEUE, &query.range, with_range);
        let range_seconds = ranges::chosen_seconds(&ranges);
        let charts = &request.console.jobs()?.store_charts;
        let source = charts.get(&name).map(|_| address("/store/chart", &[("shard", &name)]));
        let shards_max = request.console.deps.settings.limits.chart_queues_max;
        Ok(html(&StorePage {
            frame: request.frame(Section::Store, "Store").refreshed(),
            live,
            points_max: (range_seconds / SECONDS_PER_POINT_MIN).min(CHART_POINTS_MAX),
            range_seconds,
            ranges,
            chart_source: source,
            chart_shards_max: figures::number(shards_max),
            shards: overview.stores.iter().map(|shard| ShardLink::new(shard, &name)).collect(),
            has_server: chosen.is_some_and(|shard| shard.server.is_some()),
        }))
    })
}

/// `GET /store/chart?shard=..&series=..&seconds=..`
pub(crate) async fn points(request: PageRequest) -> PageResult {
    let StoreQuery { shard, .. } = request.query()?;
    let history = request.console.jobs()?.store_charts.get(&shard);
    chart::read(&request, history.ok_or_else(|| unknown(&shard))?).await
}

fn unknown(shard: &str) -> PageError {
    PageError::NotFound(format!("there is no shard {:?}", figures::shortened(shard, 100)))
}

impl ShardLink {
    fn new(shard: &StoreShardView, chosen: &str) -> Self {
        Self {
            name: visible(&shard.shard).into_owned(),
            address: address("/store", &[("shard", &shard.shard)]),
            is_chosen: shard.shard == chosen,
        }
    }
}

impl ShardPart {
    fn new(shard: &StoreShardView) -> Self {
        let used = shard.operations.iter().filter(|operation| operation.total > 0);
        Self {
            name: visible(&shard.shard).into_owned(),
            malformed: shard.malformed_total,
            operations: used.map(OperationRow::new).collect(),
            server: shard.server.as_ref().map(ServerPart::new),
        }
    }
}

impl OperationRow {
    fn new(operation: &StoreOperationView) -> Self {
        let quantile =
            |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), figures::duration);
        Self {
            name: match operation.operation.as_str() {
                "push" => "Push",
                "fetch" => "Fetch",
                "ack" => "Acknowledge",
                "fail" => "Fail",
                "release" => "Return a lost worker's jobs",
                "act" => "Move, delete",
                "scan" => "List",
                "find" => "Find",
                "count" => "Count",
                _ => "Other",
            },
            rate: figures::rate(operation.per_second),
            median: quantile(operation.seconds_p50),
            p99: quantile(operation.seconds_p99),
            total: figures::count(operation.total),
        }
    }
}

impl ServerPart {
    fn new(server: &StoreServerView) -> Self {
        Self {
            tiles: tiles(server),
            commands: server.commands.iter().map(CommandRow::new).collect(),
        }
    }
}

fn tiles(server: &StoreServerView) -> Vec<NamedValue> {
    let tile = |name, value| NamedValue { name, value };
    let memory = match server.memory_bytes_max {
        0 => figures::bytes(server.memory_bytes),
        max => format!("{} of {}", figures::bytes(server.memory_bytes), figures::bytes(max)),
    };
    let per_job = server.cpu_seconds_per_job.map_or_else(|| "–".to_owned(), figures::duration);
    vec![
        tile("Reads", figures::rate(server.reads_per_second)),
        tile("Writes", figures::rate(server.writes_per_second)),
        tile("Scripts", figures::rate(server.scripts_per_second)),
        tile("Other commands", figures::rate(server.others_per_second)),
        tile("Memory", memory),
        tile("CPU", figures::percent(server.cpu_share)),
        tile("CPU time per job", per_job),
    ]
}

impl CommandRow {
    fn new(command: &StoreCommandView) -> Self {
        Self {
            command: visible(&command.command).into_owned(),
            kind: command.kind.clone(),
            rate: figures::rate(command.per_second),
            mean: figures::duration(command.seconds_mean),
        }
    }
}

//! Each Redis that holds jobs: memory, commands and their durations.

use std::time::Duration;

use askama::Template;
use weir_advisor::observation::{Fact, RedisOperations, RedisServer};

use super::super::frame::Section;
use super::super::request::{PageRequest, PageResult};
use super::charted::{ChartFigure, ChartedPage, PageCharts};
use super::postgres::Tile;
use super::{MissingFact, age, displayable, latest};
use crate::console::Console;
use crate::figures;
use crate::page_error::PageError;

const CHARTS: [ChartFigure; 3] = [
    ChartFigure {
        series: "redis_memory_bytes:Memory",
        unit: "bytes",
        name: "Memory of Redis",
        caption: "Memory",
    },
    ChartFigure {
        series: "redis_operations_per_second:Commands,redis_evicted_per_second:Evicted keys",
        unit: "rate",
        name: "Commands of Redis per second",
        caption: "Commands per second",
    },
    ChartFigure {
        series: "redis_operation_seconds:Command,redis_fork_seconds:Last fork",
        unit: "duration",
        name: "Duration of Redis commands",
        caption: "Duration of a command",
    },
];

#[derive(Template)]
#[template(path = "redis_live.html")]
struct RedisLive {
    /// None: there is no snapshot yet.
    age: Option<String>,
    missing_facts: Vec<MissingFact>,
    servers: Vec<ServerPart>,
}

struct ServerPart {
    key: usize,
    name: String,
    tiles: Vec<Tile>,
    facts: Vec<(&'static str, String)>,
    commands: Vec<CommandRow>,
    slow: Vec<SlowRow>,
    missing_facts: Vec<MissingFact>,
}

struct CommandRow {
    command: String,
    rate: String,
    mean: String,
    share: String,
}

struct SlowRow {
    command: String,
    took: String,
    age: String,
}

/// `GET /redis`
pub(in crate::pages) async fn page(request: PageRequest) -> PageResult {
    let page = ChartedPage {
        section: Section::Redis,
        title: "Redis".to_owned(),
        path: "/redis",
        fields: &[],
        charts: PageCharts::of_all(&CHARTS),
    };
    page.response(&request, RedisLive::read(&request.console)?.render())
}

impl RedisLive {
    fn read(console: &Console) -> Result<Self, PageError> {
        let snapshot = latest(console)?;
        let servers = snapshot.as_ref().map(|snapshot| snapshot.observation.redis.as_slice());
        let servers = servers.unwrap_or_default();
        let known = servers.iter().filter_map(Fact::known).enumerate();
        Ok(Self {
            age: snapshot.as_ref().map(|snapshot| age(console, snapshot)),
            missing_facts: servers.iter().filter_map(Fact::missing).map(MissingFact::new).collect(),
            servers: known.map(|(key, server)| ServerPart::new(key, server)).collect(),
        })
    }
}

impl ServerPart {
    fn new(key: usize, server: &RedisServer) -> Self {
        let recent = server.lately.known();
        let slow = server.slow_commands.known().map(Vec::as_slice).unwrap_or_default();
        let missing_facts = [server.slow_commands.missing(), server.cache_like_share.missing()];
        Self {
            key,
            name: displayable(&server.name),
            tiles: tiles(server, recent),
            facts: facts(server),
            commands: recent.map(commands).unwrap_or_default(),
            slow: slow.iter().map(slow_row).collect(),
            missing_facts: missing_facts.into_iter().flatten().map(MissingFact::new).collect(),
        }
    }
}

fn tiles(server: &RedisServer, recent: Option<&RedisOperations>) -> Vec<Tile> {
    let unknown = || "–".to_owned();
    let limit = server.info.maxmemory_bytes;
    let is_full = limit > 0 && server.info.used_memory_bytes / 9 > limit / 10;
    let mean = recent.and_then(RedisOperations::mean).map(length);
    let tile = |name, value, is_bad| Tile { name, value, is_bad };
    vec![
        tile("Memory", figures::bytes(server.info.used_memory_bytes), is_full),
        tile(
            "Commands",
            recent.map_or_else(unknown, |operations| figures::rate(operations.per_second)),
            false,
        ),
        tile("Mean duration", mean.unwrap_or_else(unknown), false),
        tile("Clients", figures::count(server.info.clients), false),
        tile("Evicted", figures::count(server.info.evicted_keys), server.info.evicted_keys > 0),
    ]
}

fn facts(server: &RedisServer) -> Vec<(&'static str, String)> {
    let persistence = &server.info.persistence;
    let limit = match server.info.maxmemory_bytes {
        0 => "none".to_owned(),
        limit => figures::bytes(limit),
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let fine = |fine: bool| if fine { "ok" } else { "failed" }.to_owned();
    vec![
        ("maxmemory", limit),
        ("maxmemory-policy", displayable(&server.info.maxmemory_policy)),
        ("Append-only file", yes(persistence.append_only)),
        ("Last AOF write", fine(persistence.last_append_ok)),
        ("Last snapshot", fine(persistence.last_snapshot_ok)),
        ("Changes since snapshot", figures::count(persistence.changes_since_snapshot)),
        ("Last fork", length(server.info.latest_fork)),
    ]
}

fn commands(recent: &RedisOperations) -> Vec<CommandRow> {
    let row = |it: &weir_advisor::observation::CommandRate| CommandRow {
        command: displayable(&it.command),
        rate: figures::rate(it.per_second),
        mean: length(it.mean),
        share: format!("{:.1} %", it.share * 100.0),
    };
    recent.commands.iter().map(row).collect()
}

fn slow_row(slow: &weir_advisor::observation::SlowCommand) -> SlowRow {
    SlowRow {
        command: displayable(&slow.command),
        took: length(slow.took),
        age: figures::whole_duration(slow.age.as_secs_f64()),
    }
}

fn length(length: Duration) -> String {
    figures::duration(length.as_secs_f64())
}

//! Each Redis that holds jobs: memory, what it does, how long that takes.

use std::time::Duration;

use askama::Template;
use weir_advisor::observation::{Fact, RedisOperations, RedisServer};

use super::super::PageError;
use super::super::shell::Section;
use super::frame::{Chart, Live};
use super::postgres::Tile;
use super::{Gap, age, latest, shown};
use crate::console::Console;
use crate::figures;

const CHARTS: [Chart; 3] = [
    Chart {
        series: "redis_memory_bytes:Memory",
        unit: "bytes",
        name: "Memory of Redis",
        caption: "Memory",
    },
    Chart {
        series: "redis_operations_per_second:Commands,redis_evicted_per_second:Evicted keys",
        unit: "rate",
        name: "Commands of Redis per second",
        caption: "Commands per second",
    },
    Chart {
        series: "redis_operation_seconds:A command,redis_fork_seconds:The last fork",
        unit: "duration",
        name: "How long commands of Redis take",
        caption: "How long a command takes",
    },
];

#[derive(Template)]
#[template(path = "redis_live.html")]
pub(in crate::pages) struct LivePart {
    /// None: nothing was looked at yet.
    age: Option<String>,
    gaps: Vec<Gap>,
    servers: Vec<ServerPart>,
}

struct ServerPart {
    key: usize,
    name: String,
    tiles: Vec<Tile>,
    facts: Vec<(&'static str, String)>,
    commands: Vec<CommandRow>,
    slow: Vec<SlowRow>,
    gaps: Vec<Gap>,
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

/// `GET /redis`, `GET /live/redis`
impl Live for LivePart {
    const SECTION: Section = Section::Redis;
    const TITLE: &'static str = "Redis";
    const PATH: &'static str = "/redis";
    const CHARTS: &'static [Chart] = &CHARTS;

    fn read(console: &Console) -> Result<Self, PageError> {
        let looked = latest(console)?;
        let servers = looked.as_ref().map(|looked| looked.observation.redis.as_slice());
        let servers = servers.unwrap_or_default();
        let known = servers.iter().filter_map(Fact::known).enumerate();
        Ok(Self {
            age: looked.as_ref().map(|looked| age(console, looked)),
            gaps: servers.iter().filter_map(Fact::missing).map(Gap::of).collect(),
            servers: known.map(|(key, server)| ServerPart::of(key, server)).collect(),
        })
    }
}

impl ServerPart {
    fn of(key: usize, server: &RedisServer) -> Self {
        let lately = server.lately.known();
        let slow = server.slow_commands.known().map(Vec::as_slice).unwrap_or_default();
        let gaps = [server.slow_commands.missing(), server.cache_like_share.missing()];
        Self {
            key,
            name: shown(&server.name),
            tiles: tiles(server, lately),
            facts: facts(server),
            commands: lately.map(commands).unwrap_or_default(),
            slow: slow.iter().map(slow_row).collect(),
            gaps: gaps.into_iter().flatten().map(Gap::of).collect(),
        }
    }
}

fn tiles(server: &RedisServer, lately: Option<&RedisOperations>) -> Vec<Tile> {
    let unknown = || "–".to_owned();
    let limit = server.maxmemory_bytes;
    let is_full = limit > 0 && server.used_memory_bytes / 9 > limit / 10;
    let mean = lately.and_then(RedisOperations::mean).map(length);
    let tile = |name, value, is_bad| Tile { name, value, is_bad };
    vec![
        tile("Memory", figures::bytes(server.used_memory_bytes), is_full),
        tile("Commands", lately.map_or_else(unknown, |it| figures::rate(it.per_second)), false),
        tile("Each takes", mean.unwrap_or_else(unknown), false),
        tile("Clients", figures::count(server.clients), false),
        tile("Evicted", figures::count(server.evicted_keys), server.evicted_keys > 0),
    ]
}

fn facts(server: &RedisServer) -> Vec<(&'static str, String)> {
    let persistence = &server.persistence;
    let limit = match server.maxmemory_bytes {
        0 => "none".to_owned(),
        limit => figures::bytes(limit),
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let fine = |fine: bool| if fine { "fine" } else { "failed" }.to_owned();
    vec![
        ("maxmemory", limit),
        ("maxmemory-policy", shown(&server.maxmemory_policy)),
        ("Append-only file", yes(persistence.append_only)),
        ("Last write to it", fine(persistence.last_append_ok)),
        ("Last snapshot", fine(persistence.last_snapshot_ok)),
        ("Changes since", figures::count(persistence.changes_since_snapshot)),
        ("Last fork", length(server.latest_fork)),
    ]
}

fn commands(lately: &RedisOperations) -> Vec<CommandRow> {
    let row = |it: &weir_advisor::observation::CommandRate| CommandRow {
        command: shown(&it.command),
        rate: figures::rate(it.per_second),
        mean: length(it.mean),
        share: format!("{:.1} %", it.share * 100.0),
    };
    lately.commands.iter().map(row).collect()
}

fn slow_row(slow: &weir_advisor::observation::SlowCommand) -> SlowRow {
    SlowRow {
        command: shown(&slow.command),
        took: length(slow.took),
        age: figures::whole_duration(slow.age.as_secs_f64()),
    }
}

fn length(length: Duration) -> String {
    figures::duration(length.as_secs_f64())
}

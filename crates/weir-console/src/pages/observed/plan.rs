//! What to run instead: processes, pools and settings for what is observed, with proof.

mod demand;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_advisor::Observation;
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{
    Demands, Layout, Outcome as Kept, Plan, ProcessMemory, Proof, QueueDemand,
    RESERVED_CONNECTIONS, Setting, Storage, Wanted, WebDemand, demands, difference, plan,
};

use self::demand::DemandRow;
use super::super::ranges::{self, Range};
use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::shards::{self, ShardOption};
use super::{CHART_SOURCE, Gap, latest, shown};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    shell: Shell,
    given: Given,
    /// Where there are several Redis servers, which one's Sidekiq it is for.
    shards: Vec<ShardOption>,
    /// Why there is no plan.
    gap: Option<Gap>,
    demands: Vec<DemandRow>,
    /// Names that get no process, and why.
    left_out: Vec<(String, String)>,
    outcome: Option<Outcome>,
    ranges: Vec<Range>,
    range_seconds: u64,
    chart_source: &'static str,
}

/// What a person may say, in the form.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in crate::pages) struct Asked {
    range: Option<String>,
    redis: Option<String>,
    cores: Option<String>,
    memory_gib: Option<String>,
    max_connections: Option<String>,
    reserve: Option<String>,
    web_requests: Option<String>,
    web_seconds: Option<String>,
    streaming: Option<String>,
}

/// The same, with what is seen or usual in place of what is not said.
struct Given {
    cores: u32,
    memory_gib: f64,
    max_connections: u32,
    reserve: u32,
    reserved_connections: u32,
    pooler_connections: Option<u32>,
    web_requests: f64,
    web_seconds: f64,
    streaming: u32,
    /// What somebody has said that Postgres may use (`[observe.postgres] memory`).
    postgres_memory_bytes: Option<u64>,
}

struct Outcome {
    is_possible: bool,
    ways_out: Vec<String>,
    proofs: Vec<ProofRow>,
    processes: Vec<ProcessRow>,
    settings: Vec<(&'static str, Vec<SettingRow>)>,
    difference: Vec<String>,
}

struct ProofRow {
    /// "Holds", and its class; that of its tag.
    word: &'static str,
    class: &'static str,
    tag: &'static str,
    rule: &'static str,
    figures: String,
}

struct ProcessRow {
    name: String,
    processes: u32,
    threads: u32,
    pool: u32,
    queues: String,
}

struct SettingRow {
    line: String,
    reason: &'static str,
    restart: bool,
}

/// `GET /plan`
pub(in crate::pages) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Result<Response, PageError> {
    let looked = latest(&console)?;
    let nothing = Observation::default();
    let observation = looked.as_deref().map_or(&nothing, |looked| &looked.observation);
    let shard = shards::chosen(observation, asked.redis.as_deref())?;
    let only = shard.and_then(|shard| observation.only(shard));
    let observation = only.as_ref().unwrap_or(observation);
    let shards = shard.map(|shard| shards::options(looked.as_deref(), shard)).unwrap_or_default();
    let given = Given::of(&asked, observation)?;
    let pushes = observation.pushed_queues.known().map(Vec::as_slice).unwrap_or_default();
    let Demands { queues: seen, left_out } =
        observation.jobs.known().map(|jobs| demands(jobs, pushes)).unwrap_or_default();
    let is_possible = !seen.is_empty();
    let word = asked.range.unwrap_or_default();
    let ranges = ranges::all(&ranges::WHOLE, &word, |word| {
        address("/plan", &[("range", word), ("redis", shard.unwrap_or_default())])
    });
    Ok(html(&PlanPage {
        shell: Shell::new(&console, &visitor, Section::Plan, "Plan"),
        shards,
        gap: observation.jobs.missing().map(Gap::of),
        demands: seen.iter().map(DemandRow::of).collect(),
        left_out: left_out.iter().map(|it| (shown(&it.name), shown(&it.why))).collect(),
        outcome: is_possible.then(|| Outcome::of(&given.wanted(seen), observation)),
        given,
        range_seconds: ranges::chosen_seconds(&ranges),
        ranges,
        chart_source: CHART_SOURCE,
    }))
}

const GIB: f64 = 1_073_741_824.0;
/// As `weir plan` takes them.
const MAX_CONNECTIONS: u32 = 200;
const RESERVE: u32 = 15;
const WEB_THREADS: u32 = 5;
const STREAMING_POOL: u32 = 10;

impl Given {
    fn of(asked: &Asked, observation: &Observation) -> Result<Self, PageError> {
        let machine = observation.machine.known();
        let settings = observation.postgres.known().and_then(|it| it.settings.known());
        let memory = machine.map_or(8.0, |it| figures::as_float(it.memory_bytes) / GIB);
        let ceiling = settings.map_or(MAX_CONNECTIONS, |it| it.max_connections);
        Ok(Self {
            cores: whole("cores", asked.cores.as_deref(), machine.map_or(4, |it| it.cores))?.max(1),
            memory_gib: number(
                "memory",
                asked.memory_gib.as_deref(),
                (memory * 10.0).round() / 10.0,
            )?,
            max_connections: whole("max_connections", asked.max_connections.as_deref(), ceiling)?,
            reserve: whole("reserve", asked.reserve.as_deref(), RESERVE)?,
            reserved_connections: settings
                .map_or(RESERVED_CONNECTIONS, |it| it.superuser_reserved_connections),
            pooler_connections: observation.pooler.as_ref().and_then(|it| it.connections),
            web_requests: number("web_requests", asked.web_requests.as_deref(), 10.0)?,
            web_seconds: number("web_seconds", asked.web_seconds.as_deref(), 0.1)?,
            streaming: whole("streaming", asked.streaming.as_deref(), 1)?,
            postgres_memory_bytes: observation
                .postgres
                .known()
                .and_then(|it| it.host.known())
                .filter(|host| host.is_said)
                .map(|host| host.memory_bytes),
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was checked to be from 0 to a million"
    )]
    fn wanted(&self, queues: Vec<QueueDemand>) -> Wanted {
        let own = (self.memory_gib * GIB) as u64;
        let postgres_memory_bytes = self.postgres_memory_bytes.unwrap_or(own / 4);
        // More than this machine has is another one's, and takes nothing from this one.
        let elsewhere = if postgres_memory_bytes >= own { postgres_memory_bytes } else { 0 };
        Wanted {
            cores: self.cores,
            memory_bytes: own.saturating_add(elsewhere),
            postgres_memory_bytes,
            redis_memory_bytes: own / 16,
            storage: Storage::Ssd,
            max_connections: self.max_connections,
            reserve: self.reserve,
            reserved_connections: self.reserved_connections,
            pooler_connections: self.pooler_connections,
            web: WebDemand {
                requests_per_second: self.web_requests,
                service_seconds: self.web_seconds,
                threads: WEB_THREADS,
            },
            streaming: (self.streaming, STREAMING_POOL),
            queues,
            process_memory: ProcessMemory::default(),
        }
    }
}

fn number(name: &str, said: Option<&str>, otherwise: f64) -> Result<f64, PageError> {
    let Some(said) = said.filter(|said| !said.is_empty()) else { return Ok(otherwise) };
    let number = said.parse().ok().filter(|it: &f64| (0.0..=1e6).contains(it));
    number
        .ok_or_else(|| PageError::Invalid(format!("{name}: {said:?} is no number up to a million")))
}

fn whole(name: &str, said: Option<&str>, otherwise: u32) -> Result<u32, PageError> {
    let Some(said) = said.filter(|said| !said.is_empty()) else { return Ok(otherwise) };
    let number = said.parse().ok().filter(|it| *it <= 100_000);
    number.ok_or_else(|| PageError::Invalid(format!("{name}: {said:?} is no number up to 100,000")))
}

impl Outcome {
    fn of(wanted: &Wanted, observation: &Observation) -> Self {
        match plan(wanted) {
            Ok(plan) => Self {
                is_possible: true,
                ways_out: Vec::new(),
                proofs: plan.proofs.iter().map(ProofRow::of).collect(),
                processes: processes(&plan.layout),
                settings: settings(&plan),
                difference: difference(observation, &plan).iter().map(|it| shown(it)).collect(),
            },
            Err(impossible) => Self {
                is_possible: false,
                ways_out: impossible.ways_out.iter().map(|it| shown(it)).collect(),
                proofs: impossible.broken.iter().map(ProofRow::of).collect(),
                processes: Vec::new(),
                settings: Vec::new(),
                difference: Vec::new(),
            },
        }
    }
}

impl ProofRow {
    fn of(proof: &Proof) -> Self {
        let (word, class, tag) = match proof.outcome {
            Kept::Holds => ("Holds", "notice", ""),
            Kept::Broken => ("Broken", "critical", "critical"),
            Kept::Unknown => ("Unknown", "warning", "warning"),
        };
        Self { word, class, tag, rule: proof.claim.words(), figures: shown(&proof.figures) }
    }
}

fn processes(layout: &Layout) -> Vec<ProcessRow> {
    let services = layout.services.iter().map(|it| ProcessRow {
        name: shown(&it.name),
        processes: it.processes,
        threads: it.threads,
        pool: it.pool,
        queues: String::new(),
    });
    let workers = layout.workers.iter().map(|it| {
        let order = match it.ordering {
            Ordering::Strict | Ordering::Unknown => "",
            Ordering::Random => " (by chance)",
            Ordering::Weighted => " (by weight)",
        };
        ProcessRow {
            name: shown(&it.name),
            processes: it.processes,
            threads: it.concurrency,
            pool: it.pool,
            queues: shown(&it.queues.join(", ")) + order,
        }
    });
    services.chain(workers).collect()
}

fn settings(plan: &Plan) -> Vec<(&'static str, Vec<SettingRow>)> {
    let row = |sign: &'static str| {
        move |it: &Setting| SettingRow {
            line: format!("{}{sign}{}", it.name, it.value),
            reason: it.reason,
            restart: it.restart,
        }
    };
    let files = [
        ("postgresql.conf", plan.postgres.iter().map(row(" = ")).collect::<Vec<_>>()),
        ("redis-cli CONFIG SET", plan.redis.iter().map(row(" ")).collect()),
    ];
    files.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
}

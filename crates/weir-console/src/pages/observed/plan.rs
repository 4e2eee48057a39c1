//! What to run instead: processes, pools and settings for what is observed, with proof.

mod demand;
mod given;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use weir_advisor::Observation;
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{
    ClaimOutcome as Kept, Demands, Plan, PlanInput, PlannedSetting, ProcessLayout, Proof, demands,
    demands_held_up, difference, held_up, plan,
};

use self::demand::DemandRow;
use self::given::{Asked, Given};
use super::super::ranges::{self, Range};
use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::shards::{self, ShardOption};
use super::{CHART_SOURCE, Gap, latest, shown};
use crate::address::address;
use crate::console::Console;
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
    // What jobs take while something holds them up is no demand.
    let of = if held_up(observation).is_empty() { demands } else { demands_held_up };
    let Demands { queues: seen, left_out } =
        observation.jobs.known().map(|jobs| of(jobs, pushes)).unwrap_or_default();
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

impl Outcome {
    fn of(wanted: &PlanInput, observation: &Observation) -> Self {
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
                ways_out: impossible.remedies.iter().map(|it| shown(it)).collect(),
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

fn processes(layout: &ProcessLayout) -> Vec<ProcessRow> {
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
        move |it: &PlannedSetting| SettingRow {
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

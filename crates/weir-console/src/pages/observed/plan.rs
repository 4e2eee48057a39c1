//! The plan: processes, pools and settings for the observed load, with the calculation.

mod demand;
mod inputs;

use askama::Template;
use weir_advisor::Observation;
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{
    ClaimOutcome as ProofOutcome, Demands, Plan, PlanInput, PlannedSetting, ProcessLayout, Proof,
    demands, demands_held_up, difference, held_up, plan,
};

use self::demand::DemandRow;
use self::inputs::{PlanInputs, PlanQuery};
use super::super::frame::{PageFrame, Section, html};
use super::super::ranges::{self, ChartRange};
use super::super::request::{PageRequest, PageResult};
use super::shards::{self, ShardOption};
use super::{CHART_SOURCE, MissingFact, latest, shown};
use crate::address::address;

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    frame: PageFrame,
    inputs: PlanInputs,
    /// The Redis servers to choose from, if there are several.
    shards: Vec<ShardOption>,
    /// Why there is no plan.
    missing: Option<MissingFact>,
    demands: Vec<DemandRow>,
    /// Queues that get no process, with the reason.
    left_out: Vec<(String, String)>,
    outcome: Option<PlanOutcome>,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    chart_source: &'static str,
}

struct PlanOutcome {
    is_possible: bool,
    remedies: Vec<String>,
    proofs: Vec<ProofRow>,
    processes: Vec<ProcessRow>,
    settings: Vec<(&'static str, Vec<SettingRow>)>,
    difference: Vec<String>,
}

struct ProofRow {
    /// The word such as "Holds", and the classes of the word and its tag.
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
pub(in crate::pages) async fn page(request: PageRequest) -> PageResult {
    let query: PlanQuery = request.query()?;
    let snapshot = latest(&request.console)?;
    let nothing = Observation::default();
    let observation = snapshot.as_deref().map_or(&nothing, |snapshot| &snapshot.observation);
    let shard = shards::chosen(observation, query.redis.as_deref())?;
    let only = shard.and_then(|shard| observation.only(shard));
    let observation = only.as_ref().unwrap_or(observation);
    let shards = shard.map(|shard| shards::options(snapshot.as_deref(), shard)).unwrap_or_default();
    let inputs = PlanInputs::of(&query, observation)?;
    let pushes = observation.pushed_queues.known().map(Vec::as_slice).unwrap_or_default();
    // Durations of jobs while something delays them do not count as demand.
    let of = if held_up(observation).is_empty() { demands } else { demands_held_up };
    let Demands { queues: seen, left_out } =
        observation.jobs.known().map(|jobs| of(jobs, pushes)).unwrap_or_default();
    let is_possible = !seen.is_empty();
    let word = query.range.unwrap_or_default();
    let ranges = ranges::all(&ranges::WHOLE, &word, |word| {
        address("/plan", &[("range", word), ("redis", shard.unwrap_or_default())])
    });
    Ok(html(&PlanPage {
        frame: request.frame(Section::Plan, "Plan"),
        shards,
        missing: observation.jobs.missing().map(MissingFact::of),
        demands: seen.iter().map(DemandRow::of).collect(),
        left_out: left_out.iter().map(|it| (shown(&it.name), shown(&it.why))).collect(),
        outcome: is_possible.then(|| PlanOutcome::of(&inputs.demand(seen), observation)),
        inputs,
        range_seconds: ranges::chosen_seconds(&ranges),
        ranges,
        chart_source: CHART_SOURCE,
    }))
}

impl PlanOutcome {
    fn of(demand: &PlanInput, observation: &Observation) -> Self {
        match plan(demand) {
            Ok(plan) => Self {
                is_possible: true,
                remedies: Vec::new(),
                proofs: plan.proofs.iter().map(ProofRow::of).collect(),
                processes: processes(&plan.layout),
                settings: settings(&plan),
                difference: difference(observation, &plan).iter().map(|it| shown(it)).collect(),
            },
            Err(impossible) => Self {
                is_possible: false,
                remedies: impossible.remedies.iter().map(|it| shown(it)).collect(),
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
            ProofOutcome::Holds => ("Holds", "notice", ""),
            ProofOutcome::Broken => ("Broken", "critical", "critical"),
            ProofOutcome::Unknown => ("Unknown", "warning", "warning"),
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
            Ordering::Random => " (random)",
            Ordering::Weighted => " (weighted)",
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

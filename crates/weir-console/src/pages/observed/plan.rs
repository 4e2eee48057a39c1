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
use super::{CHART_SOURCE, MissingFact, displayable, latest};
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
    label: &'static str,
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
    let empty = Observation::default();
    let observation = snapshot.as_deref().map_or(&empty, |snapshot| &snapshot.observation);
    let shard = shards::chosen(observation, query.redis.as_deref())?;
    let only = shard.and_then(|shard| observation.only(shard));
    let observation = only.as_ref().unwrap_or(observation);
    let shards = shard.map(|shard| shards::options(snapshot.as_deref(), shard)).unwrap_or_default();
    let inputs = PlanInputs::new(&query, observation)?;
    let pushes = observation.pushed_queues.known().map(Vec::as_slice).unwrap_or_default();
    // Durations of jobs while something delays them do not count as demand.
    let compute_demands = if held_up(observation).is_empty() { demands } else { demands_held_up };
    let Demands { queues: queue_demands, left_out } =
        observation.jobs.known().map(|jobs| compute_demands(jobs, pushes)).unwrap_or_default();
    let is_possible = !queue_demands.is_empty();
    let range = query.range.unwrap_or_default();
    let ranges = ranges::all(&ranges::WHOLE, &range, |range| {
        address("/plan", &[("range", range), ("redis", shard.unwrap_or_default())])
    });
    Ok(html(&PlanPage {
        frame: request.frame(Section::Plan, "Plan"),
        shards,
        missing: observation.jobs.missing().map(MissingFact::new),
        demands: queue_demands.iter().map(DemandRow::new).collect(),
        left_out: left_out
            .iter()
            .map(|queue| (displayable(&queue.name), displayable(&queue.why)))
            .collect(),
        outcome: is_possible
            .then(|| PlanOutcome::new(&inputs.demand(queue_demands, observation), observation)),
        inputs,
        range_seconds: ranges::chosen_seconds(&ranges),
        ranges,
        chart_source: CHART_SOURCE,
    }))
}

impl PlanOutcome {
    fn new(demand: &PlanInput, observation: &Observation) -> Self {
        match plan(demand) {
            Ok(plan) => Self {
                is_possible: true,
                remedies: Vec::new(),
                proofs: plan.proofs.iter().map(ProofRow::new).collect(),
                processes: processes(&plan.layout),
                settings: settings(&plan),
                difference: difference(observation, &plan)
                    .iter()
                    .map(|difference| displayable(difference))
                    .collect(),
            },
            Err(impossible) => Self {
                is_possible: false,
                remedies: impossible.remedies.iter().map(|remedy| displayable(remedy)).collect(),
                proofs: impossible.broken.iter().map(ProofRow::new).collect(),
                processes: Vec::new(),
                settings: Vec::new(),
                difference: Vec::new(),
            },
        }
    }
}

impl ProofRow {
    fn new(proof: &Proof) -> Self {
        let (label, class, tag) = match proof.outcome {
            ProofOutcome::Holds => ("Holds", "notice", ""),
            ProofOutcome::Broken => ("Broken", "critical", "critical"),
            ProofOutcome::Unknown => ("Unknown", "warning", "warning"),
        };
        Self { label, class, tag, rule: proof.claim.words(), figures: displayable(&proof.figures) }
    }
}

fn processes(layout: &ProcessLayout) -> Vec<ProcessRow> {
    let services = layout.services.iter().map(|service| ProcessRow {
        name: displayable(&service.name),
        processes: service.processes,
        threads: service.threads,
        pool: service.pool,
        queues: String::new(),
    });
    let workers = layout.workers.iter().map(|worker| {
        let order = match worker.ordering {
            Ordering::Strict | Ordering::Unknown => "",
            Ordering::Random => " (random)",
            Ordering::Weighted => " (weighted)",
        };
        ProcessRow {
            name: displayable(&worker.name),
            processes: worker.processes,
            threads: worker.concurrency,
            pool: worker.pool,
            queues: displayable(&worker.queues.join(", ")) + order,
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

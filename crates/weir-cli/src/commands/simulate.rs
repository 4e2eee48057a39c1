//! `weir simulate`: runs a scenario under several policies, or many random surges.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use weir_simulate::policy::PolicyKind;
use weir_simulate::report::{PolicyResult, charts, page, queue_table, summary_table};
use weir_simulate::study::{Study, study};
use weir_simulate::surge::REPORTED;
use weir_simulate::{Record, Scenario};

use crate::exit::{Exit, WrongUsage};
use crate::output;

/// Decisions that are printed for one policy.
const DECISIONS_MAX: usize = 40;

/// `weir simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    /// The scenario: a TOML file with queues, classes of jobs, workers, a database and events
    #[arg(required_unless_present = "surges")]
    file: Option<PathBuf>,
    /// Policies to compare, with a comma between them. With one policy, its charts and decisions are
    /// printed as well
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',', value_parser = parse_policy, default_values = ["nothing", "split", "autopilot"])]
    policies: Vec<PolicyKind>,
    /// Seed of all random numbers; the same seed gives the same result
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write a page with charts
    #[arg(long, value_name = "FILE", conflicts_with = "surges")]
    html: Option<PathBuf>,
    /// Compare the policies on random surges instead, with these seeds
    #[arg(long, value_name = "FIRST-LAST", num_args = 0..=1, default_missing_value = "501-1000", value_parser = parse_seeds, conflicts_with = "file")]
    surges: Option<Seeds>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Seeds of surges.
#[derive(Clone, Debug)]
struct Seeds(Vec<u64>);

/// More seeds than these take hours.
const SEEDS_MAX: u64 = 100_000;

fn parse_policy(name: &str) -> Result<PolicyKind, String> {
    name.parse().map_err(|error: weir_simulate::policy::UnknownPolicyError| error.to_string())
}

fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last && last - first < SEEDS_MAX => {
            Ok(Seeds((first..=last).collect()))
        }
        _ => Err(format!("must be two seeds such as {}-{}", REPORTED.start(), REPORTED.end())),
    }
}

pub(crate) fn run(arguments: &SimulateArguments) -> anyhow::Result<Exit> {
    match (&arguments.surges, &arguments.file) {
        (Some(Seeds(seeds)), _) => run_surges(seeds, arguments),
        (None, Some(file)) => run_scenario(file, arguments),
        (None, None) => Err(WrongUsage::new("a scenario file or --surges is needed").into()),
    }
}

fn run_scenario(file: &Path, arguments: &SimulateArguments) -> anyhow::Result<Exit> {
    let scenario = read(file)?;
    let bar = ProgressBar::new(arguments.policies.len() as u64);
    let result = |policy: &PolicyKind| {
        let record = policy.simulate(&scenario, arguments.seed);
        bar.inc(1);
        PolicyResult { policy: policy.to_string(), record }
    };
    let results: Vec<PolicyResult> = arguments.policies.iter().map(result).collect();
    bar.finish_and_clear();
    let name = file.display().to_string();
    if let Some(html) = &arguments.html {
        std::fs::write(html, page(&name, &results))
            .with_context(|| format!("cannot write {}", html.display()))?;
    }
    if arguments.json {
        let policies: Vec<Value> = results.iter().map(document).collect();
        output::json(&json!({ "scenario": name, "seed": arguments.seed, "policies": policies }))?;
    } else {
        print(&scenario, &results);
    }
    Ok(Exit::Fine)
}

fn read(file: &Path) -> anyhow::Result<Scenario> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the scenario {}", file.display()))?;
    Scenario::parse(&text).with_context(|| format!("{} is no scenario", file.display()))
}

fn print(scenario: &Scenario, results: &[PolicyResult]) {
    if !scenario.about.is_empty() {
        output::line(&format!("{}\n", output::printable(&scenario.about)));
    }
    for table in [summary_table(results), queue_table(results)] {
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| output::printable(cell)).collect())
            .collect();
        output::table(&table.head, &rows);
        output::line("");
    }
    let [result] = results else { return };
    output::raw(&charts(result));
    let decisions = &result.record.decisions;
    for decision in decisions.iter().take(DECISIONS_MAX) {
        output::line(&format!(
            "{:>8.0} s  {}",
            decision.at_seconds,
            output::printable(&decision.text)
        ));
    }
    if decisions.len() > DECISIONS_MAX {
        output::line(&format!("and {} more; --json has all", decisions.len() - DECISIONS_MAX));
    }
}

fn document(result: &PolicyResult) -> Value {
    let record = &result.record;
    json!({
        "policy": result.policy,
        "seconds": record.seconds,
        "drain_seconds": record.drain_seconds(),
        "urgent_in_target": record.is_urgent_in_target(),
        "contained_after_seconds": record.contained_after_seconds,
        "late_effects_seconds": record.late_effects_seconds,
        "slowdown": record.slowdown(),
        "connections_max": record.connections_max,
        "rejected_connections": record.rejected_connections,
        "pool_timeouts": record.pool_timeouts,
        "waiting": record.waiting,
        "in_flight": record.in_flight,
        "retries": record.retries,
        "queues": record.queues.iter().map(queue).collect::<Vec<_>>(),
        "classes": classes(record),
        "decisions": record.decisions.iter()
            .map(|it| json!({ "at_seconds": it.at_seconds, "text": it.text }))
            .collect::<Vec<_>>(),
    })
}

fn queue(queue: &weir_simulate::engine::QueueRecord) -> Value {
    json!({
        "name": queue.name,
        "urgent": queue.is_urgent,
        "target_seconds": queue.target_seconds,
        "jobs": queue.waits.count,
        "in_target": queue.waits.in_target,
        "mean_seconds": queue.waits.mean(),
        "p50_seconds": queue.waits.percentile(0.5),
        "p95_seconds": queue.waits.percentile(0.95),
        "p99_seconds": queue.waits.percentile(0.99),
    })
}

fn classes(record: &Record) -> Vec<Value> {
    let class = |it: &weir_simulate::engine::ClassRecord| {
        json!({
            "name": it.name,
            "arrived": it.arrived,
            "done": it.done,
            "dead": it.dead,
            "failed": it.failed,
        })
    };
    record.classes.iter().map(class).collect()
}

fn run_surges(seeds: &[u64], arguments: &SimulateArguments) -> anyhow::Result<Exit> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = ProgressBar::new(seeds.len() as u64);
    let found = study(seeds, &arguments.policies, threads, &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    if arguments.json {
        output::json(&study_document(&found))?;
        return Ok(Exit::Fine);
    }
    output::line(&format!(
        "{} surges; in {} of them a fixed layout keeps the urgent queues in their targets\n",
        found.surges, found.can_meet
    ));
    let head = [
        "POLICY",
        "DRAIN MEDIAN",
        "P99",
        "URGENT IN TARGET",
        "WORSE BY 5 %",
        "WORST",
        "ACTED",
        "NOT DRAINED",
        "CHANGES/H",
    ];
    output::table(&head, &study_rows(&found));
    Ok(Exit::Fine)
}

fn study_rows(study: &Study) -> Vec<Vec<String>> {
    let row = |row: &weir_simulate::study::StudyRow| {
        vec![
            row.policy.to_string(),
            format!("{:.2}x", row.drain_median),
            format!("{:.2}x", row.drain_p99),
            format!("{:.1} %", 100.0 * row.urgent_share),
            format!("{:.1} %", 100.0 * row.worse_share),
            format!("{:.2}x", row.worst),
            row.acted.to_string(),
            row.not_drained.to_string(),
            row.changes_per_hour_max.to_string(),
        ]
    };
    study.rows.iter().map(row).collect()
}

fn study_document(study: &Study) -> Value {
    let row = |row: &weir_simulate::study::StudyRow| {
        json!({
            "policy": row.policy.name(),
            "drain_median": row.drain_median,
            "drain_p99": row.drain_p99,
            "urgent_share": row.urgent_share,
            "worse_share": row.worse_share,
            "worst": row.worst,
            "acted": row.acted,
            "not_drained": row.not_drained,
            "changes_per_hour_max": row.changes_per_hour_max,
        })
    };
    json!({
        "surges": study.surges,
        "can_meet": study.can_meet,
        "policies": study.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

//! Compares policies on many random surges.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::{Record, simulate};
use crate::layout;
use crate::policy::PolicyKind;
use crate::surge::surge;

/// A run that was worse than doing nothing by more than this is counted.
const WORSE: f64 = 1.05;
/// Differences below a minute are below what the simulation resolves.
const RESOLUTION_SECONDS: f64 = 60.0;

/// The results of one surge.
#[derive(Clone, Debug)]
struct SurgeResult {
    /// The best drain of any fixed layout; `None` if none drained.
    best_seconds: Option<f64>,
    /// Whether the urgent queues met their targets under any fixed layout.
    can_meet: bool,
    nothing: Outcome,
    policies: Vec<Outcome>,
}

/// What a policy led to.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    drain_seconds: Option<f64>,
    meets: bool,
    has_acted: bool,
    decisions_per_hour_max: usize,
    /// The longest simulation counts for runs that did not drain.
    seconds: f64,
}

impl Outcome {
    fn new(record: &Record, changes_before: usize) -> Self {
        Self {
            drain_seconds: record.drain_seconds(),
            meets: record.is_urgent_in_target(),
            has_acted: record.decisions.len() > changes_before,
            decisions_per_hour_max: record.decisions_per_hour_max(),
            seconds: record.seconds,
        }
    }

    fn drain(&self) -> f64 {
        self.drain_seconds.unwrap_or(self.seconds)
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyRow {
    /// The policy.
    pub policy: PolicyKind,
    /// Median of its time to drain, in that of the best fixed layout.
    pub drain_median: f64,
    /// The 99th percentile of it.
    pub drain_p99: f64,
    /// Share of the surges in which the urgent queues' p95 was within the target, of those in which any fixed layout
    /// manages that.
    pub urgent_share: f64,
    /// Share of the surges that took more than 5 % longer than with the static plan, by a minute at least.
    pub worse_share: f64,
    /// The worst of them.
    pub worst: f64,
    /// Surges in which it changed something after the surge began.
    pub acted: usize,
    /// Surges that it did not drain.
    pub not_drained: usize,
    /// The most changes within an hour of any surge.
    pub changes_per_hour_max: usize,
}

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Surges.
    pub surges: usize,
    /// Surges in which a fixed layout meets the targets of the urgent queues.
    pub can_meet: usize,
    /// By policy.
    pub rows: Vec<StudyRow>,
}

/// Simulates the surges of the seeds under each policy and under the fixed layouts, with so many threads.
#[must_use]
pub fn study(
    seeds: &[u64],
    policies: &[PolicyKind],
    threads: usize,
    done: &(dyn Fn(usize) + Sync),
) -> Study {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(*seed, policies);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push(result);
                    done(results.len());
                }
            });
        }
    });
    summarize(&results.into_inner().unwrap_or_else(PoisonError::into_inner), policies)
}

fn one(seed: u64, policies: &[PolicyKind]) -> SurgeResult {
    let scenario = surge(seed);
    let fixed: Vec<Record> = layout::fixed(&scenario)
        .iter_mut()
        .map(|layout| simulate(&scenario, layout, seed))
        .collect();
    let drains = fixed.iter().filter_map(Record::drain_seconds);
    let outcome = |kind: &PolicyKind| {
        let record = kind.simulate(&scenario, seed);
        let before = |it: &&crate::engine::DecisionRecord| it.at_seconds < record.begins_seconds;
        let before = record.decisions.iter().filter(before).count();
        Outcome::new(&record, before)
    };
    SurgeResult {
        best_seconds: drains.reduce(f64::min),
        can_meet: fixed.iter().any(Record::is_urgent_in_target),
        nothing: outcome(&PolicyKind::Nothing),
        policies: policies.iter().map(outcome).collect(),
    }
}

fn summarize(results: &[SurgeResult], policies: &[PolicyKind]) -> Study {
    let can_meet = results.iter().filter(|result| result.can_meet).count();
    let rows = policies.iter().enumerate().map(|(at, policy)| {
        let outcomes = || results.iter().map(move |result| (result, result.policies[at]));
        let ratio = |(result, it): (&SurgeResult, Outcome)| {
            Some(it.drain() / result.best_seconds?.max(1.0))
        };
        let mut ratios: Vec<f64> = outcomes().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let worse = outcomes().map(|(result, it)| {
            let nothing = result.nothing.drain();
            if it.drain() > nothing + RESOLUTION_SECONDS {
                it.drain() / nothing.max(1.0)
            } else {
                1.0
            }
        });
        let worse: Vec<f64> = worse.collect();
        let meets = outcomes().filter(|(result, it)| result.can_meet && it.meets).count();
        StudyRow {
            policy: *policy,
            drain_median: percentile(&ratios, 0.5),
            drain_p99: percentile(&ratios, 0.99),
            urgent_share: meets as f64 / (can_meet as f64).max(1.0),
            worse_share: worse.iter().filter(|it| **it > WORSE).count() as f64
                / (results.len() as f64).max(1.0),
            worst: worse.iter().copied().fold(1.0, f64::max),
            acted: outcomes().filter(|(_, it)| it.has_acted).count(),
            not_drained: outcomes().filter(|(_, it)| it.drain_seconds.is_none()).count(),
            changes_per_hour_max: outcomes()
                .map(|(_, it)| it.decisions_per_hour_max)
                .max()
                .unwrap_or_default(),
        }
    });
    Study { surges: results.len(), can_meet, rows: rows.collect() }
}

/// Returns the percentile of sorted values; NaN without any.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the number of values"
)]
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

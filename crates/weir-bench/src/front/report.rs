//! Turns a run into the common envelope.

use serde_json::{Map, Value};

use super::load::ResponseStats;
use super::scenario::Run;
use super::settings::LoadSettings;
use crate::envelope::Envelope;
use crate::http::{Figures, Target, round_to, rounded, to_f64, us_per_operation};

pub(crate) fn envelope(run: &Run, target: &Target, settings: &LoadSettings) -> Envelope {
    let without_worker = count_without_worker(&run.stats, settings);
    let figures = Figures {
        bench: "front",
        scenario: settings.scenario.name(),
        settings: settings_json(target, settings),
        errors: without_worker,
        first_error: (without_worker > 0).then(|| "an answer without X-Worker".to_owned()),
        extra: extra(run, settings),
    };
    figures.envelope(&run.http, &settings.profile())
}

/// Returns the responses without a worker's name. They are errors only with --workers, which needs the names.
fn count_without_worker(stats: &ResponseStats, settings: &LoadSettings) -> u64 {
    if settings.workers.is_some() { stats.without_worker } else { 0 }
}

fn extra(run: &Run, settings: &LoadSettings) -> Map<String, Value> {
    let (stats, requests) = (&run.stats, run.http.tally.requests);
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| extra.insert(key.to_owned(), value);
    let fairness = stats.shares.fairness(settings.workers);
    add("jain", fairness.map(|fairness| round_to(fairness.jain, 1e4)).into());
    add("min", fairness.map(|fairness| fairness.min).into());
    add("max", fairness.map(|fairness| fairness.max).into());
    add("idle_workers", fairness.and_then(|fairness| fairness.idle_workers).into());
    add("workers_seen", fairness.map_or(0, |fairness| fairness.workers_seen).into());
    add("requests_by_worker", stats.shares.counts().into());
    add("mean_service_us", us_per_operation(stats.service_requested, requests).into());
    match (settings.requests_per_second, settings.workers) {
        (None, _) => add_ceiling(run, settings, &mut add),
        (Some(_), Some(workers)) => {
            let possible = settings.duration.as_secs_f64() * to_f64(workers as u64);
            let offered = stats.service_requested.as_secs_f64() / possible;
            add("offered_load", round_to(offered, 1e4).into());
        }
        (Some(_), None) => {}
    }
    extra
}

/// In a closed loop the service times limit the rate: connections / mean service time. `of_ceiling` is the share of
/// it that was reached: service time / latency, which does not depend on where a run begins and ends.
fn add_ceiling(
    run: &Run,
    settings: &LoadSettings,
    add: &mut impl FnMut(&str, Value) -> Option<Value>,
) {
    let stats = &run.stats;
    if stats.service.is_zero() {
        return;
    }
    let mean_seconds = stats.service_requested.as_secs_f64() / to_f64(run.http.tally.requests);
    let connections = to_f64(settings.connections as u64);
    add("ceiling_operations_per_second", rounded(connections / mean_seconds).into());
    let reached = stats.service.as_secs_f64() / stats.waited.as_secs_f64();
    add("of_ceiling", round_to(reached, 1e4).into());
}

fn settings_json(target: &Target, settings: &LoadSettings) -> Value {
    let mut json = serde_json::to_value(settings).expect("settings have only string keys");
    json["target"] = target.url.to_string().into();
    json
}

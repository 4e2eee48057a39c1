//! Turns a run into the common envelope.

use serde_json::{Map, Value};

use super::load::Seen;
use super::scenario::Run;
use super::settings::LoadSettings;
use crate::envelope::Envelope;
use crate::http::{Figures, Target, as_number, decimals, each_us, rounded};

pub(crate) fn envelope(run: &Run, target: &Target, settings: &LoadSettings) -> Envelope {
    let unnamed = unnamed(&run.seen, settings);
    let figures = Figures {
        bench: "front",
        scenario: settings.scenario.name(),
        settings: settings_json(target, settings),
        errors: unnamed,
        first_error: (unnamed > 0).then(|| "an answer without X-Worker".to_owned()),
        extra: extra(run, settings),
    };
    figures.envelope(&run.http, &settings.extent())
}

/// Who says how many workers there are wants to know how they share.
fn unnamed(seen: &Seen, settings: &LoadSettings) -> u64 {
    if settings.workers.is_some() { seen.unnamed } else { 0 }
}

fn extra(run: &Run, settings: &LoadSettings) -> Map<String, Value> {
    let (seen, requests) = (&run.seen, run.http.tally.requests);
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| extra.insert(key.to_owned(), value);
    let fairness = seen.shares.fairness(settings.workers);
    add("jain", fairness.map(|fairness| decimals(fairness.jain, 1e4)).into());
    add("min", fairness.map(|fairness| fairness.min).into());
    add("max", fairness.map(|fairness| fairness.max).into());
    add("idle_workers", fairness.and_then(|fairness| fairness.idle_workers).into());
    add("workers_seen", fairness.map_or(0, |fairness| fairness.workers_seen).into());
    add("requests_by_worker", seen.shares.counts().into());
    add("mean_service_us", each_us(seen.service_asked, requests).into());
    match (settings.requests_per_second, settings.workers) {
        (None, _) => add_ceiling(run, settings, &mut add),
        (Some(_), Some(workers)) => {
            let possible = settings.duration.as_secs_f64() * as_number(workers as u64);
            let offered = seen.service_asked.as_secs_f64() / possible;
            add("offered_load", decimals(offered, 1e4).into());
        }
        (Some(_), None) => {}
    }
    extra
}

/// In a closed loop the workers' times alone bound the rate: connections / mean service time. `of_ceiling` is how
/// much of it was reached: service time over latency, which has no edges where a run begins and ends.
fn add_ceiling(
    run: &Run,
    settings: &LoadSettings,
    add: &mut impl FnMut(&str, Value) -> Option<Value>,
) {
    let seen = &run.seen;
    if seen.service.is_zero() {
        return;
    }
    let mean_seconds = seen.service_asked.as_secs_f64() / as_number(run.http.tally.requests);
    let connections = as_number(settings.connections as u64);
    add("ceiling_operations_per_second", rounded(connections / mean_seconds).into());
    let reached = seen.service.as_secs_f64() / seen.waited.as_secs_f64();
    add("of_ceiling", decimals(reached, 1e4).into());
}

fn settings_json(target: &Target, settings: &LoadSettings) -> Value {
    let mut json = serde_json::to_value(settings).expect("settings have only string keys");
    json["target"] = target.url.to_string().into();
    json
}

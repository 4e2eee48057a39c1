//! Turns a run into the common envelope.

use serde_json::{Map, Value};

use super::scenario::Run;
use super::settings::LoadSettings;
use crate::envelope::Envelope;
use crate::http::{Figures, Target, rounded, to_f64};

pub(crate) fn envelope(run: &Run, target: &Target, settings: &LoadSettings) -> Envelope {
    let missing = run.visible.as_ref().map_or(0, |visible| visible.missing);
    let mut json = serde_json::to_value(settings).expect("settings have only string keys");
    json["target"] = target.url.to_string().into();
    let figures = Figures {
        bench: "gems",
        scenario: settings.scenario.name(),
        settings: json,
        errors: missing,
        first_error: (missing > 0)
            .then(|| "a gem that was pushed is not in /versions after 5 s".to_owned()),
        extra: extra(run, settings),
    };
    figures.envelope(&run.http, &settings.profile())
}

fn extra(run: &Run, settings: &LoadSettings) -> Map<String, Value> {
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| extra.insert(key.to_owned(), value);
    let bytes = to_f64(run.http.tally.bytes_in_time) / settings.duration.as_secs_f64();
    add("bytes_per_second", rounded(bytes).into());
    if let Some(visible) = &run.visible {
        let quantile = |quantile| rounded(visible.latencies.quantile_us(quantile));
        add("visible_p50_us", quantile(0.50).into());
        add("visible_p99_us", quantile(0.99).into());
        add("visible_max_us", rounded(visible.latencies.longest_us()).into());
        add("visible_missing", visible.missing.into());
    }
    extra
}

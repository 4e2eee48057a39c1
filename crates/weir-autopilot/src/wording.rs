//! Sentences about decisions, and their data for the journal.

use weir_control::{Change, Decision, Forecast, Measure, Outcome};

use crate::journal::{EntryChange, EntryForecast, EntryOutcome};
use crate::roster::LiveRoster;

/// Returns the value that a forecast is about, for people.
#[must_use]
pub fn measure(roster: &LiveRoster, measure: Measure) -> String {
    match measure {
        Measure::Goodput => "work done, in busy sessions of an idle database".to_owned(),
        Measure::Slowdown => "database time of all jobs, in normal times".to_owned(),
        Measure::SlowdownWithout(class) => {
            format!("database time of all jobs but {}, in normal times", roster.class_name(class))
        }
        Measure::BlockedBy(class) => {
            format!("sessions that wait for a lock of {}", roster.class_name(class))
        }
        Measure::WaitingBeside(class) => {
            format!("waiting jobs of others than {}", roster.class_name(class))
        }
        Measure::QueueAge(queue) => {
            format!("wait of the oldest job of {}, in seconds", roster.queue_name(queue))
        }
    }
}

/// Returns a forecast for the journal.
#[must_use]
pub fn forecast(roster: &LiveRoster, forecast: Forecast) -> EntryForecast {
    let Forecast { measure: of, before, expected, within_seconds } = forecast;
    EntryForecast { measure: measure(roster, of), before, expected, within_seconds }
}

/// Returns a change of a limit for the journal; `None` for one that concerns no limit.
#[must_use]
pub fn change(roster: &LiveRoster, change: &Change, workers: u32) -> Option<EntryChange> {
    match change {
        Change::Threads { from, to } => {
            // As many as there are workers limits nothing.
            let limit = |threads: u32| (threads < workers).then_some(threads);
            Some(EntryChange { class: None, from: limit(*from), to: limit(*to) })
        }
        Change::Cap { class, from, to } => {
            let class = Some(roster.class_name(*class).to_owned());
            Some(EntryChange { class, from: *from, to: *to })
        }
        Change::Allocation { .. } | Change::FreshLane { .. } => None,
    }
}

/// Returns the sentence of a decision with its forecast.
#[must_use]
pub fn decision(roster: &LiveRoster, decision: &Decision) -> String {
    let Some(Forecast { measure: of, before, expected, within_seconds }) = decision.forecast else {
        return decision.reason.clone();
    };
    let measure = measure(roster, of);
    format!(
        "{}. Expected within {within_seconds:.0} s: {measure}: from {before:.1} to {expected:.1}",
        decision.reason
    )
}

/// Returns the sentence of an outcome.
#[must_use]
pub fn outcome(
    roster: &LiveRoster,
    id: u64,
    decision: &Decision,
    outcome: Outcome,
    now: f64,
) -> String {
    // It stays in force unless it does harm.
    let is_short =
        |it: Forecast| it.expected < it.before && now > f64::midpoint(it.before, it.expected);
    let said = match outcome {
        Outcome::Helped if decision.forecast.is_some_and(is_short) => "has not helped yet",
        Outcome::Helped => "helped",
        Outcome::DidNotHelp => "did not help, and is taken back",
        Outcome::Unclear => "had an effect that cannot be told",
    };
    let Some(Forecast { measure: of, before, expected, .. }) = decision.forecast else {
        return format!("decision {id} {said}");
    };
    let measure = measure(roster, of);
    format!(
        "decision {id} {said}: {measure}: {now:.1} ({before:.1} before, expected {expected:.1})"
    )
}

/// Returns an outcome for the journal.
#[must_use]
pub const fn entry_outcome(outcome: Outcome) -> EntryOutcome {
    match outcome {
        Outcome::Helped => EntryOutcome::Helped,
        Outcome::DidNotHelp => EntryOutcome::DidNotHelp,
        Outcome::Unclear => EntryOutcome::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_far_from_its_forecast_is_not_called_a_help() {
        let mut roster = LiveRoster::new(5, 5, true);
        let class = roster.class("Import").unwrap();
        let forecast = Forecast {
            measure: Measure::BlockedBy(class),
            before: 39.0,
            expected: 0.0,
            within_seconds: 20.0,
        };
        let decision = Decision {
            at_seconds: 0.0,
            change: Change::Cap { class, from: None, to: Some(1) },
            reason: String::new(),
            forecast: Some(forecast),
        };
        let text = |now| super::outcome(&roster, 3, &decision, Outcome::Helped, now);
        assert!(text(39.2).starts_with("decision 3 has not helped yet: "), "{}", text(39.2));
        assert!(text(2.0).starts_with("decision 3 helped: "), "{}", text(2.0));
    }
}

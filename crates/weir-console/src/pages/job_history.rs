//! The history of a job, as far as its record shows it: creation, enqueueing, the last failure and
//! the number of failures.

use jiff::Timestamp;
use serde::Deserialize;
use weir_jobs::view;

use crate::figures;
use crate::visible::visible;

/// One line of the history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JobEvent {
    pub(crate) description: String,
    /// The distance from now; empty if the record's time cannot be parsed.
    pub(crate) relative_time: String,
    /// The time in UTC, or as in the record.
    pub(crate) moment: String,
    pub(crate) is_ahead: bool,
}

/// Times that the payload may have besides those of [`view::JobView`]. They are client input.
#[derive(Default, Deserialize)]
struct Times {
    #[serde(default)]
    enqueued_at: Option<serde_json::Value>,
}

/// Returns the events, oldest first, future ones last.
pub(crate) fn events(job: &view::JobView, now: f64) -> Vec<JobEvent> {
    let mut events = Vec::new();
    let mut add = |description: String, at: EventTime<'_>| events.push(at.event(description, now));
    if let Some(created) = &job.created_at {
        add("Created".into(), EventTime::Text(created));
    }
    let times: Times = serde_json::from_str(&job.payload).unwrap_or_default();
    let enqueued_at = times.enqueued_at.as_ref().and_then(|at| at.as_str());
    match (job.state, enqueued_at) {
        (view::JobViewState::Enqueued, _) => {
            add(format!("Enqueued in {}", job.queue), EventTime::Seconds(job.at));
        }
        (_, Some(at)) => add(format!("Enqueued in {}", job.queue), EventTime::Text(at)),
        _ => {}
    }
    if let Some(failure) = &job.failure {
        failed(failure, &mut add);
    }
    match job.state {
        view::JobViewState::Enqueued => {}
        view::JobViewState::Working => working(job, &mut add),
        view::JobViewState::Scheduled => add("Due".into(), EventTime::Seconds(job.at)),
        view::JobViewState::Retries => add("Next retry".into(), EventTime::Seconds(job.at)),
        view::JobViewState::Dead => add("Moved to the dead set".into(), EventTime::Seconds(job.at)),
    }
    in_order(&mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

fn failed(failure: &view::FailureView, add: &mut impl FnMut(String, EventTime<'_>)) {
    let Some(at) = &failure.failed_at else { return };
    let text = format!("{}: {}", failure.errtype, failure.message);
    let text = figures::shortened(&text, MESSAGE_CHARACTERS);
    let description = match failure.retry_count {
        0 => format!("Failed: {text}"),
        earlier => format!("Failed for the {}: {text}", ordinal(earlier + 1)),
    };
    add(description, EventTime::Text(at));
}

/// Characters of an error in the history; the rest of the page has the whole text.
const MESSAGE_CHARACTERS: usize = 160;

fn working(job: &view::JobView, add: &mut impl FnMut(String, EventTime<'_>)) {
    let worker = job.wid.as_ref().map_or_else(String::new, |wid| format!(" by worker {wid}"));
    add(format!("Fetched{worker}"), EventTime::Seconds(job.at));
    let lapses = job.at + figures::as_float(job.reserve_for_seconds);
    add("Reservation expires".into(), EventTime::Seconds(lapses));
}

/// Formats an ordinal: `2nd time`, `11th time`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{}{ending} time", figures::count(number))
}

/// A time in the record.
enum EventTime<'t> {
    /// Seconds since the Unix epoch.
    Seconds(f64),
    /// RFC 3339, if the client followed the protocol.
    Text(&'t str),
}

impl EventTime<'_> {
    /// Returns the event with its time; None if the time cannot be parsed.
    fn event(self, description: String, now: f64) -> (Option<f64>, JobEvent) {
        let (at, text) = match self {
            Self::Seconds(at) => (Some(at), ""),
            Self::Text(text) => (parse(text), text),
        };
        let event = JobEvent {
            description: visible(&description).into_owned(),
            relative_time: at.map_or_else(String::new, |at| figures::relative(now, at)),
            moment: at.map_or_else(
                || visible(&figures::shortened(text, 40)).into_owned(),
                |at| format!("{} UTC", figures::moment(at)),
            ),
            is_ahead: at.is_some_and(|at| at > now),
        };
        (at, event)
    }
}

fn parse(text: &str) -> Option<f64> {
    let at: Timestamp = text.parse().ok()?;
    Some(at.as_duration().as_secs_f64())
}

/// Sorts by time; an event without a time stays after its predecessor.
fn in_order(events: &mut [(Option<f64>, JobEvent)]) {
    let mut latest = f64::NEG_INFINITY;
    for (at, _) in events.iter_mut() {
        latest = *at.get_or_insert(latest);
    }
    events.sort_by(|(one, _), (other, _)| one.unwrap_or(0.0).total_cmp(&other.unwrap_or(0.0)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(state: view::JobViewState, at: f64, payload: &str) -> view::JobView {
        view::JobView {
            jid: "j".into(),
            jobtype: "Work".into(),
            queue: "push".into(),
            state,
            at,
            created_at: Some("1970-01-01T00:10:00.5Z".into()),
            retry: 25,
            reserve_for_seconds: 1_800,
            failure: None,
            wid: None,
            payload: payload.into(),
            key: String::new(),
            features: None,
        }
    }

    fn lines(job: &view::JobView) -> Vec<String> {
        let events = events(job, 1_000.0);
        let line = |event: JobEvent| {
            let ahead = if event.is_ahead { " (ahead)" } else { "" };
            format!("{} | {}{ahead}", event.description, event.relative_time)
        };
        events.into_iter().map(line).collect()
    }

    #[test]
    fn the_history_of_a_job_that_failed_twice() {
        let failure = view::FailureView {
            retry_count: 1,
            remaining: 23,
            failed_at: Some("1970-01-01T00:15:00Z".into()),
            next_at: Some("1970-01-01T00:20:00Z".into()),
            message: "too slow".into(),
            errtype: "Timeout".into(),
            backtrace: Vec::new(),
        };
        let payload = r#"{"enqueued_at":"1970-01-01T00:12:00Z"}"#;
        let job = view::JobView {
            failure: Some(failure),
            ..job(view::JobViewState::Retries, 1_200.0, payload)
        };
        let expected = [
            "Created | 6 min 40 s ago",
            "Enqueued in push | 4 min 40 s ago",
            "Failed for the 2nd time: Timeout: too slow | 1 min 40 s ago",
            "Next retry | in 3 min 20 s (ahead)",
        ];
        assert_eq!(lines(&job), expected);
    }

    #[test]
    fn a_job_in_progress_shows_when_its_reservation_expires() {
        let job = view::JobView {
            wid: Some("w1".into()),
            ..job(view::JobViewState::Working, 990.0, r#"{"enqueued_at":"1970-01-01T00:12:00Z"}"#)
        };
        let expected = [
            "Created | 6 min 40 s ago",
            "Enqueued in push | 4 min 40 s ago",
            "Fetched by worker w1 | 10 s ago",
            "Reservation expires | in 29 min 50 s (ahead)",
        ];
        assert_eq!(lines(&job), expected);
    }

    #[test]
    fn unparsable_times_are_shown_as_they_are() {
        let strange = r#"{"enqueued_at":{"deep":[1]}}"#;
        let mut job = job(view::JobViewState::Dead, 1_000.0, strange);
        job.created_at = Some("<b>yesterday</b>".into());
        let events = events(&job, 1_000.0);
        assert_eq!(
            (events[0].relative_time.as_str(), events[0].moment.as_str()),
            ("", "<b>yesterday</b>")
        );
        assert_eq!(events[1].description, "Moved to the dead set");
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn ordinals_have_the_right_suffix() {
        let texts = [1, 2, 3, 4, 11, 12, 21, 111].map(ordinal);
        let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "111th"];
        assert_eq!(texts, expected.map(|text| format!("{text} time")));
    }
}

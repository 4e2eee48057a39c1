//! The rules of an app by which requests are rejected while a job queue is behind.
//!
//! A rule knows only how long the queue's next job has waited, and since when. A figure that is too
//! old rejects nothing.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderMap;
use weir_settings::Choice;

use crate::rules::Matcher;

/// Whose queue a rule names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Choice)]
pub enum QueueSource {
    /// Weir's job server if it has a queue of that name, or else the observed Sidekiq.
    #[default]
    Auto,
    /// Weir's job server.
    Weir,
    /// The Sidekiq whose Redis is observed.
    Sidekiq,
}

/// A queue whose latency is an input to shed rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedQueue {
    pub source: QueueSource,
    pub name: String,
}

/// A rule that rejects requests while a job queue is behind. Clients that retry by themselves
/// (federating servers, webhooks) get a Retry-After.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShedSettings {
    pub matcher: Matcher,
    /// The job queue.
    pub queue: WatchedQueue,
    /// The rule is active while the next job has waited for longer than this.
    pub latency_max: Duration,
    /// Figures of the queue that are older than this are not used.
    pub stale_after: Duration,
    pub status: StatusCode,
    /// The value of Retry-After.
    pub retry_after: Duration,
}

/// What is known of a queue on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// How long the next job had waited. None: jobs wait, but have no time.
    pub latency: Option<Duration>,
    /// How long ago this was read.
    pub age: Duration,
}

/// Whether a rule rejects requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ShedState {
    #[default]
    Off,
    On,
    /// The queue's latency is not known, so nothing is rejected.
    Unknown,
}

impl ShedState {
    /// All states in their order, with their names in the metrics.
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::Off, "off"), (Self::On, "on"), (Self::Unknown, "unknown")];
}

/// A shed rule and its state.
#[derive(Debug)]
pub(crate) struct ShedRule {
    pub(crate) settings: ShedSettings,
    /// A place in [`ShedState::ALL`]. Every request reads it.
    state: AtomicU8,
}

impl ShedRule {
    pub(crate) fn new(settings: ShedSettings) -> Self {
        Self { settings, state: AtomicU8::new(ShedState::Off as u8) }
    }

    pub(crate) fn state(&self) -> ShedState {
        let place = usize::from(self.state.load(Ordering::Relaxed));
        ShedState::ALL.get(place).map_or(ShedState::Off, |(state, _)| *state)
    }

    /// Sets the state by the samples of all servers that have the queue.
    pub(crate) fn update(&self, samples: &[LatencySample]) {
        self.set(self.settings.judge(samples));
    }

    pub(crate) fn set(&self, state: ShedState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn rejects(&self, path: &str, headers: &HeaderMap) -> bool {
        self.state() == ShedState::On && self.settings.matcher.matches(path, headers)
    }
}

impl ShedSettings {
    /// Returns the state of the rule. One server on which the queue is behind suffices; that it is
    /// not behind is known only if all of them are.
    fn judge(&self, samples: &[LatencySample]) -> ShedState {
        let fresh =
            |sample: &LatencySample| sample.latency.filter(|_| sample.age <= self.stale_after);
        if samples.iter().filter_map(fresh).any(|latency| latency > self.latency_max) {
            ShedState::On
        } else if samples.is_empty() || samples.iter().any(|sample| fresh(sample).is_none()) {
            ShedState::Unknown
        } else {
            ShedState::Off
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY_MAX: Duration = Duration::from_secs(300);
    const STALE_AFTER: Duration = Duration::from_secs(15);
    const SECOND: Duration = Duration::from_secs(1);

    fn rule() -> ShedRule {
        let queue = WatchedQueue { source: QueueSource::Auto, name: "ingress".to_owned() };
        ShedRule::new(ShedSettings {
            matcher: Matcher { path: Some("/inbox".to_owned()), header: None },
            queue,
            latency_max: LATENCY_MAX,
            stale_after: STALE_AFTER,
            status: StatusCode::SERVICE_UNAVAILABLE,
            retry_after: Duration::from_secs(60),
        })
    }

    fn sample(latency: Duration, age: Duration) -> LatencySample {
        LatencySample { latency: Some(latency), age }
    }

    #[test]
    fn a_shed_rule_is_active_while_its_queue_is_behind() {
        let rule = rule();
        let rejects = || rule.rejects("/inbox", &HeaderMap::new());
        assert!(!rejects());
        rule.update(&[sample(LATENCY_MAX, SECOND)]);
        assert!(!rejects() && rule.state() == ShedState::Off);
        rule.update(&[sample(LATENCY_MAX + SECOND, SECOND)]);
        assert!(rejects() && !rule.rejects("/", &HeaderMap::new()));
        rule.update(&[]);
        assert!(!rejects() && rule.state() == ShedState::Unknown, "what is not known is no reason");
    }

    #[test]
    fn an_old_sample_rejects_nothing() {
        let (rule, late) = (rule(), LATENCY_MAX + SECOND);
        for (samples, expected) in [
            (vec![sample(late, STALE_AFTER)], ShedState::On),
            (vec![sample(late, STALE_AFTER + SECOND)], ShedState::Unknown),
            (vec![LatencySample { latency: None, age: SECOND }], ShedState::Unknown),
            (vec![sample(SECOND, SECOND), sample(late, SECOND)], ShedState::On),
            (vec![sample(SECOND, STALE_AFTER + SECOND), sample(late, SECOND)], ShedState::On),
            (vec![sample(SECOND, SECOND), sample(late, STALE_AFTER + SECOND)], ShedState::Unknown),
        ] {
            rule.update(&samples);
            assert_eq!(rule.state(), expected, "{samples:?}");
        }
    }
}

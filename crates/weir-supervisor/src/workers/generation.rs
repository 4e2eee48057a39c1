//! One generation of a worker, as the rules see it. Pure: times are arguments.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::spec::{GroupSpec, Readiness};
use super::values::LaunchValues;
use crate::restarts::RestartPolicy;

/// Assigns numbers that are unique among the generations of all groups.
#[derive(Debug, Default)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Continues after `last`.
    pub(crate) fn after(last: u64) -> Self {
        Self(last)
    }

    pub(crate) fn last(&self) -> u64 {
        self.0
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// The timeouts of a group.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) restart: RestartPolicy,
    pub(crate) start_deadline: Duration,
    /// Time after which a worker counts as ready.
    pub(crate) ready_after: Option<Duration>,
    /// Whether the service reports readiness. The start deadline runs only while it is connected.
    pub(crate) is_probed: bool,
    pub(crate) stop_deadline: Duration,
    /// How long the service may take to release a probed worker.
    pub(crate) let_go_deadline: Duration,
    /// None: evictions kill at once.
    pub(crate) dump_wait: Option<Duration>,
    pub(crate) watchdog: Option<Duration>,
    pub(crate) retry_after: Duration,
}

/// The time-dependent inputs of the rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    /// Since when a service that can probe is connected.
    pub(crate) prober_since: Option<Duration>,
}

/// The phase of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Starting,
    Ready,
    /// Is asked to end when the service has stopped sending it requests, at the latest at
    /// `stop_at`.
    Leaving {
        stop_at: Duration,
    },
    /// Was asked to end, or announced that it ends by itself.
    Draining {
        kill_at: Duration,
    },
    /// Was asked for a dump, and is killed afterwards.
    Dumping {
        kill_at: Duration,
        reason: String,
    },
    /// SIGKILL was sent.
    Killed,
}

/// An action on the process of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Start(u64),
    /// Request its release from the service.
    RequestRelease(u64),
    /// Ask it to end.
    Stop(u64),
    /// Request a dump, before it is killed for this reason.
    Dump(u64, String),
    /// Kill its process group.
    Kill(u64, String),
    /// Report to all services that it is ready.
    Announce(u64),
}

/// The lifecycle of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    pub(crate) started_at: Duration,
    /// Its last sign of life.
    pub(crate) alive_at: Duration,
    /// None: it was never ready.
    pub(crate) ready_at: Option<Duration>,
    /// Whether the parent stopped or evicted it, so its end was requested.
    pub(crate) is_dismissed: bool,
    /// The watchdog interval that the process got at its start.
    #[serde(default)]
    pub(crate) watchdog: Option<Duration>,
    /// What the process got at its start. None: not known yet, or an earlier program started it.
    #[serde(default)]
    pub(crate) launch: Option<LaunchValues>,
}

impl Times {
    pub(crate) fn new(spec: &GroupSpec) -> Self {
        Self {
            restart: spec.restart.clone(),
            start_deadline: spec.start_deadline,
            ready_after: match spec.readiness {
                Readiness::Started(lived) => Some(lived),
                _ => None,
            },
            is_probed: spec.readiness == Readiness::Probed,
            stop_deadline: spec.stop_deadline,
            let_go_deadline: spec.let_go_deadline,
            dump_wait: spec.dump.map(|dump| dump.wait),
            watchdog: spec.watchdog,
            retry_after: spec.retry_after,
        }
    }
}

impl Generation {
    pub(crate) fn new(number: u64, now: Duration, times: &Times) -> Self {
        Self {
            number,
            phase: Phase::Starting,
            started_at: now,
            alive_at: now,
            ready_at: None,
            is_dismissed: false,
            watchdog: times.watchdog,
            launch: None,
        }
    }

    /// Returns the database connections that its process may open.
    pub(crate) fn connections(&self) -> u32 {
        self.launch.as_ref().map_or(0, |launch| launch.connections)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Returns whether it is leaving, draining, dumping or killed.
    pub(crate) fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Starting | Phase::Ready)
    }

    /// Marks the generation as ready.
    pub(crate) fn mark_ready(&mut self, now: Duration) {
        self.phase = Phase::Ready;
        self.ready_at = Some(now);
        self.alive_at = now;
    }

    /// Asks it to end gracefully. A worker that gets requests from the service is asked only after
    /// the service has released it: otherwise a request could reach a worker that has stopped
    /// listening.
    pub(crate) fn drain(&mut self, now: Duration, times: &Times) -> Option<Action> {
        if self.is_ending() {
            return None;
        }
        self.is_dismissed = true;
        if times.is_probed && self.phase == Phase::Ready {
            self.phase = Phase::Leaving { stop_at: now.saturating_add(times.let_go_deadline) };
            return Some(Action::RequestRelease(self.number));
        }
        self.start_drain(now, times);
        Some(Action::Stop(self.number))
    }

    /// Records that the service sends it no more requests.
    pub(crate) fn release(&mut self, now: Duration, times: &Times) -> Option<Action> {
        if !matches!(self.phase, Phase::Leaving { .. }) {
            return None;
        }
        self.start_drain(now, times);
        Some(Action::Stop(self.number))
    }

    /// Starts the drain, with the stop deadline.
    pub(crate) fn start_drain(&mut self, now: Duration, times: &Times) {
        self.phase = Phase::Draining { kill_at: now.saturating_add(times.stop_deadline) };
    }

    /// Kills it, after a dump if one is configured.
    pub(crate) fn evict(&mut self, reason: &str, now: Duration, times: &Times) -> Option<Action> {
        if matches!(self.phase, Phase::Dumping { .. } | Phase::Killed) {
            return None;
        }
        self.is_dismissed = true;
        let Some(wait) = times.dump_wait else { return Some(self.kill(reason)) };
        let kill_at = now.saturating_add(wait);
        self.phase = Phase::Dumping { kill_at, reason: reason.to_owned() };
        Some(Action::Dump(self.number, reason.to_owned()))
    }

    pub(crate) fn kill(&mut self, reason: &str) -> Action {
        self.phase = Phase::Killed;
        Action::Kill(self.number, reason.to_owned())
    }

    /// Returns when its next timer expires.
    pub(crate) fn wakes_at(&self, moment: Moment, times: &Times) -> Option<Duration> {
        match self.phase {
            Phase::Starting => {
                let ready_at = times.ready_after.map(|after| self.started_at + after);
                ready_at.or_else(|| self.start_deadline(moment, times))
            }
            Phase::Ready => self.watchdog(times).map(|limit| self.alive_at + limit),
            // Without a service, it gets no requests.
            Phase::Leaving { stop_at } => {
                Some(if moment.prober_since.is_some() { stop_at } else { moment.now })
            }
            Phase::Draining { kill_at } | Phase::Dumping { kill_at, .. } => Some(kill_at),
            Phase::Killed => None,
        }
    }

    /// Performs what is due. A generation that has lived long enough is announced, but keeps its
    /// phase: readiness concerns the whole slot.
    pub(crate) fn run_due(&mut self, moment: Moment, times: &Times) -> Option<Action> {
        if self.wakes_at(moment, times).is_none_or(|at| at > moment.now) {
            return None;
        }
        match &self.phase {
            Phase::Starting if times.ready_after.is_some() => Some(Action::Announce(self.number)),
            Phase::Starting => {
                let limit = times.start_deadline;
                Some(self.kill(&format!("not ready within start_deadline ({limit:?})")))
            }
            Phase::Ready => {
                let limit = self.watchdog(times).unwrap_or_default();
                let reason = format!("no sign of life within watchdog ({limit:?})");
                self.evict(&reason, moment.now, times)
            }
            Phase::Leaving { .. } => self.release(moment.now, times),
            Phase::Draining { .. } => {
                let limit = times.stop_deadline;
                Some(self.kill(&format!("still running at its stop_deadline ({limit:?})")))
            }
            Phase::Dumping { reason, .. } => {
                let reason = reason.clone();
                Some(self.kill(&reason))
            }
            Phase::Killed => None,
        }
    }

    /// Returns the watchdog timeout: the longer one of that at the process's start, which is all it
    /// knows, and the current one. None if either is disabled.
    fn watchdog(&self, times: &Times) -> Option<Duration> {
        Some(self.watchdog?.max(times.watchdog?))
    }

    /// Returns the end of the start deadline. None: it does not run now.
    fn start_deadline(&self, moment: Moment, times: &Times) -> Option<Duration> {
        let from = match times.is_probed {
            true => self.started_at.max(moment.prober_since?),
            false => self.started_at,
        };
        Some(from.saturating_add(times.start_deadline))
    }
}

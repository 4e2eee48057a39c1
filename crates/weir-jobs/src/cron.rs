//! Jobs that are enqueued at the times of a schedule: `[[jobs.cron]]`.
//!
//! Pure rules. [`crate::server`] applies them; a store remembers the last time of each job that was
//! handled, together with the job that it enqueued, so that each time enqueues one job at most.

mod schedule;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_base::clock::Timestamp;

pub use schedule::{Schedule, ScheduleError};
pub use settings::{CronJobSettings, CronSettings, CronZone, MissedRuns};

/// A time that is handled so late was missed: Weir did not run, or could not store the job.
pub(crate) const LATE: Duration = Duration::from_secs(60);

/// A store that several nodes share forgets a cron job which none of them has had in its settings for this long.
pub const CRON_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What a store remembers of a cron job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronState {
    /// The last time that was handled; initially when the job was first seen.
    pub last: Timestamp,
    pub paused: bool,
}

/// What a store remembers of all cron jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronStates {
    /// The time by which all nodes that share the store decide what is due.
    pub now: Timestamp,
    pub by_name: BTreeMap<String, CronState>,
}

/// What became of a time of a cron job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronRunOutcome {
    /// It is handled now, with its job, if there is one.
    Handled,
    /// It is handled now without its job, because the cron job is paused.
    Paused,
    /// It or a later time was handled before.
    HandledBefore,
}

/// A time of a schedule that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueRun {
    pub(crate) at: Timestamp,
    /// Whether it was missed and the job's policy is to skip it.
    pub(crate) is_skipped: bool,
}

/// Returns the time that is due, if any. Of several that were missed, only the last one counts.
pub(crate) fn due(cron: &CronSettings, last: Timestamp, now: Timestamp) -> Option<DueRun> {
    let (schedule, zone) = (&cron.schedule, &cron.timezone.0);
    schedule.next_after(last, zone).filter(|next| *next <= now)?;
    let at = schedule.last_between(last, now, zone)?;
    let is_skipped = cron.missed == MissedRuns::Skip && now.since(at) > LATE;
    Some(DueRun { at, is_skipped })
}

/// Returns whether `at` is a time of the schedule.
pub(crate) fn is_time_of(cron: &CronSettings, at: Timestamp) -> bool {
    let before = at - Duration::from_secs(1);
    cron.schedule.last_between(before, at, &cron.timezone.0) == Some(at)
}

/// The states of all cron jobs, by name. Both stores use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CronTable {
    states: BTreeMap<String, CronState>,
    /// Names whose records are to be written again.
    changed: BTreeSet<String>,
}

impl CronTable {
    pub(crate) fn get(&self, name: &str) -> Option<&CronState> {
        self.states.get(name)
    }

    pub(crate) fn states(&self) -> &BTreeMap<String, CronState> {
        &self.states
    }

    /// Returns what becomes of the time `at` with or without a job.
    pub(crate) fn outcome_of(&self, name: &str, at: Timestamp, has_job: bool) -> CronRunOutcome {
        match self.states.get(name) {
            Some(state) if state.last >= at => CronRunOutcome::HandledBefore,
            Some(state) if has_job && state.paused => CronRunOutcome::Paused,
            _ => CronRunOutcome::Handled,
        }
    }

    /// Notes that the time `at` was handled.
    pub(crate) fn handled(&mut self, name: &str, at: Timestamp) {
        let paused = self.states.get(name).is_some_and(|state| state.paused);
        self.set(name, CronState { last: at, paused });
    }

    /// Pauses or resumes a job. Returns false if it is unknown.
    pub(crate) fn pause(&mut self, name: &str, paused: bool) -> bool {
        let Some(state) = self.states.get(name) else { return false };
        let last = state.last;
        self.set(name, CronState { last, paused });
        true
    }

    /// Replaces what is remembered of a job.
    pub(crate) fn set(&mut self, name: &str, state: CronState) {
        self.states.insert(name.to_owned(), state);
        self.changed.insert(name.to_owned());
    }

    /// Adds a stored state.
    pub(crate) fn restore(&mut self, name: &str, state: CronState) {
        self.states.insert(name.to_owned(), state);
    }

    /// Forgets a job.
    pub(crate) fn remove(&mut self, name: &str) {
        self.states.remove(name);
        self.changed.remove(name);
    }

    /// Returns a name whose record is to be written.
    pub(crate) fn changed(&self) -> Option<&str> {
        self.changed.first().map(String::as_str)
    }

    /// Notes that a record was written.
    pub(crate) fn written(&mut self, name: &str) {
        self.changed.remove(name);
    }

    /// Requests new records for all jobs.
    pub(crate) fn change_all(&mut self) {
        self.changed = self.states.keys().cloned().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp;

    fn at(text: &str) -> Timestamp {
        stamp::parse(text).unwrap()
    }

    fn cron(missed: MissedRuns) -> CronSettings {
        let schedule = "0 5 * * *".parse().unwrap();
        CronSettings { schedule, missed, ..CronSettings::default() }
    }

    #[test]
    fn the_last_of_several_missed_times_counts() {
        let last = at("2026-11-28T05:00:00Z");
        let check = |missed, now: &str, expected: Option<(&str, bool)>| {
            let expected = expected.map(|(time, is_skipped)| DueRun { at: at(time), is_skipped });
            assert_eq!(due(&cron(missed), last, at(now)), expected, "{now}");
        };
        for missed in [MissedRuns::Skip, MissedRuns::RunOnce] {
            check(missed, "2026-11-29T04:59:59Z", None);
            check(missed, "2026-11-29T05:01:00Z", Some(("2026-11-29T05:00:00Z", false)));
        }
        let third = "2026-12-01T05:00:00Z";
        check(MissedRuns::Skip, "2026-12-01T05:01:01Z", Some((third, true)));
        check(MissedRuns::RunOnce, "2026-12-01T09:00:00Z", Some((third, false)));
    }

    #[test]
    fn a_time_is_handled_once_and_a_pause_stays() {
        let mut table = CronTable::default();
        assert!(!table.pause("a", true));
        table.handled("a", at("2026-11-28T05:00:00Z"));
        assert!(table.pause("a", true));
        table.handled("a", at("2026-11-29T05:00:00Z"));
        assert!(table.get("a").unwrap().paused);
        let outcome = |time: &str, has_job| table.outcome_of("a", at(time), has_job);
        assert_eq!(outcome("2026-11-29T05:00:00Z", true), CronRunOutcome::HandledBefore);
        assert_eq!(outcome("2026-11-29T05:00:01Z", true), CronRunOutcome::Paused);
        assert_eq!(outcome("2026-11-29T05:00:01Z", false), CronRunOutcome::Handled);
        assert_eq!(table.changed(), Some("a"));
        table.written("a");
        assert_eq!(table.changed(), None);
    }
}

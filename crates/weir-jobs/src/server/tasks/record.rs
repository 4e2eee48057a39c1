//! What is kept of a task, and what is known of one that runs.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

use crate::handle::StepAction;
use crate::model::EntryKey;
use crate::view::{TaskState, TaskView};

/// The version of the file. A newer one is not read.
pub(super) const VERSION: u32 = 1;

/// The file of the tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskFile {
    pub(super) version: u32,
    /// The number of the last task that began.
    pub(super) last_id: u64,
    pub(super) tasks: Vec<TaskRecord>,
}

impl Default for TaskFile {
    fn default() -> Self {
        Self { version: VERSION, last_id: 0, tasks: Vec::new() }
    }
}

/// A task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskRecord {
    pub(super) id: u64,
    pub(super) by: String,
    /// The store whose jobs it acts on: its cursor says nothing about another one.
    pub(super) store: String,
    pub(super) place: String,
    pub(super) search: Option<String>,
    pub(super) jobtype: Option<String>,
    pub(super) action: StepAction,
    pub(super) state: TaskState,
    pub(super) is_stopping: bool,
    pub(super) reason: Option<String>,
    pub(super) began_at_us: u64,
    pub(super) ended_at_us: Option<u64>,
    pub(super) total: u64,
    pub(super) examined: u64,
    pub(super) changed: u64,
    pub(super) unchanged: u64,
    /// The queues or the set that are not done, the present one first.
    pub(super) parts: VecDeque<TaskPart>,
    /// The keys of the jobs that the step in progress changes.
    pub(super) pending: Vec<String>,
}

/// How far a task is in one queue or set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskPart {
    pub(super) place: String,
    /// See [`crate::server::steps::StepCursor`].
    pub(super) start: u64,
    pub(super) after: Option<String>,
}

impl TaskRecord {
    /// Prepares a task of the last process, with the store of now.
    pub(super) fn reopen(&mut self, store: &str, now: Timestamp) {
        if self.store != store && self.state != TaskState::Done {
            self.state = TaskState::Failed;
            let text = format!("jobs.store was changed from {} to {store}", self.store);
            self.reason = Some(text);
            self.ended_at_us = self.ended_at_us.or(Some(now.as_micros()));
        }
        if self.state == TaskState::Running && self.is_stopping {
            (self.state, self.is_stopping) = (TaskState::Stopped, false);
            self.ended_at_us = self.ended_at_us.or(Some(now.as_micros()));
        }
    }

    /// Counts `examined` jobs, of which `matched` matched and `changed` were changed, and clears what is pending.
    pub(super) fn count(&mut self, examined: u64, matched: u64, changed: u64) {
        self.examined += examined;
        self.changed += changed;
        self.unchanged += matched.saturating_sub(changed);
        self.pending.clear();
    }

    /// Goes on behind `next` in the present part, or in the next part.
    pub(super) fn go_on(&mut self, next: Option<&EntryKey>) {
        match (next, self.parts.front_mut()) {
            (Some(next), Some(part)) => part.after = Some(next.to_string()),
            _ => {
                self.parts.pop_front();
            }
        }
    }

    pub(super) fn view(&self, live: Option<&LiveTask>, now: Timestamp) -> TaskView {
        let seconds = |micros: u64| Timestamp::from_micros(micros).as_secs_f64();
        let is_running = self.state == TaskState::Running;
        let live = live.filter(|_| is_running);
        let per_second = live.map_or(0.0, |live| live.per_second(self.examined, now));
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let left = self.total.saturating_sub(self.examined) as f64;
        TaskView {
            id: self.id,
            place: self.place.clone(),
            search: self.search.clone(),
            jobtype: self.jobtype.clone(),
            action: self.action.clone(),
            by: self.by.clone(),
            state: self.state,
            is_stopping: self.is_stopping,
            waits_for: live.and_then(|live| live.waits_for.clone()),
            reason: self.reason.clone(),
            began_at: seconds(self.began_at_us),
            ended_at: self.ended_at_us.map(seconds),
            total: self.total,
            examined: self.examined,
            changed: self.changed,
            unchanged: self.unchanged,
            per_second,
            seconds_left: (per_second > 0.0).then(|| left / per_second),
        }
    }
}

/// Samples of a task's progress: their number, and the time between two of them.
const SAMPLES_MAX: usize = 10;
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// What is known of a task that runs in this process.
#[derive(Debug, Default)]
pub(super) struct LiveTask {
    pub(super) waits_for: Option<String>,
    /// Times, and the jobs that were examined by then.
    samples: VecDeque<(Timestamp, u64)>,
}

impl LiveTask {
    /// Remembers how far the task is, for its rate.
    pub(super) fn sample(&mut self, examined: u64, now: Timestamp) {
        if self.samples.back().is_some_and(|(at, _)| now.since(*at) < SAMPLE_EVERY) {
            return;
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, examined));
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    fn per_second(&self, examined: u64, now: Timestamp) -> f64 {
        let Some((since, then)) = self.samples.front() else { return 0.0 };
        let seconds = now.since(*since).as_secs_f64();
        if seconds > 0.0 { examined.saturating_sub(*then) as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_ends_if_its_jobs_are_elsewhere_now() {
        let record = |state: &str| -> TaskRecord {
            let json = format!(
                r#"{{"id":1,"by":"b","store":"redis (a:6379)","place":"dead","search":null,"jobtype":null,
                "action":"discard","state":"{state}","is_stopping":false,"reason":null,"began_at_us":1,
                "ended_at_us":null,"total":9,"examined":0,"changed":0,"unchanged":0,"parts":[],"pending":[]}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        for (state, store, expected) in [
            ("running", "redis (a:6379)", TaskState::Running),
            ("running", "redis (b:6379)", TaskState::Failed),
            ("stopped", "redis (b:6379)", TaskState::Failed),
            ("done", "redis (b:6379)", TaskState::Done),
        ] {
            let mut task = record(state);
            task.reopen(store, Timestamp::from_millis(5));
            assert_eq!(task.state, expected, "{state} {store}");
        }
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let second = |n: u64| Timestamp::from_millis(n * 1_000);
        let mut live = LiveTask::default();
        assert_eq!(live.per_second(5, second(1)).to_bits(), 0.0_f64.to_bits());
        for n in 0..20 {
            live.sample(n * if n < 10 { 1 } else { 100 }, second(n));
            live.sample(9_999, second(n));
        }
        assert_eq!(live.samples.len(), SAMPLES_MAX);
        assert_eq!(live.per_second(2_000, second(20)).to_bits(), 100.0_f64.to_bits());
    }
}

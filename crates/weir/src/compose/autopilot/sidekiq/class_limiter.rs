//! Limits one class of Sidekiq's jobs: its waiting jobs are moved to a queue of their own, which one process of the group serves
//! with as many threads as the limit has.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_admin::workers::{OverrideRequest, ParentCommands};
use weir_autopilot::sources::CarriedLimits;
use weir_base::clock::Clock;
use weir_sidekiq::LimitedQueue;
use weir_supervisor::control::ParentCommand;

use super::class_mover::ClassMover;
use super::groups::{GroupNow, NOT_REPORTED, WorkerGroups, queue_name};
use super::thread_limiter::{BY, REASON, RENEWED_BELOW, REPLY_TIMEOUT};

/// Classes that are limited at once: a group has one process for a limited class.
const CLASSES_MAX: usize = 1;
/// Queues of a group whose jobs are looked at in each round.
const QUEUES_MAX: usize = 20;

/// Limits a class.
#[derive(Debug)]
pub(super) struct ClassLimiter {
    groups: WorkerGroups,
    parent: ParentCommands,
    clock: Clock,
    /// Why no class may be limited, whatever the permissions.
    refusal: Option<String>,
    /// Without one, nothing is brought back either.
    pub(super) mover: Option<ClassMover>,
    /// The class that is limited.
    limited: Option<String>,
}

impl ClassLimiter {
    pub(super) fn new(
        groups: WorkerGroups,
        parent: ParentCommands,
        clock: Clock,
        mover: Option<ClassMover>,
        refusal: Option<String>,
    ) -> Self {
        Self { groups, parent, clock, refusal, mover, limited: None }
    }

    /// Returns why a class cannot be limited now.
    pub(super) fn can_limit(&self, class: &str, acts: bool) -> Result<(), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let Some(mover) = &self.mover else {
            return Err("weir.toml has no [[observe.redis]]".to_owned());
        };
        if let Some(other) = self.limited.as_ref().filter(|limited| *limited != class) {
            return Err(format!("{other} is limited, and {CLASSES_MAX} job type at a time can be"));
        }
        if acts {
            mover.prepare();
        }
        if let Some(refusal) = mover.refusal() {
            return Err(refusal);
        }
        // The parent's state may not be known yet.
        match self.group("") {
            Some(group) => queues_of(&group, class).map(drop),
            None if self.groups.are_reported() => Err(NO_GROUP.to_owned()),
            None => Ok(()),
        }
    }

    /// Carries the limit of a class out, or ends it.
    pub(super) async fn carry_out(
        &mut self,
        limits: &CarriedLimits,
        lease: Duration,
    ) -> Result<(), String> {
        let Some((class, jobs)) = limits.classes.first_key_value() else {
            return self.end(lease).await;
        };
        if limits.classes.len() > CLASSES_MAX {
            return Err(format!("{CLASSES_MAX} job type at a time can be limited"));
        }
        if !self.groups.are_reported() {
            return Err(NOT_REPORTED.to_owned());
        }
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let queue = limits.class_queues.get(class).map_or("", String::as_str);
        let group = self.group(queue).ok_or(NO_GROUP)?;
        let queues = queues_of(&group, class)?;
        self.limited = Some(class.clone());
        for other in self.groups.limited_groups().iter().filter(|it| !it.serves_for(&group.name)) {
            self.limit(other, None, lease).await?;
        }
        let serving = self.groups.limited_group(&group.name).ok_or(NO_GROUP)?;
        let names = queues.iter().map(|limited| limited.name.clone()).collect();
        // The threads first: if the budget has no room for them, no job moves.
        let threads = (*jobs > 0).then_some((*jobs, names));
        self.limit(&serving, threads, lease).await?;
        let mover = self.mover.as_mut().ok_or("weir.toml has no [[observe.redis]]")?;
        mover.set(queues.into_iter().collect(), lease).await
    }

    /// Brings the jobs back, and ends the process that has served them.
    async fn end(&mut self, lease: Duration) -> Result<(), String> {
        self.limited = None;
        if let Some(mover) = &mut self.mover {
            mover.set(BTreeSet::new(), lease).await?;
        }
        for serving in self.groups.limited_groups() {
            self.limit(&serving, None, lease).await?;
        }
        Ok(())
    }

    /// Limits the process that serves a limited class to so many threads and these queues. None: there is none.
    async fn limit(
        &self,
        serving: &GroupNow,
        wanted: Option<(u32, Vec<String>)>,
        lease: Duration,
    ) -> Result<(), String> {
        let now_seconds = self.clock.now().as_secs_f64();
        let limit = serving.state.limit.as_ref();
        let in_force = limit.and_then(|it| Some((it.threads?, it.queues.clone()?)));
        let left = limit.map_or(0.0, |limit| limit.until as f64 - now_seconds);
        let is_renewed = wanted.is_none() || left > RENEWED_BELOW * lease.as_secs_f64();
        if in_force == wanted && is_renewed {
            return Ok(());
        }
        let limit = wanted.map(|(threads, queues)| OverrideRequest {
            processes: Some(1),
            threads: Some(threads),
            queues: Some(queues),
            for_seconds: Some(lease.as_secs().max(1)),
            by: BY.to_owned(),
            reason: REASON.to_owned(),
            ..OverrideRequest::default()
        });
        let command = ParentCommand::Limit { group: serving.name.clone(), limit };
        let sent = self.parent.send(command, REPLY_TIMEOUT).await;
        sent.map(drop).map_err(|error| format!("workers.{}: {}", serving.name, error.text()))
    }

    /// Returns what is wrong with the limit in force.
    pub(super) fn problem(&self) -> Option<String> {
        self.limited.as_ref()?;
        let failure = || self.groups.failure_of_limited();
        self.mover.as_ref().and_then(ClassMover::problem).or_else(failure)
    }

    /// Returns the group that serves the queue, or the first one that can serve a limited class.
    fn group(&self, queue: &str) -> Option<GroupNow> {
        let mut able = self.groups.now();
        able.retain(|group| self.groups.limited_group(&group.name).is_some());
        let serves = |group: &GroupNow| {
            group.state.in_force.queues.iter().any(|argument| queue_name(argument) == queue)
        };
        let at = able.iter().position(serves).unwrap_or_default();
        able.get(at).cloned()
    }
}

const NO_GROUP: &str = "no group of autopilot.manage has a process for it: its [workers.NAME] needs \"{concurrency}\" and \
     \"{queues}\" in command, and a NAME of 24 letters at most; after a change, run weir upgrade";

impl GroupNow {
    fn serves_for(&self, group: &str) -> bool {
        self.state.limited_of.as_deref() == Some(group)
    }
}

/// Returns the limited queues of a class for the queues of a group, in their order.
fn queues_of(group: &GroupNow, class: &str) -> Result<Vec<LimitedQueue>, String> {
    let queues = group.state.in_force.queues.iter().map(|argument| queue_name(argument));
    queues.take(QUEUES_MAX).map(|queue| LimitedQueue::of(queue, class)).collect()
}

/// Returns how a limit is carried out, for people.
pub(super) fn describe(class: &str, queue: &str, jobs: Option<u32>) -> Option<String> {
    let limited = LimitedQueue::of(queue, class).ok()?.name;
    Some(match jobs {
        Some(0) => format!("the waiting jobs of {class} move to {limited}, where they wait"),
        Some(jobs) => {
            let threads = if jobs == 1 { "1 thread".to_owned() } else { format!("{jobs} threads") };
            format!("the waiting jobs of {class} move to {limited}, served by {threads}")
        }
        None => format!("the jobs of {limited} move back to {queue}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_where_the_jobs_are() {
        let text = |jobs| describe("Import", "default", jobs).unwrap();
        assert_eq!(
            text(Some(3)),
            "the waiting jobs of Import move to default_limited_Import, served by 3 threads"
        );
        assert!(text(Some(1)).ends_with("served by 1 thread"));
        assert!(text(Some(0)).ends_with("default_limited_Import, where they wait"));
        assert_eq!(text(None), "the jobs of default_limited_Import move back to default");
        assert_eq!(describe("a b", "default", Some(1)), None);
    }
}

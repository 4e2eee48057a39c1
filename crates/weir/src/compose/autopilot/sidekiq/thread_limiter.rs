//! Carries a number of threads out: by the parent, which replaces processes one after the other, within the budget.

use std::time::Duration;

use tokio::time::Instant;
use weir_admin::workers::{OverrideRequest, ParentCommands};
use weir_autopilot::sources::{CarriedLimits, ChangeProgress};
use weir_autopilot::thread_groups::{ThreadGroup, split};
use weir_base::clock::Clock;
use weir_supervisor::control::{ParentCommand, RollingState};

use super::groups::{GroupNow, NOT_REPORTED, WorkerGroups, thread_group};

/// Time until the parent accepts or rejects a limit. Less than the shortest time limit of a request by default.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// A limit is renewed when less than this share of its time is left: each renewal is written to the disk.
pub(super) const RENEWED_BELOW: f64 = 0.75;
/// How long new processes may take to send a heartbeat with their threads, after the parent counts them as ready.
const HEARTBEAT_MAX: Duration = Duration::from_secs(300);
pub(super) const BY: &str = "autopilot";
pub(super) const REASON: &str = "weir autopilot journal has the reason";

/// Limits the threads of groups of workers.
#[derive(Debug)]
pub(super) struct ThreadLimiter {
    groups: WorkerGroups,
    parent: ParentCommands,
    clock: Clock,
    /// What was to be carried out last. None: nothing yet.
    wanted: Option<CarriedLimits>,
    /// Since when heartbeats show other threads.
    differs_since: Option<Instant>,
}

impl ThreadLimiter {
    pub(super) fn new(groups: WorkerGroups, parent: ParentCommands, clock: Clock) -> Self {
        Self { groups, parent, clock, wanted: None, differs_since: None }
    }

    /// Limits the threads of all groups together, or renews that.
    pub(super) async fn carry_out(
        &mut self,
        limits: &CarriedLimits,
        lease: Duration,
    ) -> Result<(), String> {
        self.wanted = Some(limits.clone());
        let threads = limits.threads;
        let groups = self.groups.now();
        if !self.groups.are_reported() {
            return Err(NOT_REPORTED.to_owned());
        }
        let now_seconds = self.clock.now().as_secs_f64();
        // One group after the other: each of them does less while its processes are replaced.
        let mut is_changing = groups.iter().any(GroupNow::is_rolling);
        let mut failed = None;
        for (group, wanted) in wanted(&groups, threads) {
            let limit = group.state.limit.as_ref();
            let in_force = limit.and_then(|limit| limit.threads);
            let left = limit.map_or(0.0, |limit| limit.until as f64 - now_seconds);
            let is_renewed = in_force == wanted;
            if is_renewed && (wanted.is_none() || left > RENEWED_BELOW * lease.as_secs_f64()) {
                continue;
            }
            if wanted.is_some() && !is_renewed && is_changing {
                continue;
            }
            is_changing |= !is_renewed;
            let limit = wanted.map(|threads| OverrideRequest {
                threads: Some(threads),
                for_seconds: Some(lease.as_secs().max(1)),
                by: BY.to_owned(),
                reason: REASON.to_owned(),
                ..OverrideRequest::default()
            });
            let command = ParentCommand::Limit { group: group.name.clone(), limit };
            if let Err(error) = self.parent.send(command, REPLY_TIMEOUT).await {
                failed = Some(format!("workers.{}: {}", group.name, error.text()));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns whether the last change is in effect.
    pub(super) fn progress(&mut self) -> ChangeProgress {
        let groups = self.groups.now();
        if let Some(failed) = groups.iter().find_map(GroupNow::failure) {
            return ChangeProgress::Failed(failed);
        }
        let limits = self.wanted.as_ref();
        let is_missing = |(group, wanted): &(&GroupNow, Option<u32>)| {
            group.state.limit.as_ref().and_then(|limit| limit.threads) != *wanted
        };
        let is_under_way = groups.iter().any(GroupNow::is_rolling)
            || limits.is_some_and(|limits| wanted(&groups, limits.threads).iter().any(is_missing));
        if is_under_way {
            self.differs_since = None;
            return ChangeProgress::UnderWay;
        }
        let differing = groups.iter().find_map(|group| {
            let expected = group.state.in_force.threads? * group.state.in_force.processes;
            let observed = self.groups.observed_threads(&group.name)?;
            (observed != expected).then(|| {
                format!(
                    "the heartbeats of workers.{} show {observed} threads, not {expected}",
                    group.name
                )
            })
        });
        let Some(differing) = differing else {
            self.differs_since = None;
            return ChangeProgress::Done;
        };
        let since = *self.differs_since.get_or_insert_with(Instant::now);
        match since.elapsed() < HEARTBEAT_MAX {
            true => ChangeProgress::UnderWay,
            false => ChangeProgress::Failed(differing),
        }
    }
}

impl GroupNow {
    fn is_rolling(&self) -> bool {
        matches!(self.rolling, Some(RollingState::Running { .. }))
    }

    fn failure(&self) -> Option<String> {
        match &self.rolling {
            Some(RollingState::Failed { reason }) => {
                Some(format!("workers.{}: {reason}", self.name))
            }
            _ => None,
        }
    }
}

/// Returns the limit that each group should have. Groups whose threads an operator has set have none.
fn wanted(groups: &[GroupNow], threads: Option<u32>) -> Vec<(&GroupNow, Option<u32>)> {
    let is_by_hand =
        |group: &GroupNow| group.state.set.as_ref().is_some_and(|set| set.threads.is_some());
    let steered: Vec<(&GroupNow, ThreadGroup)> = groups
        .iter()
        .filter(|group| !is_by_hand(group))
        .filter_map(|group| Some((group, thread_group(&group.name, &group.state)?)))
        .collect();
    let parts: Vec<ThreadGroup> = steered.iter().map(|(_, part)| part.clone()).collect();
    let each = threads.map(|threads| split(&parts, threads)).unwrap_or_default();
    let limit = |group: &GroupNow| {
        let place = steered.iter().position(|(it, _)| it.name == group.name)?;
        each.get(place).copied().filter(|each| *each < parts[place].threads)
    };
    groups.iter().map(|group| (group, limit(group))).collect()
}

#[cfg(test)]
mod tests {
    use weir_admin::workers::{GroupValues, JobGroupState, Override};

    use super::*;

    fn group(name: &str, processes: u32, threads: u32) -> GroupNow {
        let values = GroupValues { processes, threads: Some(threads), queues: Vec::new() };
        let state = JobGroupState {
            in_force: values,
            unlimited_threads: Some(threads),
            ..JobGroupState::default()
        };
        GroupNow { name: name.to_owned(), state, rolling: None }
    }

    fn limits(groups: &[GroupNow], threads: Option<u32>) -> Vec<Option<u32>> {
        wanted(groups, threads).into_iter().map(|(_, limit)| limit).collect()
    }

    #[test]
    fn groups_share_a_limit_and_those_that_keep_their_threads_have_none() {
        let groups = [group("a", 2, 10), group("b", 1, 1)];
        assert_eq!(limits(&groups, Some(7)), [Some(3), None]);
        assert_eq!(limits(&groups, Some(21)), [None, None]);
        assert_eq!(limits(&groups, None), [None, None]);
    }

    #[test]
    fn a_group_whose_threads_an_operator_has_set_is_left_alone() {
        let mut groups = [group("a", 2, 10), group("b", 1, 10)];
        let set = Override { threads: Some(10), by: "ann".to_owned(), ..Override::default() };
        groups[0].state.set = Some(set);
        assert_eq!(limits(&groups, Some(5)), [None, Some(5)]);
    }
}

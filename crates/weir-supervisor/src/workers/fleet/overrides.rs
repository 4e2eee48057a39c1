//! Overrides of groups: set, reset and ended at run time, and restored at a start.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Fleet;
use crate::workers::connections::ConnectionRoom;
use crate::workers::overrides::file::{KeptOverrides, KeptScale};
use crate::workers::overrides::in_force::{FleetLimits, Overrides, time_left};
use crate::workers::overrides::{
    GroupConnections, GroupValues, JobGroupState, Override, OverrideOutcome, OverrideRequest,
    QUEUES_MAX, check_budget, operator,
};
use crate::workers::slot::CommandError;
use crate::workers::values::LaunchValues;

impl Fleet {
    /// Applies limits and restores the overrides. Call it before anything is started or resumed.
    #[must_use]
    pub fn with_limits(mut self, limits: FleetLimits) -> Self {
        let now = crate::monotonic();
        self.overrides = Overrides::open(limits, now);
        let all = self.planned_connections(None, 0);
        if let Err(error) = check_budget(&all, "", self.overrides.connections_max) {
            tracing::error!("the overrides of workers end, because [budget] has changed: {error}");
            let ends = self.overrides.ends_at.values_mut();
            ends.chain(self.overrides.limits_end_at.values_mut()).for_each(|at| *at = now);
            if let Err(error) = self.overrides.store(|kept| kept.scaled.clear()) {
                tracing::error!("{error}");
            }
        }
        for group in 0..self.groups.len() {
            let (name, target) = (self.group_name(group), self.target_of(group));
            let launch = self.launch_of(group);
            let rules = &mut self.groups[group].rules;
            rules.launch = launch;
            if u32::try_from(rules.target) != Ok(target) {
                rules.resize(target, now);
            }
            if let Some(set) = self.overrides.kept.overrides.get(&name) {
                let (by, until) = (&set.by, set.until);
                tracing::info!(group = name, by, until, "an override from before the start");
            }
        }
        self
    }

    pub(super) fn override_of(&self, group: usize) -> Option<&Override> {
        self.overrides.kept.overrides.get(self.groups[group].blueprint.spec.name.as_str())
    }

    /// Returns the values of the settings.
    pub(super) fn configured(&self, group: usize) -> GroupValues {
        let spec = &self.groups[group].blueprint.spec;
        let values = spec.jobs.as_ref().map(|jobs| jobs.values.clone()).unwrap_or_default();
        let (threads, queues) = (values.threads, values.queues);
        GroupValues { processes: spec.processes, threads, queues }
    }

    /// Returns the values without an override: those of the settings, and the scale.
    fn base(&self, group: usize) -> GroupValues {
        let configured = self.configured(group);
        let name = self.groups[group].blueprint.spec.name.as_str();
        let scaled = self.overrides.kept.scaled.get(name);
        let scaled = scaled.filter(|scaled| scaled.configured == configured.processes);
        let blueprint = &self.groups[group].blueprint;
        let scaled = scaled.filter(|scaled| blueprint.check_scale(scaled.processes).is_ok());
        let processes = scaled.map_or(configured.processes, |scaled| scaled.processes);
        GroupValues { processes, ..configured }
    }

    /// Returns the values in force without a limit of threads.
    pub(super) fn unlimited(&self, group: usize, set: Option<&Override>) -> GroupValues {
        let base = self.base(group);
        let blueprint = &self.groups[group].blueprint;
        set.map_or_else(|| base.clone(), |set| set.applied_to(&base, blueprint))
    }

    pub(super) fn limit_of(&self, group: usize) -> Option<&Override> {
        self.overrides.kept.limits.get(self.groups[group].blueprint.spec.name.as_str())
    }

    /// Returns the values in force.
    fn in_force(&self, group: usize) -> GroupValues {
        let (set, limit) = (self.override_of(group), self.limit_of(group));
        if self.is_limited_group(group) {
            return self.of_limited_group(group, limit);
        }
        let values = self.unlimited(group, set).limited(limit, set);
        let needed = self.connections_of_limited(group);
        let is_by_hand = set.is_some_and(|set| set.threads.is_some());
        if needed == 0 || is_by_hand {
            return values;
        }
        // No start exceeds the budget, so fewer than one thread each is only a longer wait.
        let threads = self.threads_beside(group, &values, needed).unwrap_or(Some(1));
        GroupValues { threads, ..values }
    }

    /// Returns the number of processes that the group should have.
    pub(super) fn target_of(&self, group: usize) -> u32 {
        self.in_force(group).processes
    }

    pub(super) fn launch_of(&self, group: usize) -> LaunchValues {
        let values = self.in_force(group).of_process();
        let jobs = self.groups[group].blueprint.spec.jobs.as_ref();
        jobs.map(|jobs| jobs.launch_values(values)).unwrap_or_default()
    }

    /// Returns whether an operator has set the number of processes.
    pub(super) fn overrides_processes(&self, group: usize) -> bool {
        self.override_of(group).is_some_and(|set| set.processes.is_some())
    }

    /// Returns the connections of all groups of job workers once the overrides that end until `at`
    /// (seconds since the Unix epoch) have ended. `change`: values of one of the groups.
    pub(super) fn planned_connections(
        &self,
        change: Option<(usize, &GroupValues)>,
        at: u64,
    ) -> Vec<GroupConnections> {
        let job_groups = self.groups.iter().enumerate().filter(|(_, group)| !group.is_retired);
        let connections = job_groups.filter_map(|(index, group)| {
            let jobs = group.blueprint.spec.jobs.as_ref()?;
            let values = match change {
                Some((changed, values)) if changed == index => values.clone(),
                _ => self.unlimited(index, self.override_of(index).filter(|set| set.until > at)),
            };
            let each = jobs.connections(&values.of_process());
            Some(GroupConnections {
                name: self.group_name(index),
                processes: values.processes,
                each,
            })
        });
        connections.collect()
    }

    /// Checks that all groups stay within the budget with new values of one, which hold until a time:
    /// now, and whenever an override ends, because the settings may need more than it.
    fn check_plan(
        &self,
        group: usize,
        after: &GroupValues,
        until: Option<u64>,
    ) -> Result<Vec<GroupConnections>, CommandError> {
        let (name, max) = (self.group_name(group), self.overrides.connections_max);
        let all = self.planned_connections(Some((group, after)), 0);
        check_budget(&all, &name, max)?;
        let others = self.overrides.kept.overrides.iter().filter(|(other, _)| **other != name);
        let ends: BTreeSet<u64> = others.map(|(_, set)| set.until).chain(until).collect();
        let base = self.base(group);
        for end in ends {
            let values = if until.is_some_and(|until| until <= end) { &base } else { after };
            let then = self.planned_connections(Some((group, values)), end);
            check_budget(&then, &name, max).map_err(|error| {
                format!(
                    "when the next override ends and its group needs what the settings say: {error}, or \
                     let this one end earlier (--for)"
                )
            })?;
        }
        Ok(all)
    }

    /// Returns the connections that are in use, and their limit.
    pub(super) fn connection_room(&self) -> ConnectionRoom {
        let used = self.groups.iter().map(|group| group.rules.connections()).sum();
        ConnectionRoom::new(self.overrides.connections_max, used)
    }

    /// Overrides values of a group.
    pub(super) fn set_override(
        &mut self,
        group: &str,
        request: &OverrideRequest,
        now: Duration,
    ) -> Result<OverrideOutcome, CommandError> {
        let group = self.find_job_group(group)?;
        self.ensure_is_not_limited_group(group)?;
        let before = self.override_of(group).cloned();
        let wall_clock = self.overrides.unix_seconds();
        let configured = self.configured(group);
        let blueprint = &self.groups[group].blueprint;
        let set = request.check(blueprint, before.as_ref(), configured, wall_clock)?;
        let after = self.unlimited(group, Some(&set));
        let outcome = self.outcome(group, after, Some(set.until))?;
        if request.dry_run {
            return Ok(OverrideOutcome { is_dry_run: true, ..outcome });
        }
        let (name, ends_at) = (self.group_name(group), now + time_left(&set, wall_clock));
        let OverrideOutcome { after, .. } = &outcome;
        tracing::info!(
            group = name, by = set.by, reason = set.reason, until = set.until,
            processes = after.processes, threads = after.threads, queues = ?after.queues,
            "values of workers are overridden"
        );
        self.overrides.store(|kept| drop(kept.overrides.insert(name.clone(), set)))?;
        self.overrides.ends_at.insert(name, ends_at);
        self.apply_values(group, now);
        Ok(outcome)
    }

    /// Ends the override of a group, and what `scale` has set.
    pub(super) fn reset_override(
        &mut self,
        group: &str,
        by: &str,
        is_dry_run: bool,
        now: Duration,
    ) -> Result<OverrideOutcome, CommandError> {
        let group = self.find_job_group(group)?;
        let name = self.group_name(group);
        let kept = &self.overrides.kept;
        if !kept.overrides.contains_key(&name) && !kept.scaled.contains_key(&name) {
            return Err(format!("no value of {name} is overridden"));
        }
        let outcome = self.outcome(group, self.configured(group), None)?;
        if is_dry_run {
            return Ok(OverrideOutcome { is_dry_run, ..outcome });
        }
        self.overrides.store(|kept| {
            kept.overrides.remove(&name);
            kept.scaled.remove(&name);
        })?;
        self.overrides.ends_at.remove(&name);
        tracing::info!(group = name, by = operator(by), "the override of workers was reset");
        self.apply_values(group, now);
        Ok(outcome)
    }

    /// Limits the threads of each process of a group, or renews that. The limit is beside an operator's override,
    /// which stays as it is, and an operator's number of threads has precedence.
    pub(super) fn set_limit(
        &mut self,
        group: &str,
        request: &OverrideRequest,
        now: Duration,
    ) -> Result<(), CommandError> {
        let group = self.find_job_group(group)?;
        let is_of_class = self.is_limited_group(group);
        let has_more = request.processes.is_some() || request.queues.is_some();
        if request.threads.is_none() || has_more && !is_of_class {
            return Err("a limit is one of threads, and of nothing else".into());
        }
        let wall_clock = self.overrides.unix_seconds();
        let blueprint = &self.groups[group].blueprint;
        // It does not depend on the settings, and a report has room for their queues a few times only.
        let limit = request.check(blueprint, None, GroupValues::default(), wall_clock)?;
        let name = self.group_name(group);
        let is_renewed = self
            .limit_of(group)
            .is_some_and(|it| (it.threads, &it.queues) == (limit.threads, &limit.queues));
        if is_of_class && !is_renewed {
            self.check_limited_group(group, &limit)?;
        }
        if !is_renewed {
            // Fewer connections than without the limit, so the budget has room for them.
            let all = self.unlimited(group, self.override_of(group));
            self.outcome(group, all, None)?;
            let (by, reason, until) = (&limit.by, &limit.reason, limit.until);
            let threads = limit.threads;
            tracing::info!(
                group = name,
                by,
                reason,
                until,
                threads,
                "threads of workers are limited"
            );
        }
        let ends_at = now + time_left(&limit, wall_clock);
        self.overrides.store(|kept| drop(kept.limits.insert(name.clone(), limit)))?;
        self.overrides.limits_end_at.insert(name, ends_at);
        if is_renewed {
            self.report_group(group);
        } else {
            self.apply_limit(group, now);
        }
        Ok(())
    }

    /// Ends the limit of a group, if there is one.
    pub(super) fn end_limit(&mut self, group: &str, now: Duration) -> Result<(), CommandError> {
        let group = self.find_job_group(group)?;
        let name = self.group_name(group);
        if self.limit_of(group).is_none() {
            return Ok(());
        }
        self.overrides.store(|kept| drop(kept.limits.remove(&name)))?;
        self.overrides.limits_end_at.remove(&name);
        tracing::info!(group = name, "the limit of threads of workers was ended");
        self.apply_limit(group, now);
        Ok(())
    }

    fn find_job_group(&self, name: &str) -> Result<usize, CommandError> {
        let group = self.find(name)?;
        if self.groups[group].blueprint.spec.jobs.is_none() {
            return Err(format!(
                "{name} runs no jobs; its number of workers is changed with weir workers scale"
            ));
        }
        Ok(group)
    }

    /// Checks a change, and returns what it does.
    fn outcome(
        &self,
        group: usize,
        after: GroupValues,
        until: Option<u64>,
    ) -> Result<OverrideOutcome, CommandError> {
        let rules = &self.groups[group].rules;
        if rules.is_paused {
            return Err("the group is paused; resume it first".into());
        }
        if rules.rolling.as_ref().is_some_and(|rolling| !rolling.is_of_outdated()) {
            return Err("a rolling restart is under way; wait for its end".into());
        }
        let before = self.in_force(group);
        let all = self.check_plan(group, &after, until)?;
        let name = self.group_name(group);
        let own = all.iter().filter(|it| it.name == name).map(GroupConnections::sum);
        let replaced = match before.of_process() == after.of_process() {
            true => 0,
            false => before.processes.min(after.processes),
        };
        Ok(OverrideOutcome {
            before,
            after,
            until,
            replaced,
            connections: own.sum(),
            connections_of_all: all.iter().map(GroupConnections::sum).sum(),
            connections_max: self.overrides.connections_max,
            is_dry_run: false,
        })
    }

    /// Ends the overrides whose time is over.
    pub(super) fn end_overrides(&mut self, now: Duration) {
        if self.is_stopping {
            return;
        }
        let ended = self.overrides.ends_at.extract_if(.., |_, at| *at <= now);
        let ended: Vec<String> = ended.map(|(name, _)| name).collect();
        for name in ended {
            tracing::info!(group = name, "the override of workers has ended");
            self.forget(&name, now, |kept| drop(kept.overrides.remove(&name)));
        }
        let ended = self.overrides.limits_end_at.extract_if(.., |_, at| *at <= now);
        let ended: Vec<String> = ended.map(|(name, _)| name).collect();
        for name in ended {
            tracing::info!(
                group = name,
                "the limit of threads of workers was not renewed, and has ended"
            );
            self.forget(&name, now, |kept| drop(kept.limits.remove(&name)));
        }
    }

    /// Removes what has ended from the file, and applies the values of its group.
    fn forget(&mut self, group: &str, now: Duration, remove: impl Fn(&mut KeptOverrides)) {
        if let Err(error) = self.overrides.store(&remove) {
            // The next start finds that its time is over.
            tracing::error!("{error}");
            remove(&mut self.overrides.kept);
        }
        if let Ok(group) = self.find(group) {
            self.apply_limit(group, now);
        }
    }

    /// Applies the values of a group; of one that serves a limited class, also of the group that leaves room for it.
    fn apply_limit(&mut self, group: usize, now: Duration) {
        if let Some(limited_of) = self.limited_of(group) {
            self.apply_values(limited_of, now);
        }
        self.apply_values(group, now);
    }

    /// Scales a group to what is in force now, and begins to replace processes with other values.
    fn apply_values(&mut self, group: usize, now: Duration) {
        let (target, launch) = (self.target_of(group), self.launch_of(group));
        if self.groups[group].is_retired {
            return;
        }
        if u32::try_from(self.groups[group].rules.target) != Ok(target) {
            let actions = self.groups[group].rules.resize(target, now);
            self.perform(group, actions, now);
        }
        let running = &mut self.groups[group];
        if !running.rules.set_launch(launch) && running.rules.rolling.is_none() {
            // An earlier restart says nothing about the present values.
            running.rolling = None;
        }
        self.report_rolling(group, None);
        self.report_group(group);
    }

    /// Checks that a group may have this many processes, and keeps the number.
    pub(super) fn keep_scale(&mut self, group: usize, processes: u32) -> Result<(), CommandError> {
        self.ensure_is_not_limited_group(group)?;
        let name = self.group_name(group);
        if self.overrides_processes(group) {
            return Err(format!(
                "the processes of {name} are overridden; change them with weir workers set, or end \
                 that with weir workers reset"
            ));
        }
        let values = GroupValues { processes, ..self.unlimited(group, self.override_of(group)) };
        self.check_plan(group, &values, None)?;
        let configured = self.configured(group).processes;
        self.overrides.store(|kept| {
            if processes == configured {
                kept.scaled.remove(&name);
            } else {
                kept.scaled.insert(name, KeptScale { processes, configured });
            }
        })
    }

    /// Returns the values of a group of job workers. None: it runs no jobs.
    pub(super) fn job_group_state(&self, group: usize) -> Option<JobGroupState> {
        let blueprint = &self.groups[group].blueprint;
        let jobs = blueprint.spec.jobs.as_ref()?;
        let configured = self.configured(group);
        let set = self.override_of(group);
        let in_force = shortened(self.in_force(group));
        let each = u64::from(jobs.connections(&in_force.of_process()));
        Some(JobGroupState {
            changed_settings: set.map(|set| set.changed_settings(&configured)).unwrap_or_default(),
            ineffective: set.map(|set| set.ineffective(blueprint)).unwrap_or_default(),
            connections: each * u64::from(in_force.processes),
            connections_max: self.overrides.connections_max,
            set: set.map(|set| Override {
                configured: shortened(set.configured.clone()),
                ..set.clone()
            }),
            limit: self.limit_of(group).cloned(),
            unlimited_threads: self.unlimited(group, set).threads,
            limited_of: jobs.limited_of.clone(),
            configured: shortened(configured),
            in_force,
        })
    }
}

/// Leaves out queues beyond the limit of an override: a report must fit into a message.
fn shortened(mut values: GroupValues) -> GroupValues {
    values.queues.truncate(QUEUES_MAX);
    values
}

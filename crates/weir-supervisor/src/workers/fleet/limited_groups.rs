//! Groups that serve a limited class of jobs of another group: one process while a limit says so, within the budget.

use super::Fleet;
use crate::workers::overrides::room::threads_within;
use crate::workers::overrides::{GroupConnections, GroupValues, Override, check_budget};
use crate::workers::slot::CommandError;

impl Fleet {
    pub(super) fn is_limited_group(&self, group: usize) -> bool {
        self.limited_of_name(group).is_some()
    }

    fn limited_of_name(&self, group: usize) -> Option<&str> {
        self.groups[group].blueprint.spec.jobs.as_ref()?.limited_of.as_deref()
    }

    /// Returns the group whose limited class this one serves.
    pub(super) fn limited_of(&self, group: usize) -> Option<usize> {
        self.find(self.limited_of_name(group)?).ok()
    }

    /// Its values are those of the limit, which an operator changes through the program that has set it.
    pub(super) fn ensure_is_not_limited_group(&self, group: usize) -> Result<(), CommandError> {
        let Some(of) = self.limited_of_name(group) else { return Ok(()) };
        let name = self.groups[group].blueprint.spec.name.as_str();
        Err(format!(
            "{name} serves a limited class of {of}'s jobs, and the limit sets its values; change that with weir autopilot override"
        ))
    }

    /// Returns the values of a group that serves a limited class: without a limit, it has no process.
    pub(super) fn of_limited_group(&self, group: usize, limit: Option<&Override>) -> GroupValues {
        let values = self.configured(group);
        match limit {
            Some(limit) => {
                let values = limit.applied_to(&values, &self.groups[group].blueprint);
                GroupValues { processes: 1, ..values }
            }
            None => GroupValues { processes: 0, ..values },
        }
    }

    fn connections_with(&self, group: usize, values: &GroupValues) -> u64 {
        let jobs = self.groups[group].blueprint.spec.jobs.as_ref();
        let each = jobs.map_or(0, |jobs| jobs.connections(&values.of_process()));
        u64::from(values.processes) * u64::from(each)
    }

    /// Returns the connections of the process that serves a limited class of this group's jobs; 0: there is none.
    pub(super) fn connections_of_limited(&self, group: usize) -> u64 {
        let name = self.groups[group].blueprint.spec.name.as_str();
        let serving = (0..self.groups.len()).filter(|it| self.limited_of_name(*it) == Some(name));
        let needed = serving
            .map(|it| self.connections_with(it, &self.of_limited_group(it, self.limit_of(it))));
        needed.sum()
    }

    /// Returns the threads of each process of a group beside one with `needed` connections. None: there is no room.
    pub(super) fn threads_beside(
        &self,
        group: usize,
        values: &GroupValues,
        needed: u64,
    ) -> Option<Option<u32>> {
        let (Some(max), Some(threads)) = (self.overrides.connections_max, values.threads) else {
            return Some(values.threads);
        };
        let others = (0..self.groups.len()).filter(|it| {
            *it != group && !self.groups[*it].is_retired && !self.is_limited_group(*it)
        });
        // Those may return to these values at any time.
        let others: u64 = others
            .map(|it| {
                let values = self.unlimited(it, self.override_of(it));
                let limited = self.connections_of_limited(it);
                self.connections_with(it, &values).saturating_add(limited)
            })
            .sum();
        let room = u64::from(max).checked_sub(others)?.checked_sub(needed)?;
        let jobs = self.groups[group].blueprint.spec.jobs.as_ref()?;
        threads_within(room, jobs, values.processes, threads).map(Some)
    }

    /// Checks that the process for a limited class fits into the budget beside all groups, once its own group does without
    /// some threads.
    pub(super) fn check_limited_group(
        &self,
        group: usize,
        limit: &Override,
    ) -> Result<(), CommandError> {
        let Some(of) = self.limited_of(group) else {
            return Err("the group whose jobs it serves is gone".into());
        };
        if limit.queues.is_none() {
            return Err("the queues of the limited class are missing".into());
        }
        let values = self.of_limited_group(group, Some(limit));
        let needed = self.connections_with(group, &values);
        let (set, own_limit) = (self.override_of(of), self.limit_of(of));
        let of_values = self.unlimited(of, set).limited(own_limit, set);
        let is_by_hand = set.is_some_and(|set| set.threads.is_some());
        let beside = self.threads_beside(of, &of_values, needed);
        if beside.is_some_and(|threads| !is_by_hand || threads == of_values.threads) {
            return Ok(());
        }
        // The message has the arithmetic with the threads that stay in any case.
        let least = GroupValues {
            threads: if is_by_hand { of_values.threads } else { Some(1) },
            ..of_values
        };
        let name = self.group_name(group);
        let each = u32::try_from(needed).unwrap_or(u32::MAX);
        let mut all = self.planned_connections(Some((of, &least)), 0);
        all.retain(|it| it.name != name);
        all.push(GroupConnections { name: name.clone(), processes: 1, each });
        check_budget(&all, &name, self.overrides.connections_max)?;
        Err(format!("{name}: the budget has no room for its process"))
    }
}

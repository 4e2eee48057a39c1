//! Per-shard views. Each shard has its own queues, processes and sets.

use std::borrow::Cow;

use serde::Serialize;

use super::{Fact, JobProcess, Observation, SidekiqObservation};

/// Sidekiq's state on one of several Redis servers.
#[derive(Clone, Debug, Serialize)]
pub struct ShardJobs {
    /// The server, as [`Observation::redis`] names it.
    pub name: String,
    /// State of Sidekiq on that server.
    pub jobs: Fact<SidekiqObservation>,
}

/// A view of one Sidekiq, for rules that must not mix shards.
pub(crate) struct Sidekiq<'a> {
    /// Name of its server, or `None` if there is only one.
    pub(crate) name: Option<&'a str>,
    /// The observation reduced to this Sidekiq.
    pub(crate) observation: Cow<'a, Observation>,
}

impl Observation {
    /// Returns the jobs of each Redis, with its name if there are several.
    pub fn each_jobs(&self) -> impl Iterator<Item = (Option<&str>, &Fact<SidekiqObservation>)> {
        let shards = self.shards.iter().map(|it| (Some(it.name.as_str()), &it.jobs));
        let alone = self.shards.is_empty().then_some((None, &self.jobs));
        shards.chain(alone)
    }

    /// Returns a copy with the jobs and pushed queues of one of several shards only, for example to
    /// plan it. Returns `None` if there is no such shard.
    #[must_use]
    pub fn only(&self, shard: &str) -> Option<Self> {
        let place = self.shards.iter().position(|it| it.name == shard)?;
        let jobs = self.shards[place].jobs.clone();
        let pushed_queues = self.pushed_queues.clone().map(|names| self.pushed_to(place, names));
        Some(Self { jobs, pushed_queues, shards: Vec::new(), ..self.clone() })
    }

    pub(crate) fn sidekiqs(&self) -> Vec<Sidekiq<'_>> {
        if self.shards.is_empty() {
            return vec![Sidekiq { name: None, observation: Cow::Borrowed(self) }];
        }
        let of = |(place, shard)| self.shard(place, shard);
        self.shards.iter().enumerate().map(of).collect()
    }

    /// Adds up quiet time: processes that were already quiet in the sample `before` have been quiet
    /// since then.
    pub fn remember(&mut self, before: &Self) {
        let known = |it: &Self| -> Vec<(String, std::time::Duration)> {
            let processes = it.each_jobs().filter_map(|(_, jobs)| jobs.known());
            let processes = processes.flat_map(|jobs| &jobs.processes).filter(|it| it.quiet);
            processes.map(|it| (it.identity.clone(), it.quiet_for)).collect()
        };
        let before = known(before);
        if before.is_empty() {
            return;
        }
        let add = |process: &mut JobProcess| {
            let seen = before.iter().find(|(identity, _)| *identity == process.identity);
            if let Some((_, seen)) = seen.filter(|_| process.quiet) {
                process.quiet_for = process.quiet_for.saturating_add(*seen);
            }
        };
        let shards = self.shards.iter_mut().map(|shard| &mut shard.jobs);
        for jobs in shards.chain([&mut self.jobs]) {
            if let Fact::Known(jobs) = jobs {
                jobs.processes.iter_mut().for_each(add);
            }
        }
    }

    /// Returns a copy with only the data that [`remember`](Self::remember) needs.
    #[must_use]
    pub fn only_quiet(&self) -> Self {
        let quiet = |jobs: &SidekiqObservation| {
            let quiet = jobs.processes.iter().filter(|it| it.quiet).cloned();
            Fact::Known(SidekiqObservation {
                processes: quiet.collect(),
                ..SidekiqObservation::default()
            })
        };
        let of = |shard: &ShardJobs| {
            let jobs = shard.jobs.known().map_or(Fact::NotAsked, quiet);
            ShardJobs { name: shard.name.clone(), jobs }
        };
        let jobs = self.jobs.known().map_or(Fact::NotAsked, quiet);
        Self { jobs, shards: self.shards.iter().map(of).collect(), ..Self::default() }
    }

    fn shard<'a>(&self, place: usize, shard: &'a ShardJobs) -> Sidekiq<'a> {
        let observation = Self {
            jobs: shard.jobs.clone(),
            redis: self.redis.get(place).cloned().into_iter().collect(),
            redis_access: self.redis_access.clone(),
            machine: self.machine.clone(),
            cpu_limits: self.cpu_limits.clone(),
            pushed_queues: self.pushed_queues.clone().map(|names| self.pushed_to(place, names)),
            ..Self::default()
        };
        Sidekiq { name: Some(&shard.name), observation: Cow::Owned(observation) }
    }

    /// Selects the pushed queues that belong to this shard: those that it knows. Queues that no
    /// shard knows are assigned to the first one. While a shard is unreadable they are left out,
    /// because it may know them.
    fn pushed_to(&self, place: usize, names: Vec<String>) -> Vec<String> {
        let knows = |jobs: &SidekiqObservation, name: &str| {
            jobs.queue(name).is_some_and(|queue| queue.pushed)
                || jobs.serving_queue(name).next().is_some()
        };
        let all: Option<Vec<&SidekiqObservation>> =
            self.shards.iter().map(|it| it.jobs.known()).collect();
        let is_nobodys =
            |name: &str| all.as_ref().is_some_and(|all| !all.iter().any(|it| knows(it, name)));
        let own = self.shards[place].jobs.known();
        let is_own = |name: &String| {
            own.is_some_and(|own| knows(own, name)) || place == 0 && is_nobodys(name)
        };
        names.into_iter().filter(is_own).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::advise;
    use crate::finding::Severity;
    use crate::healthy;
    use crate::observation::{Missing, MissingReason};

    /// Returns two healthy shards.
    fn sharded() -> Observation {
        let mut observation = healthy::observation();
        let server = observation.redis[0].known_mut().clone();
        for name in ["a:6379", "b:6379"] {
            let jobs = observation.jobs.clone();
            observation.shards.push(ShardJobs { name: name.to_owned(), jobs });
        }
        observation.redis.push(Fact::Known(server));
        observation
    }

    fn away() -> Fact<SidekiqObservation> {
        Fact::Unknown(Missing {
            what: "Redis a:6379".to_owned(),
            obstacle: MissingReason::Unreachable,
            reason: "connection refused".to_owned(),
            remedy: None,
        })
    }

    #[test]
    fn two_healthy_shards_are_met_with_silence() {
        assert_eq!(advise(&sharded()).findings, [], "each has its scheduler");
    }

    #[test]
    fn a_queue_that_is_served_on_one_shard_is_unserved_on_the_other() {
        let mut observation = sharded();
        let jobs = observation.shards[1].jobs.known_mut();
        jobs.processes[0].capsules[0].queues.remove(0);
        let advice = advise(&observation);
        let finding = &advice.findings[0];
        assert_eq!(advice.findings.len(), 1);
        assert_eq!((&*finding.rule, finding.severity), ("unserved-queue", Severity::Critical));
        assert_eq!(finding.subject, "queue default of Redis b:6379");
        assert_eq!(finding.shard.as_deref(), Some("b:6379"));
        assert_eq!(advice.verdict.unserved, ["default of Redis b:6379"]);
    }

    #[test]
    fn jobs_without_a_process_on_their_shard_are_not_worked_off_by_the_other() {
        let mut observation = sharded();
        observation.shards[1].jobs.known_mut().processes.clear();
        let findings = advise(&observation).findings;
        let subjects: Vec<_> = findings.iter().map(|it| (&*it.rule, it.subject.as_str())).collect();
        let pushed =
            "queues default, push, ingress, mailers, pull, fasp and scheduler of Redis b:6379";
        let expected = [("no-process", "Sidekiq of Redis b:6379"), ("upgrade-guard", pushed)];
        assert_eq!(subjects, expected);
    }

    #[test]
    fn a_shard_that_is_away_is_unseen_and_hides_nothing_of_the_other() {
        let mut observation = sharded();
        (observation.jobs, observation.shards[0].jobs) = (away(), away());
        observation.redis[0] = Fact::Unknown(away().missing().unwrap().clone());
        observation.shards[1].jobs.known_mut().processes.remove(0);
        let advice = advise(&observation);
        let rules: Vec<_> = advice.findings.iter().map(|it| &*it.rule).collect();
        assert_eq!(rules.iter().filter(|it| **it == "unreachable").count(), 1, "{rules:?}");
        assert!(!rules.contains(&"unseen"), "it is said once: {rules:?}");
        let unserved = advice.findings.iter().filter(|it| it.rule == "unserved-queue");
        assert_eq!(unserved.count(), 6, "{rules:?}");
        assert_eq!(advice.verdict.drain, None, "of the shard that is away nothing is known");
    }

    #[test]
    fn a_queue_of_an_upgrade_is_asked_of_one_shard_only_and_of_none_while_one_is_away() {
        let mut observation = sharded();
        observation.pushed_queues.known_mut().push("trends".to_owned());
        let findings = advise(&observation).findings;
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].subject, "queue trends of Redis a:6379");
        observation.shards[1].jobs = away();
        let advice = advise(&observation);
        let rules: Vec<_> = advice.findings.iter().map(|it| &*it.rule).collect();
        assert_eq!(rules, ["unreachable"], "the other may serve it");
    }

    #[test]
    fn a_plan_is_for_the_sidekiq_of_one_redis() {
        let mut observation = sharded();
        observation.shards[1].jobs.known_mut().queues.retain(|queue| queue.name == "push");
        observation.shards[1].jobs.known_mut().processes.clear();
        let only = observation.only("b:6379").unwrap();
        let names: Vec<_> = only.jobs.known().unwrap().queues.iter().map(|it| &it.name).collect();
        assert_eq!(names, ["push"]);
        assert_eq!(
            only.pushed_queues.known().unwrap(),
            &["push"],
            "the others are the first one's"
        );
        assert!(only.shards.is_empty() && only.postgres.known().is_some());
        assert!(observation.only("c:6379").is_none());
    }

    #[test]
    fn a_process_that_is_quiet_from_look_to_look_was_so_all_the_time() {
        let quiet = |seconds| {
            let mut observation = sharded();
            for jobs in
                observation.shards.iter_mut().map(|it| &mut it.jobs).chain([&mut observation.jobs])
            {
                let process = &mut jobs.known_mut().processes[1];
                (process.quiet, process.quiet_for) = (true, Duration::from_secs(seconds));
            }
            observation
        };
        let mut now = quiet(10);
        now.remember(&quiet(50));
        let seen = |it: &Observation| {
            let of = |(_, jobs): (_, &Fact<SidekiqObservation>)| {
                jobs.known().unwrap().processes[1].quiet_for
            };
            it.each_jobs().map(of).collect::<Vec<_>>()
        };
        assert_eq!(seen(&now), [Duration::from_secs(60); 2]);
        assert_eq!(now.jobs.known().unwrap().processes[1].quiet_for, Duration::from_secs(60));
        let mut woken = quiet(0);
        woken.remember(&sharded());
        assert_eq!(seen(&woken), [Duration::ZERO; 2]);
    }
}

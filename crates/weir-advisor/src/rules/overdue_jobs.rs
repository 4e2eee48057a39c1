//! Jobs are due, but no process moves them to their queue.

use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{
    Fact, JobSet, Observation, ProcessPresence, RedisServer, SidekiqObservation,
};
use crate::wording;

pub(crate) const NAME: &str = "overdue-jobs";

/// Sidekiq's processes poll every 15 s on average, at random intervals. Four missed polls are not
/// due to chance.
const OVERDUE_MIN: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let redis = observation.redis.first().and_then(Fact::known);
    let acl_log = acl_log(observation);
    [("the scheduled set", &jobs.scheduled), ("the retry set", &jobs.retries)]
        .into_iter()
        .filter(|(_, set)| set.overdue > 0 && set.overdue_by >= OVERDUE_MIN)
        .map(|(name, set)| {
            let found = found(name, set, jobs, (redis, &acl_log));
            found.since(set.overdue_by, "time of the first job that is due")
        })
        .collect()
}

fn found(
    name: &str,
    set: &JobSet,
    jobs: &SidekiqObservation,
    (redis, acl_log): (Option<&RedisServer>, &str),
) -> Finding {
    let (overdue, are) =
        (wording::count(set.overdue), if set.overdue == 1 { "job is" } else { "jobs are" });
    let evidence =
        format!("{overdue} {are} due, the first for {}", wording::duration(set.overdue_by));
    let finding = |severity| Finding::new(NAME, severity, name, evidence);
    // A full Redis loses the jobs that leave the set. In other cases, jobs that leave it are moved.
    let is_refused = |redis: &&RedisServer| {
        redis.rejects_only_growth() || redis.refuses_writes_of(jobs).is_some() && !set.overdue_moves
    };
    if let Some(redis) = redis.filter(is_refused) {
        return finding(Severity::Critical).leads_to(refused(redis));
    }
    if set.overdue_moves {
        return finding(Severity::Warning).leads_to(moving(set));
    }
    let Some(process) = jobs.serving().next() else {
        if let Some(why) = redis.and_then(|redis| redis.loses_heartbeats(jobs)) {
            return finding(Severity::Critical).leads_to(format!(
                "Running processes that are not quiet move them to their queues, and it is unknown \
                 whether there is one: {why}."
            ));
        }
        let may_run = !jobs.ghosts.is_empty()
            || jobs.processes.iter().any(|it| it.presence == ProcessPresence::Silent);
        let none = if may_run { "none of them sends heartbeats" } else { "there is none" };
        return finding(Severity::Critical).leads_to(format!(
            "Running processes that are not quiet move them to their queues, and {none}."
        ));
    };
    if let Some(behind) = clock_behind(jobs).filter(|it| set.overdue_by < *it + OVERDUE_MIN) {
        return finding(Severity::Warning).leads_to(format!(
            "The clocks of the processes that move them to their queues are {} or more behind that \
             of Redis, so the jobs are not due for them yet. Correct the clocks.",
            wording::duration(behind)
        ));
    }
    if jobs.serving().all(|it| it.running_for.is_some_and(|age| age < OVERDUE_MIN)) {
        return finding(Severity::Warning).leads_to(
            "All processes have just started, and begin to move due jobs to their queues within a \
             minute. If these are still due after that, Sidekiq's log has the error of the poller: \
             of a Redis user that may not run scripts (+@scripting) or use the set, for example.",
        );
    }
    let threads = process.print_threads_command();
    let threads = threads.map(|command| format!(" ({command})")).unwrap_or_default();
    finding(Severity::Critical)
        .with_confidence(Confidence::Likely)
        .leads_to(format!(
            "The pollers of the processes should move them to their queues, but get errors, are \
             stuck, or sleep between polls for as long as the application has set \
             (poll_interval_average). An error is in Sidekiq's log on {}, and Redis logs commands that it rejects: the \
             command shows the last ones, for example of a Redis user that may not run scripts \
             (+@scripting) or use the set. If there is none, see the setting, and what the threads do{threads}. {}",
            process.hostname,
            process.where_threads_show()
        ))
        .next(acl_log)
}

/// Returns the command that shows the last commands that Redis has rejected for lack of permissions.
fn acl_log(observation: &Observation) -> String {
    let name =
        observation.redis.first().and_then(Fact::known).map_or("", |redis| redis.name.as_str());
    observation.redis_command(name, |cli| format!("{cli} ACL LOG 3"))
}

/// Describes what happens while Redis rejects writes. Sidekiq's poller removes a due job from the set
/// (ZREM) and pushes it to its queue in a second command (`scheduled.rb` of versions 6 and 7). A
/// full Redis allows the first, because it frees memory, and rejects the second. In the other cases
/// it rejects both.
fn refused(redis: &RedisServer) -> String {
    let why = redis.refuses_writes().unwrap_or_default();
    match redis.rejects_only_growth() {
        true => format!(
            "Jobs are lost: Redis rejects pushes because {why}, but it allows removals. At each \
             poll, Sidekiq removes a due job from the set before it pushes it to its queue. Make \
             room in Redis; processes that are quiet (TSTP) do not poll."
        ),
        false => {
            format!("Processes cannot move them to their queues: Redis rejects writes ({why}).")
        }
    }
}

/// Returns how far every serving process' clock is behind that of Redis, at least. Pollers compare the
/// time of a job with their own clock.
fn clock_behind(jobs: &SidekiqObservation) -> Option<Duration> {
    let behind = jobs.serving().map(|process| -process.clock_ahead_seconds);
    let seconds = behind.reduce(f64::min)?.round();
    Duration::try_from_secs_f64(seconds).ok().filter(|behind| !behind.is_zero())
}

/// Formats the progress. After an outage, many jobs become due at once, and moving them takes time.
fn moving(set: &JobSet) -> String {
    let left = Duration::try_from_secs_f64(set.overdue as f64 / set.overdue_fewer_per_second);
    match left {
        Ok(left) => {
            let (rate, left) =
                (wording::rate(set.overdue_fewer_per_second), wording::duration(left));
            format!(
                "Processes move them to their queues at {rate}: the last one will be there in \
                     {left}."
            )
        }
        Err(_) => "Processes move them to their queues, but as many become due: new ones are \
                   equally late."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_minute_past_is_too_long() {
        for (seconds, overdue, findings) in [(59, 5, 0), (60, 5, 1), (600, 0, 0)] {
            let mut observation = healthy::observation();
            let set = &mut observation.jobs.known_mut().retries;
            (set.overdue, set.overdue_by) = (overdue, Duration::from_secs(seconds));
            assert_eq!(check(&observation).len(), findings, "{seconds} {overdue}");
        }
    }

    fn overdue() -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        (jobs.scheduled.overdue, jobs.scheduled.overdue_by) = (40_000, Duration::from_secs(3_600));
        for process in &mut jobs.processes {
            process.running_for = Some(Duration::from_secs(7_200));
        }
        observation
    }

    #[test]
    fn what_is_moved_after_an_outage_is_not_stuck() {
        let mut observation = overdue();
        let stuck = check(&observation).remove(0);
        assert_eq!(stuck.severity, Severity::Critical);
        assert_eq!(stuck.next_step(), Some("redis-cli -h 127.0.0.1 -p 6379 ACL LOG 3"));
        assert!(stuck.consequence.contains("may not run scripts (+@scripting)"), "{stuck:?}");
        assert!(stuck.consequence.contains("the threads do (kill -TTIN 1)"), "{stuck:?}");
        let set = &mut observation.jobs.known_mut().scheduled;
        (set.overdue_moves, set.overdue_fewer_per_second) = (true, 500.0);
        let moves = check(&observation).remove(0);
        assert_eq!((moves.severity, moves.next_step()), (Severity::Warning, None));
        let expected = "Processes move them to their queues at 500/s: the last one will be there in 1 min 20 s.";
        assert_eq!(moves.consequence, expected);
        observation.jobs.known_mut().scheduled.overdue_fewer_per_second = 0.0;
        let as_many = check(&observation).remove(0);
        assert!(as_many.consequence.contains("as many become due"), "{as_many:?}");
    }

    #[test]
    fn a_full_redis_loses_due_jobs_and_does_not_move_them() {
        let mut observation = overdue();
        let set = &mut observation.jobs.known_mut().scheduled;
        (set.overdue_moves, set.overdue_fewer_per_second) = (true, 0.5);
        let redis = observation.redis[0].known_mut();
        redis.info.maxmemory_bytes = redis.info.used_memory_bytes;
        let lost = check(&observation).remove(0);
        assert_eq!((lost.severity, lost.next_step()), (Severity::Critical, None));
        let expected = "Jobs are lost: Redis rejects pushes because its memory is full (OOM), but \
                        it allows removals.";
        assert!(lost.consequence.starts_with(expected), "{lost:?}");
        // Removals are rejected as well.
        observation.redis[0].known_mut().info.persistence.last_append_ok = false;
        observation.jobs.known_mut().scheduled.overdue_moves = false;
        let stands = check(&observation).remove(0);
        assert_eq!(stands.severity, Severity::Critical);
        let expected = "Processes cannot move them to their queues: Redis rejects writes (the last \
                        write to its append-only file failed (MISCONF)).";
        assert_eq!(stands.consequence, expected);
    }

    #[test]
    fn where_heartbeats_are_lost_it_is_unknown_whether_a_process_runs() {
        let mut observation = overdue();
        observation.jobs.known_mut().processes.clear();
        assert!(check(&observation)[0].consequence.ends_with("and there is none."));
        observation.jobs.known_mut().ghosts = vec!["web:7:x".to_owned()];
        let silent = check(&observation).remove(0).consequence;
        assert!(silent.ends_with("and none of them sends heartbeats."), "it may run: {silent}");
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (redis.info.used_memory_bytes, 7);
        let unknown = check(&observation).remove(0);
        assert!(unknown.consequence.contains("it is unknown whether there is one: Redis evicts"));
    }

    #[test]
    fn a_clock_that_is_behind_matters_more_than_a_recent_start() {
        let mut observation = overdue();
        for process in &mut observation.jobs.known_mut().processes {
            process.running_for = Some(Duration::from_secs(6));
            process.clock_ahead_seconds = -10_800.0;
        }
        let late = check(&observation).remove(0);
        assert!(late.consequence.contains("are 3 h or more behind"), "{late:?}");
    }

    #[test]
    fn pollers_of_processes_that_have_just_begun_are_not_stuck() {
        let mut observation = overdue();
        for process in &mut observation.jobs.known_mut().processes {
            process.running_for = Some(Duration::from_secs(59));
        }
        let young = check(&observation).remove(0);
        assert_eq!((young.severity, young.next_step()), (Severity::Warning, None));
        assert!(young.consequence.contains("Sidekiq's log"), "{}", young.consequence);
        observation.jobs.known_mut().processes[0].running_for = Some(Duration::from_secs(60));
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
    }

    #[test]
    fn pollers_whose_clocks_are_behind_are_not_stuck() {
        let mut observation = overdue();
        let behind = |observation: &mut Observation, seconds: f64| {
            for process in &mut observation.jobs.known_mut().processes {
                process.clock_ahead_seconds = -seconds;
            }
        };
        behind(&mut observation, 10_800.0);
        let late = check(&observation).remove(0);
        assert_eq!((late.severity, late.next_step()), (Severity::Warning, None));
        assert!(late.consequence.contains("are 3 h or more behind"), "{}", late.consequence);
        behind(&mut observation, 60.0);
        assert_eq!(check(&observation)[0].severity, Severity::Critical, "overdue for an hour");
        behind(&mut observation, 10_800.0);
        observation.jobs.known_mut().processes[0].clock_ahead_seconds = 0.0;
        assert_eq!(check(&observation)[0].severity, Severity::Critical, "one clock is right");
    }
}

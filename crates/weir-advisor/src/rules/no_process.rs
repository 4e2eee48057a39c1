//! No process accepts jobs.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{
    Fact, JobProcess, Observation, ProcessPresence, RedisServer, ServedDatabase, SidekiqObservation,
};
use crate::wording;

pub(crate) const NAME: &str = "no-process";

/// Processes may be quiet this long during a deployment.
const DEPLOYMENT: Duration = Duration::from_secs(600);
/// Maximum number of processes that are named.
const NAMED_MAX: usize = 3;
const UNITS: &str = "systemctl list-unit-files '*sidekiq*'";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let jobs = observation.jobs.known();
    let nobody =
        |jobs: &&SidekiqObservation| !jobs.has_more_processes && jobs.serving().next().is_none();
    let redis = observation.redis.first().and_then(Fact::known);
    let loss = redis.and_then(|redis| redis.loses_heartbeats(jobs?));
    let place = redis.map(|redis| format!(" in database {}", redis.database)).unwrap_or_default();
    let found = jobs.filter(nobody).and_then(|jobs| found(jobs, &place));
    let found = found.map(|finding| unless_lost(unless_running(finding, jobs), jobs, loss));
    found.map(|finding| or_elsewhere(finding, jobs, redis)).into_iter().collect()
}

/// Adds that Sidekiq may use another database, if there are jobs, no trace of a process, and other
/// databases.
fn or_elsewhere(
    finding: Finding,
    jobs: Option<&SidekiqObservation>,
    redis: Option<&RedisServer>,
) -> Finding {
    let is_nobody = jobs.is_some_and(|it| it.processes.is_empty() && it.ghosts.is_empty());
    let Some(redis) = redis.filter(|_| is_nobody) else { return finding };
    let finding = or_in_a_namespace(finding, redis);
    if !redis.served_elsewhere.is_empty() {
        return served_elsewhere(finding, redis);
    }
    let others =
        redis.info.keyspaces.iter().filter(|it| it.database != redis.database && it.keys > 0);
    let others: Vec<String> = others.map(|it| it.database.to_string()).collect();
    if others.is_empty() {
        return finding;
    }
    finding.adding(format_args!(
        "If it is already running, its REDIS_URL may name a database other than {}: there are \
         keys in {}.",
        redis.database,
        wording::list(others.iter().map(String::as_str))
    ))
}

/// Reports live processes in other databases. Does not suggest a start: either the jobs are pushed to
/// the wrong database, or those processes use it.
fn served_elsewhere(finding: Finding, redis: &RedisServer) -> Finding {
    let of = |it: &ServedDatabase| {
        let processes = wording::number(it.processes, "live process", "live processes");
        format!("database {} of the same Redis has {processes}", it.database)
    };
    let served: Vec<String> = redis.served_elsewhere.iter().map(of).collect();
    let served = wording::list(served.iter().map(String::as_str));
    let evidence = format!("{}; {served}", finding.evidence);
    Finding { evidence, ..finding.without_next() }.leads_to(format!(
        "Sidekiq serves no job of database {}. If those processes are of the same application, the \
         REDIS_URL of what pushes and that of Sidekiq must name the same database. If they are of \
         another one, start yours.",
        redis.database
    ))
}

/// Adds that a Sidekiq with a namespace may be running, which doctor does not examine.
fn or_in_a_namespace(finding: Finding, redis: &RedisServer) -> Finding {
    let Some(namespace) = redis.namespaces.first() else { return finding };
    let consequence = format!(
        "{} There are keys of a Sidekiq with the namespace \"{namespace}\" (redis-namespace), which \
         doctor does not examine. If it is running, it serves the jobs in its namespace, not these: \
         the application and Sidekiq must use the same namespace.",
        finding.consequence
    );
    finding.without_next().leads_to(consequence)
}

/// Does not suggest a start if a process runs on this machine: a second one would fail in the same
/// way.
fn unless_running(finding: Finding, jobs: Option<&SidekiqObservation>) -> Finding {
    let ghost = jobs.and_then(|it| it.running_ghosts.first().cloned());
    let unlisted = || jobs.and_then(|it| Some(format!("process {}", it.unlisted.first()?)));
    let Some(first) = ghost.or_else(unlisted) else { return finding };
    let evidence = format!("{}; {first} runs on this machine nevertheless", finding.evidence);
    Finding { evidence, ..finding.without_next() }.leads_to(
        "Sidekiq's log shows why: Redis may reject it (a changed password), its heartbeats may fail \
         for another reason (too many open files), it may hang, or use another Redis.",
    )
}

/// Does not suggest a start if the Redis loses heartbeats, because processes may be running.
fn unless_lost(
    finding: Finding,
    jobs: Option<&SidekiqObservation>,
    loss: Option<String>,
) -> Finding {
    let is_silent = |jobs: &SidekiqObservation| jobs.processes.iter().all(|it| !it.is_alive());
    let Some(why) = loss.filter(|_| jobs.is_some_and(is_silent)) else { return finding };
    let evidence = format!("{}; {why}", finding.evidence);
    let finding = Finding { evidence, severity: Severity::Warning, ..finding.without_next() };
    finding.leads_to(
        "Sidekiq's processes may be running: Redis does not keep their heartbeats. Repair Redis \
         first.",
    )
}

/// Ignores quiet processes without jobs, which indicate a deployment. Another rule reports a Redis
/// without Sidekiq keys.
fn found(jobs: &SidekiqObservation, place: &str) -> Option<Finding> {
    if jobs.backlog() > 0 {
        return Some(waiting(jobs, place));
    }
    let is_gone = jobs.processes.is_empty() && !jobs.is_nowhere();
    let evidence = format!("no Sidekiq process has a heartbeat{place}; no job is waiting yet");
    is_gone.then(|| {
        Finding::new(NAME, Severity::Warning, "Sidekiq", evidence)
            .leads_to(
                "Its keys exist but no process runs: the next job will wait, and scheduled \
                       jobs are not moved.",
            )
            .next(UNITS)
    })
}

fn waiting(jobs: &SidekiqObservation, place: &str) -> Finding {
    let waiting = wording::jobs_wait(jobs.backlog());
    let all_are_quiet = jobs.processes.iter().all(|it| it.quiet && it.is_alive());
    let evidence = match jobs.processes.as_slice() {
        [] => format!("{waiting} and no Sidekiq process has a heartbeat{place}"),
        [one] => {
            format!("{waiting} and the only process, {}, {}", one.identity, one.why_it_takes_none())
        }
        all if all_are_quiet => {
            format!("{waiting} and all {} processes are quiet (TSTP)", all.len())
        }
        all => {
            let of = |it: &JobProcess| format!("{} {}", it.identity, it.why_it_takes_none());
            let named: Vec<String> = all.iter().take(NAMED_MAX).map(of).collect();
            let named = wording::list(named.iter().map(String::as_str));
            format!("{waiting} and none of {} processes takes jobs: {named}", all.len())
        }
    };
    if all_are_quiet && !jobs.processes.is_empty() && jobs.latency_max() < DEPLOYMENT {
        return Finding::new(NAME, Severity::Notice, "Sidekiq", evidence).leads_to(
            "This is normal during a deployment: jobs wait until the processes are restarted. \
             Otherwise, restart yours.",
        );
    }
    Finding::new(NAME, Severity::Critical, "Sidekiq", evidence)
        .since(jobs.latency_max(), "enqueued_at of the oldest job")
        .leads_to(format!(
            "No jobs are run. The command lists Sidekiq's units on a machine with systemd, running or \
             not; {}.",
            remedy(jobs)
        ))
        .next(UNITS)
}

/// A missing heartbeat does not show that its process has ended or hangs: Redis may let writes wait,
/// or the network may be interrupted.
fn remedy(jobs: &SidekiqObservation) -> &'static str {
    const LOG: &str = "start yours if it has ended, and restart it if it hangs. If it runs, its log \
                       shows whether it cannot write to Redis: a restart does not help then";
    let is_silent = |it: &JobProcess| it.presence == ProcessPresence::Silent;
    match jobs.processes.as_slice() {
        [] if jobs.ghosts.is_empty() => "start yours",
        [] => LOG,
        all if all.iter().any(is_silent) => LOG,
        all if all.iter().all(|it| it.presence == ProcessPresence::Gone) => {
            "start yours, unless its supervisor (systemd, Docker) is doing so already"
        }
        _ => "restart yours",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn waiting_jobs_without_a_process_are_found() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        let expected = " and no Sidekiq process has a heartbeat in database 0";
        assert!(check(&observation)[0].evidence.ends_with(expected));
        for queue in &mut observation.jobs.known_mut().queues {
            queue.length = 0;
        }
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Warning, Some(UNITS)));
        *observation.jobs.known_mut() = SidekiqObservation::default();
        assert_eq!(check(&observation), [], "where nothing is, no process is missed");
    }

    #[test]
    fn where_redis_takes_no_writes_nobody_is_told_to_start_what_may_run() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        observation.jobs.known_mut().stand_still();
        observation.redis[0].known_mut().info.persistence.last_snapshot_ok = false;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Warning, None));
        assert!(finding.evidence.ends_with("rejects writes: its last snapshot failed (MISCONF)"));
        assert_eq!(crate::advise(&observation).findings[0].rule, "redis-persistence");
        // Processes with heartbeats were able to write them.
        let mut quiet = healthy::observation();
        quiet.redis[0].known_mut().info.persistence.last_snapshot_ok = false;
        quiet.jobs.known_mut().processes.iter_mut().for_each(|it| it.quiet = true);
        quiet.jobs.known_mut().queue_mut("push").latency = DEPLOYMENT;
        assert_eq!(check(&quiet)[0].severity, Severity::Critical);
    }

    #[test]
    fn a_process_without_heartbeats_may_run_and_is_not_simply_to_be_restarted() {
        let mut observation = healthy::observation();
        assert_eq!(remedy(observation.jobs.known_mut()), "restart yours");
        observation.jobs.known_mut().processes[1].quiet = true;
        observation.jobs.known_mut().processes[0].presence = ProcessPresence::Silent;
        let consequence = check(&observation).remove(0).consequence;
        assert!(consequence.contains("whether it cannot write to Redis"), "{consequence}");
        assert!(!consequence.contains("restart yours"), "{consequence}");
        let jobs = observation.jobs.known_mut();
        jobs.processes.clear();
        jobs.ghosts = vec!["web:7:x".to_owned()];
        assert!(check(&observation)[0].consequence.contains("whether it cannot write to Redis"));
        observation.jobs.known_mut().ghosts.clear();
        assert!(check(&observation)[0].consequence.ends_with("start yours."));
    }

    #[test]
    fn jobs_of_a_database_that_sidekiq_does_not_serve_are_not_said_to_need_a_start_only() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        let redis = observation.redis[0].known_mut();
        redis.database = 1;
        let finding = check(&observation).remove(0);
        let expected = "a database other than 1: there are keys in 0.";
        assert!(finding.consequence.ends_with(expected), "{finding:?}");
    }

    #[test]
    fn processes_that_live_in_another_database_are_named_and_none_is_to_be_started() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        let redis = observation.redis[0].known_mut();
        redis.served_elsewhere = vec![ServedDatabase { database: 1, processes: 2 }];
        let finding = check(&observation).remove(0);
        assert_eq!(
            (finding.severity, finding.next_step().map(str::to_owned)),
            (Severity::Critical, None)
        );
        let expected = "in database 0; database 1 of the same Redis has 2 live processes";
        assert!(finding.evidence.ends_with(expected), "{finding:?}");
        assert!(finding.consequence.contains("must name the same database"), "{finding:?}");
    }

    #[test]
    fn a_deployment_without_jobs_is_no_news() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.queues.iter_mut().for_each(|queue| queue.length = 0);
        jobs.processes.iter_mut().for_each(|process| process.quiet = true);
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn quiet_processes_do_not_serve() {
        let mut observation = healthy::observation();
        for process in &mut observation.jobs.known_mut().processes {
            process.quiet = true;
        }
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.contains("all 2 processes are quiet"));
        assert_eq!(
            (finding.severity, finding.next_step()),
            (Severity::Notice, None),
            "a deployment"
        );
        observation.jobs.known_mut().queue_mut("push").latency = DEPLOYMENT;
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
    }

    #[test]
    fn what_runs_on_this_machine_is_not_to_be_started_again() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes.clear();
        jobs.ghosts = vec!["shop:7:x".to_owned()];
        jobs.running_ghosts = jobs.ghosts.clone();
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.ends_with("; shop:7:x runs on this machine nevertheless"));
        assert_eq!((finding.severity, finding.next_step()), (Severity::Critical, None));
        assert!(!finding.consequence.contains("start"));
        let jobs = observation.jobs.known_mut();
        (jobs.running_ghosts, jobs.unlisted) = (Vec::new(), vec![4_711]);
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.ends_with("; process 4711 runs on this machine nevertheless"));
    }

    #[test]
    fn where_redis_evicts_keys_it_leads() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (redis.info.used_memory_bytes, 7);
        assert_eq!(check(&observation)[0].severity, Severity::Warning);
        assert_eq!(crate::advise(&observation).findings[0].rule, "redis-eviction");
    }

    #[test]
    fn a_sidekiq_in_a_namespace_may_be_running() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        assert!(check(&observation)[0].next_step().is_some());
        observation.redis[0].known_mut().namespaces = vec!["shop".to_owned()];
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.contains("with the namespace \"shop\""), "{finding:?}");
        assert_eq!(finding.next_step(), None, "starting a second one does not help");
    }
}

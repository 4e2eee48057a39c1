//! Detects whether something delays jobs. A plan that counted the waiting as load would ask for
//! more threads that only wait as well.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::observation::{
    ConnectionPool, DatabaseObservation, JobProcess, Observation, SessionState,
};
use crate::rules;
use crate::wording;

use super::unseen_processes;

/// Share of busy sessions that are waiting. Above it, more sessions complete no more work.
const WAITING_SHARE: f64 = 0.5;
/// The minimum number of busy sessions for a conclusion.
const BUSY_MIN: u32 = 4;
/// Wait events (`wait_event_type`) in which a session does no work for its client, because of
/// another session, the disk or a sleep (`SpinDelay`, `PgSleep`).
const HELD_UP_BY: [&str; 6] = ["Lock", "LWLock", "IO", "BufferPin", "IPC", "Timeout"];
const LOCK_WAIT_MIN: Duration = Duration::from_secs(10);
/// Connections of a pooler are released within milliseconds.
const POOLER_WAIT_MIN: Duration = Duration::from_secs(1);
const HITS_MIN: f64 = 0.95;
/// With fewer idle cores, jobs that compute are waiting for CPU time.
const CORES_IDLE_MIN: f64 = 0.1;

/// Describes what delays jobs. Returns an empty list if nothing was found.
#[must_use]
pub fn held_up(observation: &Observation) -> Vec<String> {
    let of_database = observation.postgres.known().map(of_database).unwrap_or_default();
    let of_jobs = failing(observation).into_iter().chain(of_pools(observation));
    let of_processes =
        unseen_processes::found(observation).into_iter().chain(crash_loops(observation));
    of_processes
        .chain(of_database)
        .chain(of_pooler(observation))
        .chain(of_cores(observation))
        .chain(of_jobs)
        .collect()
}

/// Describes processes that end again and again.
fn crash_loops(observation: &Observation) -> Vec<String> {
    let names = observation.jobs.known().map(rules::crash_loop_names).unwrap_or_default();
    let line = |name: String| {
        format!(
            "{name} ended one after the other: what their threads do at a time says nothing about how \
             many are needed"
        )
    };
    names.into_iter().map(line).collect()
}

/// Describes that no core is idle, if jobs or the sessions of a database on this machine compute.
fn of_cores(observation: &Observation) -> Option<String> {
    let machine = observation.machine.known().filter(|it| it.cores_idle < CORES_IDLE_MIN)?;
    let none = format!("none of {} is idle", wording::number(machine.cores, "core", "cores"));
    let jobs = observation.jobs.known()?;
    if jobs.serving().any(JobProcess::computes) {
        return Some(none);
    }
    let postgres = observation.postgres.known().filter(|it| it.is_here && jobs.busy() > 0)?;
    let working = working(postgres)?;
    (working >= machine.cores)
        .then(|| format!("{none}, and {working} sessions of the database use them"))
}

/// Returns the number of sessions that are active and wait for nothing.
fn working(postgres: &DatabaseObservation) -> Option<u32> {
    let active = postgres.connections.known()?.in_state(SessionState::Active);
    let waiting = postgres.waits.known()?.iter().map(|it| it.count).fold(0, u32::saturating_add);
    Some(active.saturating_sub(waiting))
}

/// Describes that most jobs fail. A failed job ends early, and its retry is no push of the
/// application.
fn failing(observation: &Observation) -> Option<String> {
    let share = observation.jobs.known()?.failing_share()?;
    let share = wording::percent(share);
    Some(format!("{share} of the jobs fail and return as retries, which are no new arrivals"))
}

/// Describes that jobs find no connection in the pool of their process. Their durations contain the wait,
/// and more threads only wait as well.
fn of_pools(observation: &Observation) -> Option<String> {
    let jobs = observation.jobs.known().filter(|jobs| jobs.lacks_pool_connections())?;
    let failed = wording::number(jobs.retries.size, "job", "jobs");
    Some(format!(
        "most of the {failed} in the retry set failed with ActiveRecord::ConnectionTimeoutError: the \
         pool of their process (config/database.yml) had no free connection for them"
    ))
}

/// Describes clients that wait for a connection of a pooler: the durations of their jobs contain the
/// wait. If the pooler was not queried, the database shows only that it has no connection left.
fn of_pooler(observation: &Observation) -> Option<String> {
    let pooler = observation.pooler.as_ref();
    let name = pooler.map_or("pgbouncer", |it| it.name.as_str());
    if let Some(pgbouncer) = observation.pgbouncer.known() {
        let waiting = pgbouncer.pools.iter().filter(|pool| delays(pool));
        let (waiting, connections) = waiting.fold((0_u32, 0_u32), |(waiting, all), pool| {
            (waiting.saturating_add(pool.clients_waiting), all.saturating_add(pool.connections))
        });
        return (waiting > 0).then(|| {
            format!(
                "{} for one of {} of {name}: more threads only wait as well",
                wording::number(waiting, "client waits", "clients wait"),
                wording::number(connections, "connection", "connections")
            )
        });
    }
    let sessions = observation.postgres.known()?.connections.known()?;
    // Without its limit, those that it holds: it opens more while clients wait, up to its limit.
    let held = observation.held_by_pooler();
    let connections = pooler?.connections.unwrap_or(held);
    if connections == 0 {
        return None;
    }
    let in_state = |state| sessions.of(name, state);
    let used = in_state(SessionState::Active) + in_state(SessionState::IdleInTransaction);
    let busy = observation.jobs.known()?.busy();
    (used >= connections && busy > u64::from(connections)).then(|| {
        format!(
            "{} in progress, and {name} has no free connection of {connections}: more threads only \
             wait as well",
            wording::number(busy, "job is", "jobs are")
        )
    })
}

/// Reports whether waiting is a large part of what clients of the pool do.
fn delays(pool: &ConnectionPool) -> bool {
    let busy = pool.clients_waiting.saturating_add(pool.connections_active);
    pool.longest_wait >= POOLER_WAIT_MIN && pool.clients_waiting > 0
        || f64::from(pool.clients_waiting) >= WAITING_SHARE * f64::from(busy.max(1))
}

fn of_database(postgres: &DatabaseObservation) -> Vec<String> {
    let waits = postgres.lock_waits.known().map(Vec::as_slice).unwrap_or_default();
    // A session has an entry for each session that blocks it.
    let long: Vec<_> = waits
        .iter()
        .filter(|wait| wait.waited >= LOCK_WAIT_MIN && rules::may_be_of_job(wait))
        .collect();
    let holder = match long.iter().any(|wait| wait.blocking_pid == 0) {
        true => "a prepared transaction, or behind others that do",
        false => "another session",
    };
    let long = long.iter().map(|wait| wait.waiting_pid).collect::<BTreeSet<_>>().len() as u64;
    let locks = (long > 0).then(|| {
        let waiting = wording::number(long, "session waits", "sessions wait");
        format!("{waiting} for a lock of {holder}")
    });
    let hits = postgres.cache_hit_ratio.known().filter(|hits| **hits < HITS_MIN);
    let hits = hits.map(|hits| {
        format!("only {:.1} % of the requested blocks are in shared buffers", hits * 100.0)
    });
    [locks, waiting(postgres), hits].into_iter().flatten().collect()
}

/// Describes the waits of busy sessions, if most of them are waiting.
fn waiting(postgres: &DatabaseObservation) -> Option<String> {
    let busy = postgres.connections.known()?.in_state(SessionState::Active);
    let waits = postgres.waits.known()?.iter();
    let held: Vec<_> = waits.filter(|it| HELD_UP_BY.contains(&it.kind.as_str())).collect();
    let count: u32 = held.iter().map(|it| it.count).sum();
    let most = held.iter().max_by_key(|it| it.count)?;
    let is_held_up = busy >= BUSY_MIN && f64::from(count) >= WAITING_SHARE * f64::from(busy);
    is_held_up.then(|| {
        format!(
            "{count} of {busy} busy sessions of the database are waiting, most for {} {}",
            most.kind, most.event
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::healthy::sessions;
    use crate::observation::{
        Fact, JobSample, LockWait, PgBouncer, Pooler, SampleShare, SessionWait, SidekiqObservation,
    };
    use crate::plan::{DemandSource, demands, demands_held_up};

    #[test]
    fn what_holds_jobs_up_is_named() {
        assert_eq!(held_up(&healthy::observation()), [""; 0]);
        let mut observation = healthy::observation();
        let wait = |kind: &str, count| SessionWait {
            kind: kind.to_owned(),
            event: "DataFileRead".to_owned(),
            count,
        };
        let postgres = observation.postgres.known_mut();
        postgres.waits = Fact::Known(vec![wait("Client", 12), wait("IO", 5)]);
        assert_eq!(held_up(&observation), [""; 0], "5 of 12");
        let postgres = observation.postgres.known_mut();
        postgres.waits = Fact::Known(vec![wait("Timeout", 6)]);
        assert_eq!(held_up(&observation).len(), 1, "sessions that sleep");
        let postgres = observation.postgres.known_mut();
        postgres.waits = Fact::Known(vec![wait("IO", 6)]);
        let waited = Duration::from_secs(10);
        // Session 7 waits for two others.
        let wait =
            |blocking_pid| LockWait { waited, waiting_pid: 7, blocking_pid, ..LockWait::default() };
        *postgres.lock_waits.known_mut() = vec![wait(8), wait(9)];
        *postgres.cache_hit_ratio.known_mut() = 0.5;
        observation.machine.known_mut().cores_idle = 0.0;
        let expected = [
            "1 session waits for a lock of another session",
            "6 of 12 busy sessions of the database are waiting, most for IO DataFileRead",
            "only 50.0 % of the requested blocks are in shared buffers",
            "none of 4 cores is idle",
        ];
        assert_eq!(held_up(&observation), expected);
        // The jobs sleep, and others use the cores.
        for process in &mut observation.jobs.known_mut().processes {
            process.cores_used = Fact::Known(0.05);
        }
        assert_eq!(held_up(&observation), expected[..3]);
    }

    #[test]
    fn a_wait_of_a_session_that_runs_no_jobs_delays_none() {
        let waits = |service: &str, blocking_pid, maintenance: Option<&str>| {
            let mut observation = healthy::observation();
            *observation.postgres.known_mut().lock_waits.known_mut() = vec![LockWait {
                waiting_pid: 7,
                waiting_service: service.to_owned(),
                blocking_pid,
                maintenance: maintenance.map(str::to_owned),
                waited: Duration::from_secs(35),
                ..LockWait::default()
            }];
            held_up(&observation)
        };
        assert_eq!(waits("psql", 8, None), [""; 0]);
        assert_eq!(waits("web", 8, None), [""; 0]);
        assert_eq!(waits("app@shop", 8, Some("CREATE INDEX")), [""; 0], "no job creates an index");
        let expected = "1 session waits for a lock of another session";
        assert_eq!(waits("sidekiq default", 8, None), [expected]);
        assert_eq!(waits("pgbouncer", 8, None), [expected], "it may be Sidekiq's");
        let expected =
            "1 session waits for a lock of a prepared transaction, or behind others that do";
        assert_eq!(waits("sidekiq default", 0, None), [expected]);
    }

    #[test]
    fn sessions_of_a_local_database_that_use_every_core_delay_jobs_as_well() {
        let mut observation = healthy::observation();
        observation.machine.known_mut().cores_idle = 0.0;
        for process in &mut observation.jobs.known_mut().processes {
            process.cores_used = Fact::Known(0.05);
        }
        // Twelve sessions are active, and none of them waits.
        let expected = "none of 4 cores is idle, and 12 sessions of the database use them";
        observation.postgres.known_mut().is_here = true;
        assert_eq!(held_up(&observation), [expected]);
        observation.postgres.known_mut().is_here = false;
        assert_eq!(held_up(&observation), [""; 0], "the database has another machine");
        let postgres = observation.postgres.known_mut();
        let (kind, event) = ("Client".to_owned(), "ClientRead".to_owned());
        postgres.waits = Fact::Known(vec![SessionWait { kind, event, count: 9 }]);
        postgres.is_here = true;
        assert_eq!(held_up(&observation), [""; 0], "three of them work");
    }

    #[test]
    fn clients_that_wait_for_a_pooler_are_held_up() {
        let mut observation = healthy::observation();
        let pooler = Pooler { connections: Some(2), ..Pooler::default() };
        observation.pooler = Some(Pooler { name: "pgbouncer".to_owned(), ..pooler });
        let mut with = |waiting, active, wait_ms| {
            let pool = ConnectionPool {
                clients_waiting: waiting,
                connections_active: active,
                connections: active,
                longest_wait: Duration::from_millis(wait_ms),
                ..ConnectionPool::default()
            };
            observation.pgbouncer =
                Fact::Known(PgBouncer { pools: vec![pool], ..PgBouncer::default() });
            held_up(&observation)
        };
        let expected =
            "8 clients wait for one of 2 connections of pgbouncer: more threads only wait as well";
        assert_eq!(with(8, 2, 400), [expected]);
        assert_eq!(with(1, 20, 5), [""; 0], "its turn comes at once");
        assert_eq!(with(1, 20, 1_000).len(), 1);
        assert_eq!(with(0, 2, 0), [""; 0]);
        // Not queried: the database shows that all connections are in use.
        observation.pgbouncer = Fact::NotAsked;
        observation.jobs.known_mut().processes[0].busy = 9;
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![sessions("pgbouncer", SessionState::Active, 2)];
        let expected = "10 jobs are in progress, and pgbouncer has no free connection of 2: more \
                        threads only wait as well";
        assert_eq!(held_up(&observation), [expected]);
        // Its limit is unknown.
        observation.pooler.as_mut().unwrap().connections = None;
        assert_eq!(held_up(&observation), [expected]);
        observation.pooler.as_mut().unwrap().connections = Some(2);
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![sessions("pgbouncer", SessionState::Active, 1)];
        assert_eq!(held_up(&observation), [""; 0]);
    }

    #[test]
    fn what_jobs_take_while_they_are_held_up_is_no_demand() {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut("push");
        // 25 threads complete one job per second: by these figures, 100 per second need 2,500
        // threads.
        queue.in_hand = 25;
        let flow = queue.flow.known_mut();
        (flow.before, flow.after, flow.arrivals_per_second) = (9_060, 15_000, 100.0);
        flow.window = Duration::from_secs(60);
        let jobs = observation.jobs.known().unwrap();
        let of = |demands: crate::plan::Demands| {
            demands.queues.into_iter().find(|it| it.name == "push").unwrap()
        };
        let taken = of(demands(jobs, &[]));
        assert!(taken.arrivals_per_second * taken.service_seconds > 2_000.0, "{taken:?}");
        let held_up = of(demands_held_up(jobs, &[]));
        assert_eq!((held_up.known, held_up.service_seconds), (DemandSource::HeldUp, 0.2));
        assert_eq!(held_up.threads_now, 5, "of 25 for 5 queues beside mail");
    }

    #[test]
    fn retries_of_jobs_that_fail_are_no_rate_of_the_application() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        let queue = jobs.queue_mut("push");
        queue.in_hand = 5;
        let flow = queue.flow.known_mut();
        (flow.before, flow.after, flow.arrivals_per_second) = (9_050, 6_000, 45.0);
        let retries = *flow;
        // Two of three waiting jobs have failed before.
        let errors = vec![SampleShare { name: "IOError".to_owned(), count: 40 }];
        queue.sample = Fact::Known(JobSample { size: 60, errors, ..JobSample::default() });
        jobs.retries.flow = Fact::Known(retries);
        let push = |jobs: &SidekiqObservation| {
            demands(jobs, &[]).queues.into_iter().find(|it| it.name == "push").unwrap()
        };
        assert_eq!(push(jobs).arrivals_per_second.round(), 350.0, "the completion rate");
        (jobs.processed_per_second, jobs.failed_share) = (Fact::Known(350.0), Fact::Known(0.96));
        let failing = push(jobs);
        assert_eq!(
            (failing.known, failing.arrivals_per_second.round()),
            (DemandSource::HeldUp, 15.0)
        );
        jobs.queue_mut("push").sample = Fact::NotAsked;
        assert!(!push(jobs).knows_rate(), "how many are retries is unknown");
        let expected = "96 % of the jobs fail and return as retries, which are no new arrivals";
        assert_eq!(held_up(&observation), [expected]);
    }

    #[test]
    fn a_rate_that_rests_on_the_time_of_jobs_held_up_is_none() {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut("push");
        // The queue is empty, with four jobs in progress: at 0.2 s each, that would be 20 per
        // second.
        queue.in_hand = 4;
        let flow = queue.flow.known_mut();
        (flow.before, flow.after, flow.arrivals_per_second) = (0, 0, 0.0);
        let jobs = observation.jobs.known().unwrap();
        let queues = demands_held_up(jobs, &[]).queues;
        let push = queues.iter().find(|it| it.name == "push").unwrap();
        assert_eq!((push.known, push.arrivals_per_second), (DemandSource::HeldUp, 0.0));
        assert!(!push.knows_rate());
    }
}

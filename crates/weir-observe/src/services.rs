//! Determines the services that may open connections to the database.

use std::collections::BTreeMap;
use std::path::Path;

use weir_advisor::observation::{
    ClientProcess, ConnectionPools, Fact, JobProcess, POOL_VARIABLE, RAILS_POOL_VARIABLE,
    SidekiqObservation, is_sidekiq,
};

use crate::environment::StartEnvironment;

/// The name that a configuration may use for all Sidekiq processes together.
const ALL_SIDEKIQ: &str = "sidekiq";

/// Returns the `given` services and the detected Sidekiq processes; `started` has environments by
/// identity. Given values take precedence. Not known only if there are no services at all, because
/// even a partial sum is a lower limit.
pub(crate) fn services(
    given: &[ConnectionPools],
    jobs: Option<&SidekiqObservation>,
    started: &BTreeMap<String, StartEnvironment>,
) -> Fact<Vec<ConnectionPools>> {
    let mut services = given.to_vec();
    for seen in jobs.map(|jobs| sidekiq(jobs, started)).unwrap_or_default() {
        let same = given.iter().position(|it| is_same(&it.name, &seen.name));
        match same.or_else(|| given.iter().position(|it| it.name == ALL_SIDEKIQ)) {
            // The observed threads count, unless threads were given as well.
            Some(at) if given[at].threads.is_none() => {
                services[at].threads = services[at].threads.max(seen.threads);
            }
            Some(_) => {}
            None => services.push(seen),
        }
    }
    if services.is_empty() { Fact::NotAsked } else { Fact::Known(services) }
}

/// Adds services from the local processes that hold connections to the database. Sidekiq is
/// skipped, because its heartbeats are used.
pub(crate) fn add_clients(services: &mut Fact<Vec<ConnectionPools>>, clients: &[ClientProcess]) {
    let mut seen: Vec<ConnectionPools> = Vec::new();
    for client in clients.iter().filter(|client| !is_sidekiq(&client.service)) {
        let Some(pool) = client.pool else { continue };
        let (name, set_by) = (client.service.clone(), POOL_VARIABLE.to_owned());
        count(
            &mut seen,
            ConnectionPools { name, processes: 1, pool, set_by, threads: client.threads },
        );
    }
    let mut all = services.known().cloned().unwrap_or_default();
    let known = all.len();
    for new in seen {
        match all[..known].iter_mut().find(|it| is_same(&it.name, &new.name)) {
            Some(given) if given.threads.is_none() => given.threads = new.threads,
            Some(_) => {}
            None => all.push(new),
        }
    }
    if !all.is_empty() {
        *services = Fact::Known(all);
    }
}

/// Returns the environments of local Sidekiq processes, by identity.
pub(crate) fn started(
    proc: Option<&Path>,
    local: &BTreeMap<String, u32>,
) -> BTreeMap<String, StartEnvironment> {
    let Some(proc) = proc else { return BTreeMap::new() };
    local
        .iter()
        .map(|(identity, pid)| (identity.clone(), StartEnvironment::read(proc, *pid)))
        .collect()
}

/// Returns the services of local Sidekiq processes, by process ID.
pub(crate) fn names(
    jobs: Option<&SidekiqObservation>,
    local: &BTreeMap<String, u32>,
) -> BTreeMap<u32, String> {
    let Some(jobs) = jobs else { return BTreeMap::new() };
    let of = |process: &JobProcess| Some((*local.get(&process.identity)?, name(process)));
    jobs.processes.iter().filter_map(of).collect()
}

/// Compares names. Units have names such as "sidekiq-push".
fn is_same(one: &str, other: &str) -> bool {
    let words = |name: &str| name.replace(['-', '_'], " ");
    words(one) == words(other)
}

/// Returns the Sidekiq services. The pool size is the number of threads, unless `DB_POOL` is set, or
/// `RAILS_MAX_THREADS` to fewer.
/// Processes without threads are skipped, because their heartbeat was unreadable.
fn sidekiq(
    jobs: &SidekiqObservation,
    started: &BTreeMap<String, StartEnvironment>,
) -> Vec<ConnectionPools> {
    let mut services = Vec::new();
    for process in jobs.processes.iter().filter(|process| process.concurrency() > 0) {
        let (name, threads) = (name(process), process.concurrency());
        let started = started.get(&process.identity).copied().unwrap_or_default();
        let (pool, set_by) = match started {
            StartEnvironment { pool: Some(pool), .. } => (pool, POOL_VARIABLE),
            // `-c` or Sidekiq's file sets the threads, and this variable the pool, unless the
            // application's database.yml differs from that of Rails.
            StartEnvironment { rails_max_threads: Some(pool), .. } if pool < threads => {
                (pool, RAILS_POOL_VARIABLE)
            }
            // Whether the threads are from `-c` does not show, because Sidekiq overwrites its command
            // line. The option has an effect in any case.
            _ => (threads, "-c "),
        };
        let set_by = set_by.to_owned();
        count(
            &mut services,
            ConnectionPools { name, processes: 1, pool, set_by, threads: Some(threads) },
        );
    }
    services
}

/// Counts a process with identical ones, or adds it.
fn count(services: &mut Vec<ConnectionPools>, one: ConnectionPools) {
    let alike =
        |it: &&mut ConnectionPools| ConnectionPools { processes: 1, ..(**it).clone() } == one;
    match services.iter_mut().find(alike) {
        Some(service) => service.processes = service.processes.saturating_add(1),
        None => services.push(one),
    }
}

/// Returns a name from the first queue: "sidekiq push".
fn name(process: &JobProcess) -> String {
    let first = process.served().next();
    first.map_or_else(|| ALL_SIDEKIQ.to_owned(), |queue| format!("{ALL_SIDEKIQ} {queue}"))
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::{Capsule, WeightedQueue};

    use super::*;

    fn process(identity: &str, concurrency: u32, queue: &str) -> JobProcess {
        let queues = vec![WeightedQueue { name: queue.to_owned(), weight: 0 }];
        let capsules = vec![Capsule { concurrency, queues, ..Capsule::default() }];
        JobProcess { identity: identity.to_owned(), capsules, ..JobProcess::default() }
    }

    fn jobs() -> SidekiqObservation {
        let processes =
            vec![process("a", 25, "push"), process("b", 25, "push"), process("c", 5, "mailers")];
        SidekiqObservation { processes, ..SidekiqObservation::default() }
    }

    fn service(name: &str, processes: u32, pool: u32, set_by: &str) -> ConnectionPools {
        ConnectionPools {
            name: name.to_owned(),
            processes,
            pool,
            set_by: set_by.to_owned(),
            threads: None,
        }
    }

    fn seen(given: &[ConnectionPools]) -> Vec<ConnectionPools> {
        services(given, Some(&jobs()), &BTreeMap::new()).known().unwrap().clone()
    }

    #[test]
    fn heartbeats_tell_pools_and_what_is_given_wins() {
        let given =
            [service("web", 2, 5, "DB_POOL="), service("sidekiq mailers", 1, 50, "DB_POOL=")];
        let [web, mailers] = given.clone();
        let mailers = ConnectionPools { threads: Some(5), ..mailers };
        let push = ConnectionPools { threads: Some(25), ..service("sidekiq push", 2, 25, "-c ") };
        assert_eq!(seen(&given), [web, mailers, push]);
        assert_eq!(services(&[], None, &BTreeMap::new()), Fact::NotAsked);
    }

    #[test]
    fn what_is_given_for_all_of_sidekiq_is_not_counted_twice() {
        let connections =
            |given: &[ConnectionPools]| seen(given).iter().map(ConnectionPools::connections).sum();
        let all = service("sidekiq", 3, 25, "DB_POOL=");
        let sum: u32 = connections(std::slice::from_ref(&all));
        assert_eq!(sum, 75, "and not 55 more");
        let unit = service("sidekiq-push", 2, 30, "DB_POOL=");
        let sum: u32 = connections(std::slice::from_ref(&unit));
        assert_eq!(sum, 65, "a unit's name is the same service");
        let sum: u32 = connections(&[all, unit]);
        assert_eq!(sum, 135, "mailers is among all, push has its own");
    }

    #[test]
    fn the_environment_tells_another_pool_and_where_threads_come_from() {
        let started = BTreeMap::from([
            ("a".to_owned(), StartEnvironment { pool: Some(5), ..StartEnvironment::default() }),
            (
                "c".to_owned(),
                StartEnvironment { rails_max_threads: Some(5), ..StartEnvironment::default() },
            ),
        ]);
        let services = services(&[], Some(&jobs()), &started);
        let lines: Vec<_> =
            services.known().unwrap().iter().map(|it| it.pool_line(it.pool)).collect();
        let no_more = "at most 5 threads (-c), and DB_POOL=5";
        // With `-c 5` as well, RAILS_MAX_THREADS=4 would leave five threads with four connections.
        assert_eq!(lines, [no_more, "-c 25", "-c 5"]);
    }

    #[test]
    fn a_pool_of_rails_has_as_many_connections_as_its_variable_says() {
        let rails = |number| {
            let rails_max_threads = Some(number);
            StartEnvironment { rails_max_threads, ..StartEnvironment::default() }
        };
        let started = BTreeMap::from([("a", rails(5)), ("b", rails(30)), ("c", rails(3))]);
        let started = started.into_iter().map(|(id, it)| (id.to_owned(), it)).collect();
        let services = services(&[], Some(&jobs()), &started);
        let pools: Vec<_> =
            services.known().unwrap().iter().map(|it| (it.pool, it.threads)).collect();
        // 25 threads can't hold more than 25 connections, however large their pool is.
        assert_eq!(pools, [(5, Some(25)), (25, Some(25)), (3, Some(5))]);
    }

    #[test]
    fn a_heartbeat_that_could_not_be_read_has_no_pool() {
        let jobs = SidekiqObservation {
            processes: vec![process("a", 0, "push")],
            ..SidekiqObservation::default()
        };
        assert_eq!(services(&[], Some(&jobs), &BTreeMap::new()), Fact::NotAsked);
    }

    #[test]
    fn who_holds_connections_tells_its_pool_and_its_threads() {
        let client = |service: &str, pool| ClientProcess {
            service: service.to_owned(),
            pid: 7,
            pool,
            threads: Some(16),
        };
        let clients = [
            client("web", Some(5)),
            client("web", Some(5)),
            client("sidekiq", Some(9)),
            client("cron", None),
        ];
        let mut services = Fact::NotAsked;
        add_clients(&mut services, &clients);
        let web = ConnectionPools { threads: Some(16), ..service("web", 2, 5, "DB_POOL=") };
        assert_eq!(services, Fact::Known(vec![web.clone()]));
        let mut given = Fact::Known(vec![service("web", 4, 6, "DB_POOL=")]);
        add_clients(&mut given, &clients);
        assert_eq!(given, Fact::Known(vec![ConnectionPools { processes: 4, pool: 6, ..web }]));
    }

    #[test]
    fn only_processes_of_this_machine_have_numbers_here() {
        let local = BTreeMap::from([("c".to_owned(), 7)]);
        let expected = BTreeMap::from([(7, "sidekiq mailers".to_owned())]);
        assert_eq!(names(Some(&jobs()), &local), expected);
    }
}

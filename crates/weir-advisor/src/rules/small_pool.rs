//! A process has more threads than connections, so its threads wait for each other.

use crate::finding::{Finding, Severity};
use crate::observation::{ConnectionPools, Observation, POOL_VARIABLE};
use crate::wording;

pub(crate) const NAME: &str = "small-pool";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(services) = observation.services.known() else { return Vec::new() };
    let short =
        services.iter().filter_map(|it| Some((it, it.threads.filter(|all| *all > it.pool)?)));
    short.map(|(service, threads)| found(observation, services, service, threads)).collect()
}

fn found(
    observation: &Observation,
    services: &[ConnectionPools],
    service: &ConnectionPools,
    threads: u32,
) -> Finding {
    let pool = service.pool;
    let evidence = format!(
        "{threads} threads share a pool of {}",
        wording::number(pool, "connection", "connections")
    );
    let finding = Finding::new(NAME, Severity::Warning, service.name.as_str(), evidence).leads_to(
        "Threads wait for a connection from the pool of their process, and fail after some seconds \
         (ActiveRecord::ConnectionTimeoutError).",
    );
    if has_room(observation, services, service, threads) {
        finding.change_and_restart(
            format!("the environment of {} alone", service.name),
            format!("{POOL_VARIABLE}{threads}"),
        )
    } else {
        // A larger pool would exceed the database's limit.
        let line = wording::number(pool, "thread", "threads");
        let line = format!("{line} ({})", service.threads_set_by());
        finding.change_and_restart(format!("the command that starts {}", service.name), line)
    }
}

/// Reports whether the database has enough free connections, or a pooler accepts them.
fn has_room(
    observation: &Observation,
    services: &[ConnectionPools],
    service: &ConnectionPools,
    threads: u32,
) -> bool {
    let settings = observation.postgres.known().and_then(|it| it.settings.known());
    let Some(settings) = settings.filter(|_| observation.pooler.is_none()) else { return true };
    let sum = services.iter().map(ConnectionPools::connections).fold(0, u32::saturating_add);
    let more = service.processes.saturating_mul(threads.saturating_sub(service.pool));
    sum.saturating_add(more) <= settings.usable_connections()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, service};

    fn with(processes: u32, pool: u32, threads: Option<u32>) -> Observation {
        let mut observation = healthy::observation();
        let web = &mut observation.services.known_mut()[0];
        *web = ConnectionPools { threads, ..service("web", processes, pool, "DB_POOL=") };
        observation
    }

    #[test]
    fn threads_that_outnumber_their_pool_are_found_with_the_line() {
        let finding = check(&with(2, 5, Some(16))).remove(0);
        assert_eq!(finding.subject, "web");
        assert_eq!(finding.evidence, "16 threads share a pool of 5 connections");
        assert_eq!(finding.change.unwrap().line, "DB_POOL=16");
        assert_eq!(check(&with(2, 16, Some(16))), []);
        assert_eq!(check(&with(2, 5, None)), [], "nobody knows its threads");
    }

    #[test]
    fn where_the_database_has_no_room_there_are_fewer_threads() {
        let change = check(&with(20, 5, Some(16))).remove(0).change.unwrap();
        assert_eq!(change.line, "5 threads (MAX_THREADS)");
        assert_eq!(change.place, "the command that starts web");
    }

    #[test]
    fn a_pool_is_not_made_smaller_without_its_threads() {
        let service =
            ConnectionPools { threads: Some(25), ..service("sidekiq push", 1, 25, "DB_POOL=") };
        let line = "DB_POOL=20, and at most as many threads (-c or RAILS_MAX_THREADS)";
        assert_eq!(service.pool_line(20), line);
        let by_threads = ConnectionPools { set_by: "-c ".to_owned(), ..service };
        assert_eq!(by_threads.pool_line(20), "-c 20");
        assert_eq!(by_threads.place(), "the command line of sidekiq push");
    }
}

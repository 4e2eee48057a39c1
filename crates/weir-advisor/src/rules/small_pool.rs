//! A process has more threads than connections, so its threads wait for each other.

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{ConnectionPools, Observation, POOL_VARIABLE, RAILS_POOL_VARIABLE};
use crate::wording;

pub(crate) const NAME: &str = "small-pool";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(services) = observation.services.known() else { return Vec::new() };
    let short =
        services.iter().filter_map(|it| Some((it, it.threads.filter(|all| *all > it.pool)?)));
    let short = short.filter(|(service, _)| !holds_more(observation, service));
    short.map(|(service, threads)| found(observation, service, threads)).collect()
}

/// Reports whether a service has more sessions than a pool of Rails' variable allows: its
/// `database.yml` does not read it.
fn holds_more(observation: &Observation, service: &ConnectionPools) -> bool {
    let connections = observation.postgres.known().and_then(|it| it.connections.known());
    let sessions =
        connections.map(|it| it.sessions.iter().filter(|one| one.service == service.name));
    let held = sessions.map(|all| all.map(|it| it.count).fold(0, u32::saturating_add));
    service.set_by == RAILS_POOL_VARIABLE && held.is_some_and(|held| held > service.connections())
}

fn found(observation: &Observation, service: &ConnectionPools, threads: u32) -> Finding {
    let pool = service.pool;
    let by_rails = match service.set_by == RAILS_POOL_VARIABLE {
        true => format!(" ({RAILS_POOL_VARIABLE}{pool}, if config/database.yml reads it as usual)"),
        false => String::new(),
    };
    let evidence = format!(
        "{threads} threads share a pool of {}{by_rails}",
        wording::number(pool, "connection", "connections")
    );
    let finding = Finding::new(NAME, Severity::Warning, service.name.as_str(), evidence).leads_to(
        "If all threads use the database at once, some wait for a connection from the pool of their \
         process, and fail after some seconds (ActiveRecord::ConnectionTimeoutError).",
    );
    // In database.yml, the variable is that of the pool; a declared service has `DB_POOL`.
    let (variable, confidence) = match service.set_by == RAILS_POOL_VARIABLE {
        true => (RAILS_POOL_VARIABLE, Confidence::Likely),
        false => (POOL_VARIABLE, Confidence::Certain),
    };
    let finding = finding.with_confidence(confidence);
    match room(observation, service, threads) {
        Room::Enough(more) => finding
            .change_and_restart(
                format!("the environment of {} alone", service.name),
                format!("{variable}{threads}"),
            )
            .adds_connections(more),
        // A larger pool would exceed the database's limit. A process without threads would serve nothing.
        Room::TooLittle if pool > 0 => {
            let (place, line) = service.threads_line(pool);
            finding.change_and_restart(place, line)
        }
        Room::TooLittle => finding.next("weir plan"),
        Room::Unknown => finding.adding(format_args!(
            "No change is suggested: it is unknown whether the database has free \
                 connections for a larger pool ({variable}{threads}). {} no larger pool.",
            wording::number(pool, "thread needs", "threads need")
        )),
    }
}

/// Whether a larger pool fits the database.
enum Room {
    /// For this number of additional connections to the database.
    Enough(u32),
    TooLittle,
    Unknown,
}

/// Checks whether the database has enough free connections, or the service uses a pooler, which
/// accepts them.
fn room(observation: &Observation, service: &ConnectionPools, threads: u32) -> Room {
    let connections = observation.postgres.known().and_then(|it| it.connections.known());
    let is_direct = observation.is_direct(service);
    // Without sessions of either, it is unknown whether the service uses the pooler.
    if !is_direct && (connections.is_none() || observation.held_by_pooler() == 0) {
        return Room::Unknown;
    }
    if !is_direct {
        return Room::Enough(0);
    }
    let more = service.processes.saturating_mul(threads.saturating_sub(service.pool));
    match observation.free_slots() {
        Some(free) if more <= free => Room::Enough(more),
        Some(_) => Room::TooLittle,
        None => Room::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, service, sessions};
    use crate::observation::{Fact, Pooler, SessionState};

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
        assert_eq!(finding.line_change().unwrap().line, "DB_POOL=16");
        assert_eq!(check(&with(2, 16, Some(16))), []);
        assert_eq!(check(&with(2, 5, None)), [], "nobody knows its threads");
    }

    #[test]
    fn a_pool_that_rails_takes_from_the_variable_of_threads_is_found() {
        let mut observation = with(1, 5, Some(20));
        let service = &mut observation.services.known_mut()[0];
        "sidekiq push".clone_into(&mut service.name);
        RAILS_POOL_VARIABLE.clone_into(&mut service.set_by);
        let finding = check(&observation).remove(0);
        let expected = "20 threads share a pool of 5 connections (RAILS_MAX_THREADS=5, if \
                        config/database.yml reads it as usual)";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.line_change().unwrap().line, "RAILS_MAX_THREADS=20");
        observation.services.known_mut()[0].processes = 20;
        let change = check(&observation).remove(0).line_change().cloned().unwrap();
        assert_eq!(change.line, "-c 5", "which overrides the variable");
        assert_eq!(change.place, "the command line of sidekiq push");
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions.push(sessions("sidekiq push", SessionState::Idle, 101));
        assert_eq!(check(&observation), [], "20 pools of 5 could not hold 101");
    }

    #[test]
    fn where_the_database_has_no_room_there_are_fewer_threads() {
        let change = check(&with(20, 5, Some(16))).remove(0).line_change().cloned().unwrap();
        assert_eq!(change.line, "5 threads (MAX_THREADS)");
        assert_eq!(change.place, "the command that starts web");
    }

    #[test]
    fn a_pooler_makes_room_only_for_services_that_use_it() {
        let mut observation = with(20, 5, Some(16));
        observation.pooler = Some(Pooler {
            name: "pgbouncer".to_owned(),
            shown_by: "it runs".to_owned(),
            connections: Some(20),
            ..Pooler::default()
        });
        let change = check(&observation).remove(0).line_change().cloned().unwrap();
        assert_eq!(change.line, "5 threads (MAX_THREADS)", "web has sessions of its own");
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions.retain(|it| it.service != "web");
        assert_eq!(check(&observation).remove(0).line_change(), None, "neither has sessions");
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions.push(sessions("pgbouncer", SessionState::Idle, 3));
        assert_eq!(check(&observation).remove(0).line_change().unwrap().line, "DB_POOL=16");
        observation.postgres.known_mut().connections = Fact::NotAsked;
        let unknown = check(&observation).remove(0);
        assert_eq!(unknown.line_change(), None);
        let expected = "it is unknown whether the database has free connections for a larger pool \
                        (DB_POOL=16). 5 threads need no larger pool.";
        assert!(unknown.consequence.ends_with(expected), "{unknown:?}");
    }

    #[test]
    fn slots_that_others_hold_are_not_free() {
        let mut observation = with(2, 5, Some(16));
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions.push(sessions("psql", SessionState::Idle, 150));
        let change = check(&observation).remove(0).line_change().cloned().unwrap();
        assert_eq!(change.line, "5 threads (MAX_THREADS)", "22 more, and 15 of 185 are free");
    }

    #[test]
    fn a_pool_is_not_made_smaller_without_its_threads() {
        let service =
            ConnectionPools { threads: Some(25), ..service("sidekiq push", 1, 25, "DB_POOL=") };
        let line = "at most 20 threads (-c), and DB_POOL=20";
        assert_eq!(service.pool_line(20), line);
        let by_threads = ConnectionPools { set_by: "-c ".to_owned(), ..service };
        assert_eq!(by_threads.pool_line(20), "-c 20");
        assert_eq!(by_threads.place(), "the command line of sidekiq push");
    }
}

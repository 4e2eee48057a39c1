//! Errors whose class and message show the cause of failing jobs.

use std::time::Duration;

use crate::finding::{Confidence, Finding};
use crate::observation::{
    JobProcess, JobSample, Observation, POOL_TIMEOUT, SessionState, SidekiqObservation,
};
use crate::wording;

/// Processes that one deployment restarts start within this time.
const STARTS_APART: Duration = Duration::from_secs(60);

/// A cause that the error shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signature<'a> {
    /// The class of the jobs is not defined in the process that runs them.
    UnknownClass(&'a str),
    /// A statement was prepared on another connection of a pooler.
    PreparedStatement,
    /// Threads found no connection in the pool of their process.
    SmallPool,
}

/// Adds the cause and its remedy, if the most common error shows them.
pub(super) fn explained(
    finding: Finding,
    observation: &Observation,
    jobs: &SidekiqObservation,
) -> Finding {
    let sample = jobs.retries.sample.known().filter(|_| jobs.retries.size > 0);
    let Some(signature) = sample.and_then(signature) else { return finding };
    let finding = match receives_failures(jobs) {
        true => finding.with_confidence(Confidence::Likely),
        false => also(finding, MAY_BE_OLD).with_confidence(Confidence::Possible),
    };
    match signature {
        Signature::UnknownClass(class) => unknown_class(finding, jobs, class),
        Signature::PreparedStatement => prepared_statement(finding, observation),
        Signature::SmallPool => small_pool(finding, observation, jobs),
    }
}

/// Follows a cause that is taken from errors of the retry set.
const MAY_BE_OLD: &str = "The retry set did not grow between the samples, so that its errors may be older \
                          than the present ones: see Sidekiq's log first.";

/// Reports whether failed jobs entered the retry set between the samples, whose errors are then the
/// present ones.
fn receives_failures(jobs: &SidekiqObservation) -> bool {
    jobs.retries.flow.known().is_some_and(|flow| flow.after > flow.before)
}

/// Returns what the most common error of a sample shows.
fn signature(sample: &JobSample) -> Option<Signature<'_>> {
    let error = sample.most_common_error()?;
    let message = sample.error_messages.get(error).map(String::as_str).unwrap_or_default();
    let is_prepared = message.contains("prepared statement")
        && (message.contains("does not exist") || message.contains("already exists"));
    if is_prepared || ["PG::InvalidSqlStatementName", "PG::DuplicatePstatement"].contains(&error) {
        return Some(Signature::PreparedStatement);
    }
    if error == POOL_TIMEOUT {
        return Some(Signature::SmallPool);
    }
    let missing =
        message.strip_prefix("uninitialized constant ").filter(|_| error == "NameError")?;
    let missing = missing.split_whitespace().next()?;
    let class = sample.classes.iter().max_by_key(|share| share.count)?.name.as_str();
    let is_part = || class.strip_prefix(missing).is_some_and(|rest| rest.starts_with("::"));
    (class == missing || is_part()).then_some(Signature::UnknownClass(class))
}

fn also(finding: Finding, text: &str) -> Finding {
    let consequence = format!("{text} {}", finding.consequence);
    finding.leads_to(consequence)
}

fn unknown_class(finding: Finding, jobs: &SidekiqObservation, class: &str) -> Finding {
    let text = format!(
        "The missing constant is the class of the jobs: a process that takes them runs code without \
         {class}, an old release that was not restarted after the deployment, or another \
         application on the same Redis. Restart it with the present release{}. The retries succeed \
         then: do not delete them.",
        oldest(jobs)
    );
    also(finding, &text)
}

/// Names the process that most likely runs the old release: the only one, or one that was started
/// before all others that accept jobs.
fn oldest(jobs: &SidekiqObservation) -> String {
    let serving: Vec<&JobProcess> = jobs.serving().collect();
    if let [only] = serving.as_slice() {
        return format!(": {} is the only one that accepts jobs", only.identity);
    }
    let ages: Option<Vec<_>> = serving.iter().map(|it| Some((it.running_for?, *it))).collect();
    let mut ages = ages.unwrap_or_default();
    ages.sort_by_key(|(age, _)| std::cmp::Reverse(*age));
    match ages.as_slice() {
        [(oldest, process), (second, _), ..] if oldest.saturating_sub(*second) >= STARTS_APART => {
            let age = wording::duration(*oldest);
            format!(": most likely {}, which has been running for longest, {age}", process.identity)
        }
        _ => String::new(),
    }
}

fn prepared_statement(finding: Finding, observation: &Observation) -> Finding {
    let pools = observation.pgbouncer.known().map(|it| it.pools.as_slice()).unwrap_or_default();
    let pool = pools.iter().find(|pool| pool.mode != "session");
    let pooler = match pool {
        Some(pool) => format!(
            "PgBouncer's pool {}/{} has pool_mode = {}",
            pool.database, pool.user, pool.mode
        ),
        None => {
            "This is what a pooler such as PgBouncer with pool_mode = transaction causes".to_owned()
        }
    };
    let text = format!(
        "{pooler}: each transaction may get another connection, where the statements that \
         ActiveRecord has prepared do not exist, or are those of another client. Jobs may therefore \
         read wrong rows as well, which shows as other errors. Instead of the line, PgBouncer 1.21 \
         and later can keep them (max_prepared_statements = 200)."
    );
    also(finding, &text).change_and_restart(
        "config/database.yml of all processes behind the pooler",
        "prepared_statements: false",
    )
}

fn small_pool(finding: Finding, observation: &Observation, jobs: &SidekiqObservation) -> Finding {
    let threads = jobs.serving().map(JobProcess::concurrency).max().unwrap_or_default();
    let held = held(observation);
    let sessions = held.map(|held| {
        let sessions = wording::number(held, "session", "sessions");
        format!(", and Postgres has {sessions} of Sidekiq")
    });
    let text = format!(
        "Threads wait for a connection of the pool of their process and fail; more threads make it \
         worse. The largest process has {}{}.",
        wording::number(threads, "thread of Sidekiq", "threads of Sidekiq"),
        sessions.unwrap_or_default()
    );
    if held.is_some_and(|held| held >= jobs.threads()) {
        return also(also(finding, EXTRA_THREADS), &text);
    }
    let more = jobs.threads().saturating_sub(held.unwrap_or_default());
    let text = format!(
        "{text} If pool is already that number, do not change it: jobs then start threads of their \
         own, or do not return connections."
    );
    let finding = also(finding, &text);
    match observation.free_slots() {
        Some(free) if threads > 0 && more <= free => finding
            .change_and_restart(
                "config/database.yml, as Sidekiq reads it",
                format!("pool: {threads}"),
            )
            .adds_connections(more),
        _ => {
            let text = format!(
                "{} Set pool in config/database.yml to the number of threads if Postgres has room \
                 for {}, or run as many threads as the pool has connections (-c).",
                finding.consequence,
                wording::number(more, "more connection", "more connections")
            );
            finding.leads_to(text)
        }
    }
}

/// Follows the cause if each thread of Sidekiq can have a connection.
const EXTRA_THREADS: &str = "The pools have as many connections as Sidekiq has threads: jobs start \
                             threads of their own, or keep connections that they do not use. The jobs \
                             that fail may be others than those. Let jobs return a connection \
                             (with_connection), or make pool larger by the threads that they start.";

/// Returns the number of sessions that Sidekiq's processes hold, or `None` if none is known.
fn held(observation: &Observation) -> Option<u32> {
    let connections = observation.postgres.known()?.connections.known()?;
    let services = connections.services().into_iter();
    let states = [SessionState::Active, SessionState::Idle, SessionState::IdleInTransaction];
    let of = |service: &str| states.map(|state| connections.of(service, state)).iter().sum::<u32>();
    let held = services.filter(|it| crate::observation::is_sidekiq(it)).map(of).sum();
    (held > 0).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::LineChange;
    use crate::finding::Severity;
    use crate::flow::Flow;
    use crate::healthy::{self, sessions};
    use crate::observation::{ConnectionPool, Fact, PgBouncer, SampleShare};

    fn sample(error: &str, message: &str, class: &str) -> JobSample {
        let of = |name: &str| vec![SampleShare { name: name.to_owned(), count: 10 }];
        JobSample {
            size: 10,
            classes: of(class),
            errors: of(error),
            error_messages: [(error.to_owned(), message.to_owned())].into(),
            ..JobSample::default()
        }
    }

    fn failing(error: &str, message: &str, class: &str) -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.retries.size = 40;
        jobs.retries.sample = Fact::Known(sample(error, message, class));
        let window = Duration::from_secs(10);
        jobs.retries.flow = Fact::Known(Flow { window, before: 30, after: 40, ..Flow::default() });
        observation
    }

    fn finding(observation: &Observation) -> (String, Option<LineChange>) {
        let finding = Finding::new("failing-jobs", Severity::Warning, "Sidekiq", "");
        let found =
            explained(finding.leads_to("Fate."), observation, observation.jobs.known().unwrap());
        (found.consequence.clone(), found.line_change().cloned())
    }

    #[test]
    fn a_class_that_is_missing_shows_an_old_release() {
        let mut observation = failing("NameError", "uninitialized constant FeedV2", "FeedV2");
        let running = |observation: &mut Observation, seconds: [u64; 2]| {
            let processes = &mut observation.jobs.known_mut().processes;
            for (process, seconds) in processes.iter_mut().zip(seconds) {
                process.running_for = Some(Duration::from_secs(seconds));
            }
        };
        running(&mut observation, [59, 0]);
        let together = finding(&observation).0;
        assert!(together.contains("present release. The retries"), "{together}");
        running(&mut observation, [30, 7_200]);
        let (consequence, change) = finding(&observation);
        assert!(consequence.contains("runs code without FeedV2, an old release"), "{consequence}");
        let oldest = "most likely shop:2:0123456789ab, which has been running for longest, 2 h.";
        assert!(consequence.contains(oldest), "{consequence}");
        assert!(consequence.ends_with("do not delete them. Fate."), "{consequence}");
        assert_eq!(change, None);
        let part =
            failing("NameError", "uninitialized constant Feed Did you mean? Find", "Feed::V2");
        assert!(finding(&part).0.contains("without Feed::V2"));
        let other = failing("NameError", "uninitialized constant Helper", "FeedV2");
        assert_eq!(finding(&other).0, "Fate.", "the job's code uses another class");
    }

    #[test]
    fn a_prepared_statement_that_does_not_exist_shows_a_pooler() {
        let message =
            "PG::InvalidSqlStatementName: ERROR: prepared statement \"a8\" does not exist";
        let mut observation = failing("ActiveRecord::StatementInvalid", message, "Lookup");
        let (consequence, change) = finding(&observation);
        assert!(
            consequence.starts_with("This is what a pooler such as PgBouncer"),
            "{consequence}"
        );
        assert_eq!(change.unwrap().line, "prepared_statements: false");
        let pool = |mode: &str| ConnectionPool {
            database: "app".to_owned(),
            user: "shop".to_owned(),
            mode: mode.to_owned(),
            ..ConnectionPool::default()
        };
        let pools = vec![pool("session"), pool("transaction")];
        observation.pgbouncer = Fact::Known(PgBouncer { pools, ..PgBouncer::default() });
        let expected = "PgBouncer's pool app/shop has pool_mode = transaction: each transaction";
        assert!(finding(&observation).0.starts_with(expected));
        let other = failing("ActiveRecord::StatementInvalid", "PG::UndefinedTable", "Lookup");
        assert_eq!(finding(&other), ("Fate.".to_owned(), None));
    }

    #[test]
    fn a_pool_without_a_free_connection_gets_one_for_each_thread_if_the_database_has_room() {
        let mut observation = failing("ActiveRecord::ConnectionTimeoutError", "could not", "Sync");
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![sessions("sidekiq default", SessionState::Idle, 5)];
        let (consequence, change) = finding(&observation);
        let expected = "The largest process has 25 threads of Sidekiq, and Postgres has 5 sessions of Sidekiq.";
        assert!(consequence.contains(expected), "{consequence}");
        let change = change.unwrap();
        assert_eq!((change.line.as_str(), change.restart), ("pool: 25", true));
        let threads = observation.jobs.known_mut().threads();
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![sessions("sidekiq default", SessionState::Idle, threads)];
        let (consequence, change) = finding(&observation);
        assert_eq!(change, None, "each thread can have a connection");
        assert!(consequence.contains("start threads of their own"), "{consequence}");
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![sessions("sidekiq default", SessionState::Idle, 5)];
        connections.sessions.push(sessions("psql", SessionState::Idle, 180));
        let (consequence, change) = finding(&observation);
        assert_eq!(change, None);
        assert!(
            consequence.contains("if Postgres has room for 25 more connections"),
            "{consequence}"
        );
    }

    #[test]
    fn errors_of_a_retry_set_that_does_not_grow_may_be_old() {
        let mut observation = failing(POOL_TIMEOUT, "could not obtain a connection", "Sync");
        assert!(!finding(&observation).0.contains(MAY_BE_OLD));
        observation.jobs.known_mut().retries.flow.known_mut().before = 40;
        assert!(finding(&observation).0.contains(MAY_BE_OLD));
    }
}

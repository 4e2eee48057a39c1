//! Busy sessions of a real Postgres, by the class of jobs that a comment of their statement names.

use std::time::Duration;

use weir_observe::{
    JobSession, JobSessions, JobSessionsReader, PostgresEndpoint, PostgresLimits, PostgresSource,
};

use crate::postgres::SAMPLES_MAX;
use crate::postgres_server::PostgresServer;

fn reader(server: &PostgresServer, user: &str) -> JobSessionsReader {
    let endpoint = PostgresEndpoint::parse(&server.url(user)).unwrap();
    let limits = PostgresLimits::default();
    JobSessionsReader::new(PostgresSource { endpoint, limits, memory_bytes: None })
}

/// Reads until a sample shows what is expected.
async fn until(
    reader: &mut JobSessionsReader,
    what: &str,
    is_there: impl Fn(&JobSessions) -> bool,
) -> JobSessions {
    let mut last = JobSessions::default();
    for _ in 0..SAMPLES_MAX {
        last = reader.read().await.unwrap();
        if is_there(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}: {last:?}")
}

fn of<'a>(sessions: &'a JobSessions, class: &str) -> Vec<&'a JobSession> {
    sessions.sessions.iter().filter(|it| it.class.as_deref() == Some(class)).collect()
}

#[tokio::test]
async fn comments_name_the_class_and_waits_name_the_holder() {
    let Some(server) = PostgresServer::start(&["max_connections=30"]) else { return };
    server.run("CREATE TABLE accounts (id int)");
    server.run("INSERT INTO accounts VALUES (1)");
    let mut reader = reader(&server, "postgres");
    let idle = reader.read().await.unwrap();
    assert_eq!((idle.sessions.len(), idle.connections, idle.connections_max), (0, 1, 30));

    // Rails' query log tags: a session that is idle in its transaction keeps its lock.
    let mut holder = server.client("postgres", "worker");
    holder.say("BEGIN");
    holder.say("UPDATE accounts SET id = 1 /*application:Shop,job:Import::Nightly*/");
    // sqlcommenter, percent-encoded.
    let mut first = server.client("postgres", "worker");
    first.begin("UPDATE /*action='x',job_class='Admin%3A%3AMail'*/ accounts SET id = 1");
    let is_waiting = |it: &JobSessions| it.sessions.iter().any(|it| it.is_waiting);
    let blocked = until(&mut reader, "it waits", is_waiting).await;
    let holder_pid = of(&blocked, "Import::Nightly")[0].pid;
    let waiting = of(&blocked, "Admin%3A%3AMail");
    assert_eq!((waiting.len(), waiting[0].is_waiting, waiting[0].is_idle), (1, true, false));
    assert_eq!(waiting[0].blocked_by, [holder_pid]);

    let is_idle = |it: &JobSessions| of(it, "Import::Nightly").iter().any(|it| it.is_idle);
    until(&mut reader, "it is idle for long", is_idle).await;

    // Neither a comment about something else, nor a word in a statement.
    let mut others = Vec::new();
    for statement in [
        "SELECT /*controller:jobs,background_job:No*/ pg_sleep(60)",
        "SELECT pg_sleep(60), 'job:No'",
    ] {
        let mut other = server.client("postgres", "puma");
        other.begin(statement);
        others.push(other);
    }
    let all = until(&mut reader, "all are busy", |it| it.sessions.len() == 4).await;
    let unnamed = all.sessions.iter().filter(|it| it.class.is_none()).count();
    assert_eq!(unnamed, 2, "{all:?}");
    reader.close().await;
}

#[tokio::test]
async fn hidden_sessions_are_an_error_with_the_grant() {
    let Some(server) = PostgresServer::start(&[]) else { return };
    server.run("CREATE ROLE watcher LOGIN");
    let mut holder = server.client("postgres", "worker");
    holder.say("BEGIN");
    let mut reader = reader(&server, "watcher");
    let error = reader.read().await.unwrap_err();
    assert!(error.ends_with("GRANT pg_monitor TO watcher;"), "{error}");
    server.run("GRANT pg_monitor TO watcher");
    let seen = until(&mut reader, "it is seen", |it| it.sessions.len() == 1).await;
    assert_eq!(seen.sessions[0].class, None);
}

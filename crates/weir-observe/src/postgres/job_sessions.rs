//! Reads the busy sessions of a database, with the class of jobs that a comment of their statement names.
//!
//! Statements may contain user data, so they are not read: Postgres extracts the name from the comment itself.

use super::error::PostgresError;
use super::session::PostgresSession;
use super::{PostgresSource, missing};

/// Rails' query log tags (`/*job:Import*/`) and those of sqlcommenter (`/*job_class='Import'*/`). Without a backslash,
/// which `standard_conforming_strings = off` would interpret.
const COMMENT: &str = "/[*](?:[^*]*[^a-zA-Z_*])?(?:job|job_class|jobtype)(?::|=) ?''?([^'',*; ]+)";

/// Idle in a transaction counts as busy: such a session keeps its locks and its connection. The first part has one row,
/// so that there is one without busy sessions. `pg_blocking_pids` is called only for sessions that wait, because it
/// stops the lock manager for a moment.
const QUESTION: &str = "SELECT c.connections, c.connections_max, c.hidden, s.* FROM \
    (SELECT count(*) AS connections, current_setting('max_connections') AS connections_max, \
    count(*) FILTER (WHERE query = '<insufficient privilege>') AS hidden FROM pg_stat_activity \
    WHERE backend_type = 'client backend' OR (backend_type IS NULL AND usename IS NOT NULL)) c \
    LEFT JOIN (SELECT pid, left(substring(query from '$COMMENT'), 255) AS class, \
    left(application_name, 255) AS name, wait_event_type = 'Lock' AS waits, \
    state LIKE 'idle%' AND state_change < clock_timestamp() - interval '$IDLE s' AS idles, \
    CASE WHEN wait_event_type = 'Lock' THEN array_to_string(pg_blocking_pids(pid), ',') END AS blockers \
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' \
    AND state IN ('active', 'idle in transaction', 'idle in transaction (aborted)', 'fastpath function call') \
    LIMIT $MAX) s ON true";

/// Between two statements of a transaction a session is idle for a moment, which is part of its work. One that is idle for
/// longer waits for its program.
const IDLE_SECONDS: u32 = 1;

/// The busy sessions at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSessions {
    /// Sessions that are active or idle in a transaction.
    pub sessions: Vec<JobSession>,
    /// Connections that are open.
    pub connections: u32,
    /// `max_connections`.
    pub connections_max: u32,
}

/// A busy session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSession {
    /// Its process.
    pub pid: u32,
    /// The class of jobs that a comment of its last statement names.
    pub class: Option<String>,
    /// `application_name`.
    pub application_name: String,
    /// Whether it waits for a lock.
    pub is_waiting: bool,
    /// Whether it has been idle in its transaction for more than a second.
    pub is_idle: bool,
    /// The sessions that hold this lock, or wait for it in front of this one.
    pub blocked_by: Vec<u32>,
}

/// A database whose busy sessions are read again and again over one connection.
#[derive(Debug)]
pub struct JobSessionsReader {
    source: PostgresSource,
    session: Option<PostgresSession>,
}

impl JobSessionsReader {
    /// Creates a reader without connecting.
    #[must_use]
    pub fn new(source: PostgresSource) -> Self {
        Self { source, session: None }
    }

    /// Reads the present sessions. If the future is dropped, the connection is closed.
    ///
    /// # Errors
    /// The database cannot be reached, or hides the sessions of other users; with the remedy.
    pub async fn read(&mut self) -> Result<JobSessions, String> {
        let PostgresSource { endpoint, limits, .. } = &self.source;
        let mut session = match self.session.take() {
            Some(session) => session,
            None => PostgresSession::open(endpoint, limits)
                .await
                .map_err(|error| self.explain(&error))?,
        };
        let question = QUESTION.replace("$COMMENT", COMMENT);
        let question = question
            .replace("$MAX", &limits.sessions_max.to_string())
            .replace("$IDLE", &IDLE_SECONDS.to_string());
        let rows = session.query(&question).await.map_err(|error| self.explain(&error))?;
        let number = |name: &str| rows.first()?.get(name)?.parse::<u32>().ok();
        if number("hidden").unwrap_or_default() > 0 {
            let user = session.user().unwrap_or("the user of observe.postgres.url").to_owned();
            self.session = Some(session);
            return Err(format!(
                "the sessions of other users are hidden: GRANT pg_monitor TO {user};"
            ));
        }
        let sessions = JobSessions {
            sessions: rows.iter().filter_map(job_session).collect(),
            connections: number("connections").unwrap_or_default(),
            connections_max: number("connections_max").unwrap_or_default(),
        };
        self.session = Some(session);
        Ok(sessions)
    }

    /// Closes the connection.
    pub async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    fn explain(&self, error: &PostgresError) -> String {
        let missing = missing::unreachable(&self.source.endpoint, error);
        match missing.remedy {
            Some(remedy) => format!("{}: {} ({remedy})", missing.what, missing.reason),
            None => format!("{}: {}", missing.what, missing.reason),
        }
    }
}

fn job_session(row: &tokio_postgres::SimpleQueryRow) -> Option<JobSession> {
    let blockers = row.get("blockers").unwrap_or_default().split(',');
    Some(JobSession {
        pid: row.get("pid")?.parse().ok()?,
        class: row.get("class").map(str::to_owned),
        application_name: row.get("name").unwrap_or_default().to_owned(),
        is_waiting: row.get("waits") == Some("t"),
        is_idle: row.get("idles") == Some("t"),
        blocked_by: blockers.filter_map(|pid| pid.parse().ok()).collect(),
    })
}

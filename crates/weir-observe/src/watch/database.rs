//! Samples the application's database repeatedly.

use std::collections::BTreeMap;
use std::path::Path;

use weir_advisor::observation::{
    DatabaseObservation, Fact, Missing, MissingReason, SourceKind, SourceState,
};
use weir_base::clock::Clock;

use super::PollSchedule;
use super::retry::SourceRetry;
use crate::postgres::{self, Database, PostgresSource};

#[derive(Debug)]
pub(super) struct WatchedDatabase {
    source: PostgresSource,
    retry: SourceRetry,
    database: Option<Database>,
}

impl WatchedDatabase {
    pub(super) fn new(
        source: &PostgresSource,
        schedule: PollSchedule,
        random: fastrand::Rng,
    ) -> Self {
        let name = source.endpoint.to_string();
        let retry = SourceRetry::new(SourceKind::Postgres, name, schedule, random);
        Self { source: source.clone(), retry, database: None }
    }

    /// Takes a sample. `names` are services by local process ID.
    pub(super) async fn sample(
        &mut self,
        proc: Option<&Path>,
        names: &BTreeMap<u32, String>,
        schedule: PollSchedule,
        clock: &Clock,
    ) -> Fact<DatabaseObservation> {
        let began = clock.now();
        if let Some(missing) = self.retry.spared(began) {
            return Fact::Unknown(missing);
        }
        let queries_before = self.database.as_ref().map_or(0, Database::questions);
        let sampling = Self::once(self.database.take(), &self.source, proc, names);
        let (database, snapshot) = match tokio::time::timeout(schedule.sample_timeout, sampling)
            .await
        {
            Ok((database, snapshot)) => (Some(database), snapshot),
            Err(_) => (None, Fact::Unknown(postgres::late(&self.source, schedule.sample_timeout))),
        };
        let queries = database.as_ref().map_or(queries_before, Database::questions);
        self.retry.count(queries.saturating_sub(queries_before));
        let problem = problem(&snapshot);
        // A broken connection is dropped.
        self.database = database.filter(|_| problem.is_none());
        self.retry.note(began, clock.now(), problem);
        snapshot
    }

    async fn once(
        database: Option<Database>,
        source: &PostgresSource,
        proc: Option<&Path>,
        names: &BTreeMap<u32, String>,
    ) -> (Database, Fact<DatabaseObservation>) {
        let mut database = match database {
            Some(database) => database,
            None => Database::sample(source, proc).await,
        };
        let snapshot = database.sample_again(proc, names).await;
        (database, snapshot)
    }

    pub(super) async fn close(self: Box<Self>) {
        if let Some(database) = self.database {
            database.close().await;
        }
    }

    pub(super) const fn state(&self) -> &SourceState {
        self.retry.state()
    }
}

/// Returns the first timeout or connection error. Denied permissions and missing features do not
/// count.
fn problem(snapshot: &Fact<DatabaseObservation>) -> Option<Missing> {
    let Some(postgres) = snapshot.known() else { return snapshot.missing().cloned() };
    let parts = [
        postgres.settings.missing(),
        postgres.connections.missing(),
        postgres.cache_hit_ratio.missing(),
        postgres.lock_waits.missing(),
        postgres.statements.missing(),
        postgres.replication.missing(),
    ];
    let unreachable = |missing: &&Missing| missing.obstacle == MissingReason::Unreachable;
    parts.into_iter().flatten().find(unreachable).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(obstacle: MissingReason) -> Missing {
        Missing { what: "x".to_owned(), obstacle, reason: String::new(), remedy: None }
    }

    #[test]
    fn a_refusal_is_an_answer_and_silence_is_none() {
        let with = |obstacle| {
            let lock_waits = Fact::Unknown(missing(obstacle));
            problem(&Fact::Known(DatabaseObservation {
                lock_waits,
                ..DatabaseObservation::default()
            }))
        };
        assert_eq!(with(MissingReason::NotAllowed), None);
        assert_eq!(with(MissingReason::NotSupported), None);
        assert_eq!(with(MissingReason::Unreachable), Some(missing(MissingReason::Unreachable)));
        let full = Fact::Unknown(missing(MissingReason::SlotsExhausted));
        assert_eq!(problem(&full), Some(missing(MissingReason::SlotsExhausted)));
    }
}

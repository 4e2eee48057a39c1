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
    patience: SourceRetry,
    held: Option<Database>,
}

impl WatchedDatabase {
    pub(super) fn new(source: &PostgresSource, pace: PollSchedule, random: fastrand::Rng) -> Self {
        let name = source.endpoint.to_string();
        let patience = SourceRetry::new(SourceKind::Postgres, name, pace, random);
        Self { source: source.clone(), patience, held: None }
    }

    /// Takes a sample. `names` are services by local process ID.
    pub(super) async fn sample(
        &mut self,
        proc: Option<&Path>,
        names: &BTreeMap<u32, String>,
        pace: PollSchedule,
        clock: &Clock,
    ) -> Fact<DatabaseObservation> {
        let began = clock.now();
        if let Some(missing) = self.patience.spared(began) {
            return Fact::Unknown(missing);
        }
        let asked_before = self.held.as_ref().map_or(0, Database::questions);
        let looking = Self::once(self.held.take(), &self.source, proc, names);
        let (held, seen) = match tokio::time::timeout(pace.look_timeout, looking).await {
            Ok((database, seen)) => (Some(database), seen),
            Err(_) => (None, Fact::Unknown(postgres::late(&self.source, pace.look_timeout))),
        };
        let asked = held.as_ref().map_or(asked_before, Database::questions);
        self.patience.count(asked.saturating_sub(asked_before));
        let problem = problem(&seen);
        // A broken connection is dropped.
        self.held = held.filter(|_| problem.is_none());
        self.patience.note(began, clock.now(), problem);
        seen
    }

    async fn once(
        held: Option<Database>,
        source: &PostgresSource,
        proc: Option<&Path>,
        names: &BTreeMap<u32, String>,
    ) -> (Database, Fact<DatabaseObservation>) {
        let mut database = match held {
            Some(database) => database,
            None => Database::sample(source, proc).await,
        };
        let seen = database.sample_again(proc, names).await;
        (database, seen)
    }

    pub(super) async fn close(self: Box<Self>) {
        if let Some(held) = self.held {
            held.close().await;
        }
    }

    pub(super) const fn state(&self) -> &SourceState {
        self.patience.state()
    }
}

/// Returns the first timeout or connection error. Denied permissions and missing features do not
/// count.
fn problem(seen: &Fact<DatabaseObservation>) -> Option<Missing> {
    let Some(postgres) = seen.known() else { return seen.missing().cloned() };
    let parts = [
        postgres.settings.missing(),
        postgres.connections.missing(),
        postgres.cache_hit_ratio.missing(),
        postgres.lock_waits.missing(),
        postgres.statements.missing(),
        postgres.replication.missing(),
    ];
    let away = |missing: &&Missing| missing.obstacle == MissingReason::Unreachable;
    parts.into_iter().flatten().find(away).cloned()
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

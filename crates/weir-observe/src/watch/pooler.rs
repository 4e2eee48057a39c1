//! Samples the PgBouncer in front of the database repeatedly.

use weir_advisor::observation::{Fact, PgBouncer, SourceKind, SourceState};
use weir_base::clock::Clock;

use super::PollSchedule;
use super::retry::SourceRetry;
use crate::pgbouncer::{self, PgBouncerSource, QUESTIONS};
use crate::postgres::PostgresConnection;

#[derive(Debug)]
pub(super) struct WatchedPooler {
    source: PgBouncerSource,
    retry: SourceRetry,
    connection: Option<PostgresConnection>,
}

impl WatchedPooler {
    pub(super) fn new(
        source: &PgBouncerSource,
        schedule: PollSchedule,
        random: fastrand::Rng,
    ) -> Self {
        let name = source.endpoint.to_string();
        let retry = SourceRetry::new(SourceKind::PgBouncer, name, schedule, random);
        Self { source: source.clone(), retry, connection: None }
    }

    pub(super) async fn sample(
        &mut self,
        schedule: PollSchedule,
        clock: &Clock,
    ) -> Fact<PgBouncer> {
        let began = clock.now();
        if let Some(missing) = self.retry.spared(began) {
            return Fact::Unknown(missing);
        }
        let sampling = pgbouncer::sample(&self.source, self.connection.take());
        let (connection, snapshot) =
            tokio::time::timeout(schedule.sample_timeout, sampling).await.unwrap_or_else(|_| {
                (None, Fact::Unknown(pgbouncer::late(&self.source, schedule.sample_timeout)))
            });
        self.connection = connection;
        self.retry.count(if snapshot.known().is_some() { QUESTIONS } else { 0 });
        self.retry.note(began, clock.now(), snapshot.missing().cloned());
        snapshot
    }

    pub(super) async fn close(self: Box<Self>) {
        if let Some(connection) = self.connection {
            connection.close().await;
        }
    }

    pub(super) const fn state(&self) -> &SourceState {
        self.retry.state()
    }
}

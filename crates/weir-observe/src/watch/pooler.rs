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
    patience: SourceRetry,
    held: Option<PostgresConnection>,
}

impl WatchedPooler {
    pub(super) fn new(source: &PgBouncerSource, pace: PollSchedule, random: fastrand::Rng) -> Self {
        let name = source.endpoint.to_string();
        let patience = SourceRetry::new(SourceKind::PgBouncer, name, pace, random);
        Self { source: source.clone(), patience, held: None }
    }

    pub(super) async fn sample(&mut self, pace: PollSchedule, clock: &Clock) -> Fact<PgBouncer> {
        let began = clock.now();
        if let Some(missing) = self.patience.spared(began) {
            return Fact::Unknown(missing);
        }
        let looking = pgbouncer::sample(&self.source, self.held.take());
        let (held, seen) =
            tokio::time::timeout(pace.look_timeout, looking).await.unwrap_or_else(|_| {
                (None, Fact::Unknown(pgbouncer::late(&self.source, pace.look_timeout)))
            });
        self.held = held;
        self.patience.count(if seen.known().is_some() { QUESTIONS } else { 0 });
        self.patience.note(began, clock.now(), seen.missing().cloned());
        seen
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

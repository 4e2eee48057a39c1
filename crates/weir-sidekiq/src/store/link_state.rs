//! What a link knows: its present connection, or since when and why there is none.
//!
//! Each connection has a number. What an old connection reports late does not end a newer one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::Instant;
use weir_redis::NamedPrimary;

/// The first wait before another attempt to connect. Each further one is twice as long.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(50);

/// Shared by a link and its connections.
#[derive(Debug)]
pub(super) struct LinkState {
    /// Address of the Redis.
    name: String,
    command_timeout: Duration,
    retry_wait_max: Duration,
    /// Whether each step may use the keys of one slot only. Once it is so, it stays.
    is_split: AtomicBool,
    /// Connections are used by futures that may move between threads, so it is std's. Held for
    /// moments, never across an await.
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u64,
    connection: Option<MultiplexedConnection>,
    /// The server that Sentinels named, if they did.
    primary: Option<NamedPrimary>,
    absence: Option<RedisAbsence>,
}

#[derive(Clone, Debug)]
struct RedisAbsence {
    since: Instant,
    retry_at: Instant,
    wait: Duration,
    reason: String,
}

impl LinkState {
    pub(super) fn new(name: String, command_timeout: Duration, retry_wait_max: Duration) -> Self {
        let (is_split, slot) = (AtomicBool::new(false), Mutex::default());
        Self { name, command_timeout, retry_wait_max, is_split, slot }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn command_timeout(&self) -> Duration {
        self.command_timeout
    }

    pub(super) fn is_split(&self) -> bool {
        self.is_split.load(Ordering::Relaxed)
    }

    /// Notes that each step may use the keys of one slot only.
    pub(super) fn split(&self) {
        self.is_split.store(true, Ordering::Relaxed);
    }

    pub(super) const fn retry_wait_max(&self) -> Duration {
        self.retry_wait_max
    }

    /// Returns the connection with its number.
    pub(super) fn present(&self) -> Option<(MultiplexedConnection, u64)> {
        let slot = self.slot();
        slot.connection.clone().map(|connection| (connection, slot.generation))
    }

    /// Returns the server that Sentinels named, with the number of its connection.
    pub(super) fn primary(&self) -> Option<(NamedPrimary, u64)> {
        let slot = self.slot();
        slot.connection.as_ref()?;
        slot.primary.clone().map(|primary| (primary, slot.generation))
    }

    /// Keeps a new connection. Returns its number.
    pub(super) fn opened(
        &self,
        connection: MultiplexedConnection,
        primary: Option<NamedPrimary>,
    ) -> u64 {
        let mut slot = self.slot();
        slot.generation += 1;
        slot.connection = Some(connection);
        slot.primary = primary;
        if let Some(absence) = slot.absence.take() {
            let seconds = absence.since.elapsed().as_secs();
            tracing::info!(redis = %self.name, seconds, "jobs in Redis can be used again");
        }
        slot.generation
    }

    /// Ends the connection with this number, unless it was replaced already.
    pub(super) fn broke(&self, generation: u64, reason: String) {
        let mut slot = self.slot();
        if slot.generation == generation && slot.connection.take().is_some() {
            self.note_absence(&mut slot, reason);
        }
    }

    /// Notes that the server was reached, without a connection to keep.
    pub(super) fn reached(&self) {
        self.slot().absence = None;
    }

    /// Notes an attempt to connect that failed. Returns the text for clients.
    pub(super) fn not_opened(&self, reason: String) -> String {
        let mut slot = self.slot();
        self.note_absence(&mut slot, reason);
        slot.absence.as_ref().map(|absence| self.text_of(absence)).unwrap_or_default()
    }

    fn note_absence(&self, slot: &mut Slot, reason: String) {
        let previous = slot.absence.take();
        if previous.as_ref().is_none_or(|previous| previous.reason != reason) {
            tracing::warn!(redis = %self.name, reason, "jobs in Redis can't be used; trying again");
        }
        let last = previous.as_ref().map_or(RETRY_WAIT_MIN, |absence| absence.wait * 2);
        let wait = last.min(self.retry_wait_max);
        let now = Instant::now();
        slot.absence = Some(RedisAbsence {
            since: previous.map_or(now, |absence| absence.since),
            // Nodes that lost the same Redis do not return at the same moment.
            retry_at: now + wait.mul_f64(0.5 + fastrand::f64() / 2.0),
            wait,
            reason,
        });
    }

    /// Returns why there is no connection, or `None` if there is one or none was needed yet.
    pub(super) fn absence_text(&self) -> Option<String> {
        self.slot().absence.as_ref().map(|absence| self.text_of(absence))
    }

    /// Returns for how long there has been no connection, or `None` as above.
    pub(super) fn absence_lasts(&self) -> Option<Duration> {
        self.slot().absence.as_ref().map(|absence| absence.since.elapsed())
    }

    /// Returns the same text while it is too early for another attempt to connect.
    pub(super) fn absence_text_before_retry(&self) -> Option<String> {
        let slot = self.slot();
        let absence = slot.absence.as_ref().filter(|it| Instant::now() < it.retry_at);
        absence.map(|absence| self.text_of(absence))
    }

    fn text_of(&self, absence: &RedisAbsence) -> String {
        let seconds = absence.since.elapsed().as_secs();
        format!("Redis {} can't be used since {seconds} s: {}", self.name, absence.reason)
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_their_maximum_and_only_one_attempt_is_made_after_each() {
        let max = Duration::from_millis(300);
        let state = LinkState::new("a:1".to_owned(), Duration::from_secs(1), max);
        assert_eq!(state.absence_text(), None);
        let mut waits = Vec::new();
        for _ in 0..6 {
            let text = state.not_opened("it is away".to_owned());
            assert!(text.contains("a:1 can't be used since") && text.contains("away"), "{text}");
            let failed = Instant::now();
            while state.absence_text_before_retry().is_some() {
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            waits.push(failed.elapsed());
        }
        assert!(waits[0] >= RETRY_WAIT_MIN / 2 && waits[0] <= RETRY_WAIT_MIN * 2, "{waits:?}");
        assert!(waits[5] >= max / 2 && waits[5] <= max + RETRY_WAIT_MIN, "{waits:?}");
    }
}

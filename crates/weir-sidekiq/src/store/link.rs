//! The connection to a Redis that comes and goes.
//!
//! All commands share one connection, which sends them in the order in which they were given. After
//! an error of the connection the next command opens another one. While that fails, commands fail
//! at once, and only one command after each wait tries again.

use std::cell::RefCell;
use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use tokio::time::Instant;
use weir_jobs::store::StoreError;

use crate::connection::RedisConnection;
use crate::endpoint::RedisEndpoint;
use crate::limits::SampleLimits;

/// The first wait before another attempt to connect. Each further one is twice as long.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(50);

/// The connection, or since when there is none.
#[derive(Debug)]
pub(super) struct RedisLink {
    endpoint: RedisEndpoint,
    limits: SampleLimits,
    retry_wait_max: Duration,
    connection: RefCell<Option<MultiplexedConnection>>,
    absence: RefCell<Option<RedisAbsence>>,
    /// Held while a connection is opened, so that many commands open one. Across awaits, so tokio's.
    opening: Mutex<()>,
}

#[derive(Clone, Debug)]
struct RedisAbsence {
    since: Instant,
    retry_at: Instant,
    wait: Duration,
    reason: String,
}

impl RedisLink {
    pub(super) fn new(
        endpoint: RedisEndpoint,
        connect_timeout: Duration,
        command_timeout: Duration,
        retry_wait_max: Duration,
    ) -> Self {
        let limits = SampleLimits {
            connect_timeout,
            answer_timeout: command_timeout,
            ..SampleLimits::default()
        };
        Self {
            endpoint,
            limits,
            retry_wait_max,
            connection: RefCell::default(),
            absence: RefCell::default(),
            opening: Mutex::default(),
        }
    }

    /// Returns the connection, opening one if there is none and it is time for another attempt.
    pub(super) async fn connection(&self) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = self.connection.borrow().clone() {
            return Ok(connection);
        }
        let _guard = self.opening.lock().await;
        if let Some(connection) = self.connection.borrow().clone() {
            return Ok(connection);
        }
        if let Some(text) = self.absence_text_before_retry() {
            return Err(StoreError::Unavailable(text));
        }
        match RedisConnection::open(&self.endpoint, &self.limits).await {
            Ok(mut opened) => {
                let connection = opened.inner().clone();
                *self.connection.borrow_mut() = Some(connection.clone());
                *self.absence.borrow_mut() = None;
                Ok(connection)
            }
            Err(error) => Err(self.lost(error.to_string())),
        }
    }

    /// Returns the error for clients. Drops the connection if it is broken.
    pub(super) fn failed(&self, error: &RedisError) -> StoreError {
        let text = error.to_string();
        if error.code() == Some("OOM") {
            return StoreError::Full(format!(
                "Redis {} is full (maxmemory): job not stored; free memory there, pushes resume \
                 by themselves",
                self.endpoint
            ));
        }
        if error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() {
            return self.lost(text);
        }
        StoreError::Unavailable(format!("Redis {}: {text}", self.endpoint))
    }

    /// Returns why there is no connection, or `None` if there is one or none was needed yet.
    pub(super) fn absence_text(&self) -> Option<String> {
        self.absence.borrow().as_ref().map(|absence| self.text_of(absence))
    }

    fn absence_text_before_retry(&self) -> Option<String> {
        let absence = self.absence.borrow();
        absence.as_ref().filter(|it| now() < it.retry_at).map(|it| self.text_of(it))
    }

    fn text_of(&self, absence: &RedisAbsence) -> String {
        let seconds = absence.since.elapsed().as_secs();
        let RedisAbsence { reason, .. } = absence;
        format!("Redis {} can't be used since {seconds} s: {reason}", self.endpoint)
    }

    /// Drops the connection. Returns the error for clients.
    pub(super) fn lost(&self, reason: String) -> StoreError {
        *self.connection.borrow_mut() = None;
        let mut absence = self.absence.borrow_mut();
        let last = absence.as_ref().map_or(RETRY_WAIT_MIN, |absence| absence.wait * 2);
        let wait = last.min(self.retry_wait_max);
        let since = absence.as_ref().map_or_else(now, |absence| absence.since);
        let absence = absence.insert(RedisAbsence {
            since,
            retry_at: now() + wait.mul_f64(0.5 + fastrand::f64() / 2.0),
            wait,
            reason,
        });
        StoreError::Unavailable(self.text_of(absence))
    }
}

fn now() -> Instant {
    Instant::now()
}

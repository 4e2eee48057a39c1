//! Limits of apps' connections over all nodes: each node gets a part of each limit, which it renews with its
//! heartbeat, and sooner if it needs more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Pipeline, RedisResult};
use tokio::sync::Notify;
use tokio::time::Instant;
use weir_realtime::hub::Hub;
use weir_realtime::shared_log::ConnectionGrant;

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::rejections::unless_rejected;
use crate::scripts;

/// Apps whose parts are exchanged in one round trip.
const APPS_MAX: usize = 256;
/// The shortest time between two exchanges, however many connections arrive.
const INTERVAL: Duration = Duration::from_millis(20);

/// Whether an exchange is requested.
#[derive(Debug, Default)]
pub(crate) struct ConnectionShares {
    is_requested: AtomicBool,
    requested: Notify,
    /// Whether Redis rejects the exchange.
    is_rejected: AtomicBool,
}

impl ConnectionShares {
    /// Requests an exchange.
    pub(crate) fn request(&self) {
        if !self.is_requested.swap(true, Ordering::SeqCst) {
            self.requested.notify_one();
        }
    }

    /// Notes whether Redis rejects the exchange. Returns whether that is news.
    pub(crate) fn note_rejected(&self, is_rejected: bool) -> bool {
        self.is_rejected.swap(is_rejected, Ordering::Relaxed) != is_rejected
    }

    /// Waits until an exchange is requested, and the last one was not just now.
    pub(crate) async fn due(&self, last: Instant) {
        while !self.is_requested.load(Ordering::SeqCst) {
            self.requested.notified().await;
        }
        tokio::time::sleep_until(last + INTERVAL).await;
    }

    /// Exchanges what this node uses of the apps' limits for what it may use. `node` is its identity, and
    /// `earlier` has its earlier ones.
    pub(crate) async fn exchange(
        &self,
        keys: &Keys,
        hub: &Hub,
        (node, earlier): (&str, &[Arc<str>]),
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        self.is_requested.store(false, Ordering::SeqCst);
        for uses in hub.begin_connection_exchange().chunks(APPS_MAX) {
            let mut pipeline = Pipeline::with_capacity(uses.len());
            for used in uses {
                let command = scripts::share_connections(keys, (node, earlier), used);
                pipeline.add_command(command);
            }
            let replies = unless_rejected(pipeline.query_async(connection).await)?;
            let Some(replies): Option<Vec<(usize, usize, usize)>> = replies else {
                // What was given back stays so; the next heartbeat asks again.
                return Ok(());
            };
            for (used, (granted, spare, others)) in uses.iter().zip(replies) {
                hub.grant_connections(&used.app, ConnectionGrant { granted, spare, others });
                if granted > used.connections + spare {
                    // More than this node should keep, since another one has come: given back now.
                    self.request();
                }
            }
        }
        Ok(())
    }
}

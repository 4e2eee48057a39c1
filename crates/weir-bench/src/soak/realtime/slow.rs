//! A client that subscribes to all channels and does not read.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::channel::Channel;
use super::connection::Connection;
use crate::clock::monotonic;
use crate::realtime::codec::SubscribeRequest;
use crate::soak::shared::{Shared, count};

/// How long it does not read. Its queue is full before that.
const NOT_READING: Duration = Duration::from_secs(20);
/// What it reads afterwards, to learn why its connection was closed.
const READING: Duration = Duration::from_secs(5);
const RECEIVE_BUFFER_BYTES: usize = 4_096;
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// Connects again and again, until `deadline` or the end of the load.
pub(in crate::soak) fn run(
    shared: &Arc<Shared>,
    channels: &[Arc<Channel>],
    node: usize,
    deadline: Option<Duration>,
) {
    let is_due = || deadline.is_some_and(|deadline| monotonic() >= deadline);
    let mut node = node;
    while !shared.is_load_over() && !is_due() {
        if is_closed_as_slow(shared, channels, node, deadline) {
            count(&shared.counts.slow_closed);
        }
        node += 1;
        shared.sleep(RECONNECT_AFTER);
    }
}

/// Errors of such a client are no errors of Weir.
fn is_closed_as_slow(
    shared: &Shared,
    channels: &[Arc<Channel>],
    node: usize,
    deadline: Option<Duration>,
) -> bool {
    let Ok(mut connection) = open(shared, channels, node) else {
        return false;
    };
    count(&shared.counts.slow_connections);
    let left = deadline.map_or(NOT_READING, |deadline| deadline.saturating_sub(monotonic()));
    shared.sleep(left.min(NOT_READING));
    let end = monotonic() + READING;
    while monotonic() < end {
        if let Err(error) = connection.next() {
            return error.to_string().contains("4100");
        }
    }
    false
}

fn open(shared: &Shared, channels: &[Arc<Channel>], node: usize) -> Result<Connection> {
    // All channels of one app: a connection belongs to one.
    let app = &channels[node % channels.len()].app;
    let mut connection = Connection::open(shared.node(node).front, app)?;
    connection.shrink_receive_buffer(RECEIVE_BUFFER_BYTES)?;
    let socket_id = connection.socket_id();
    for channel in channels.iter().filter(|channel| channel.app.key == app.key) {
        let request = SubscribeRequest {
            channel: &channel.name,
            socket_id: &socket_id,
            member: None,
            member_changes: false,
            recover: None,
        };
        connection.subscribe(app, &request)?;
    }
    Ok(connection)
}

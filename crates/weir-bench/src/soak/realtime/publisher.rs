//! Publishes numbered events in one channel, one after the other. An event without a response is not published again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::channel::Channel;
use crate::clock::{monotonic, unix_seconds};
use crate::realtime::pusher;
use crate::realtime::target::App;
use crate::soak::http_connection::{HttpConnection, Repetition};
use crate::soak::journal::Part;
use crate::soak::pace::Pace;
use crate::soak::shared::{Endpoints, Shared};

/// Bytes of an event, so that clients that do not read fill their queues within a fault's time.
const DATA_BYTES: usize = 600;
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Publishes until the load is over, and then until one more event is acknowledged: the last one.
pub(in crate::soak) fn run(shared: &Arc<Shared>, channel: &Channel, place: usize, rate: f64) {
    let mut publisher = Publisher::new(shared, channel, place);
    let mut pace = Pace::per_second(rate);
    while pace.wait(shared) {
        publisher.publish();
    }
    while !shared.is_over() {
        let (number, is_acknowledged) = publisher.publish();
        if is_acknowledged {
            channel.close(number);
            return;
        }
    }
}

#[derive(Debug)]
struct Publisher<'a> {
    shared: &'a Shared,
    channel: &'a Channel,
    node: usize,
    connection: HttpConnection,
}

impl<'a> Publisher<'a> {
    fn new(shared: &'a Shared, channel: &'a Channel, node: usize) -> Self {
        let connection = HttpConnection::new(shared.node(node).front);
        Self { shared, channel, node, connection }
    }

    /// Returns the number of the event and whether it was acknowledged.
    fn publish(&mut self) -> (u64, bool) {
        let (began, number) = (monotonic(), self.channel.begin());
        let data = format!("{number} {}", "x".repeat(DATA_BYTES));
        let address = self.shared.node(self.node).front;
        let outcome = send(&mut self.connection, address, self.channel, &data);
        self.channel.end(number, outcome.is_ok());
        if let Err(error) = &outcome {
            let node = self.node % self.shared.nodes.len();
            let text = format!("publishing in {} at node {node}: {error:#}", self.channel.name);
            self.shared.journal.record(Part::Realtime, began, text);
            self.node += 1;
            self.connection.move_to(self.shared.node(self.node).front);
            self.shared.sleep(RETRY_AFTER);
        }
        (number, outcome.is_ok())
    }
}

fn send(
    connection: &mut HttpConnection,
    address: std::net::SocketAddr,
    channel: &Channel,
    data: &str,
) -> Result<()> {
    send_request(connection, address, &channel.app, &channel.name, data)
}

fn send_request(
    connection: &mut HttpConnection,
    address: std::net::SocketAddr,
    app: &App,
    channel: &str,
    data: &str,
) -> Result<()> {
    let request = pusher::publish_request(app, &address.to_string(), channel, data, unix_seconds());
    let response = connection.send(&request, Repetition::Forbidden)?;
    let (status, body) = (response.status, String::from_utf8_lossy(&response.body).into_owned());
    ensure!(status == 200, "status {status}: {}", body.trim());
    Ok(())
}

/// Publishes one event in a channel without subscribers, to see whether a node works.
pub(in crate::soak) fn publish_once(node: Endpoints, app: &App) -> Result<()> {
    let mut connection = HttpConnection::new(node.front);
    send_request(&mut connection, node.front, app, "soak-probe", "0")
}

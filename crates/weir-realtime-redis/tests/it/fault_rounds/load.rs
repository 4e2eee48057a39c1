//! Nodes that publish, and clients that record what they receive.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use weir_realtime::pusher::server_message::GAP;
use weir_realtime::shared_log::AppendError;
use weir_realtime::view::EventView;
use weir_redis::RedisEndpoint;

use crate::rig::{Node, Viewer};

pub(super) const CHANNELS: [&str; 4] = ["c0", "c1", "c2", "c3"];
/// Of each channel at each node.
const CLIENTS: usize = 2;
/// Events of a publisher per channel begin with its place.
pub(super) const NODE_STEP: u64 = 1_000_000;
/// The last event of each channel.
pub(super) const END: u64 = u64::MAX;
/// Longer than any fault.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Between two events of a publisher.
const INTERVAL: Duration = Duration::from_millis(20);

/// A node with threads of its own, so that it can end without a word.
pub(super) struct FleetNode {
    pub(super) node: Node,
    runtime: Option<Runtime>,
}

impl FleetNode {
    fn start(endpoint: RedisEndpoint) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _guard = runtime.enter();
        Self { node: Node::start_at(endpoint), runtime: Some(runtime) }
    }

    /// Ends everything that it does. Its connections are closed.
    pub(super) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for FleetNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a client of a channel has received, in order.
pub(super) struct ClientLog {
    pub(super) channel: &'static str,
    pub(super) seen: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    Event { number: u64, at: Instant },
    Gap,
}

impl ClientLog {
    /// Notes what has arrived, except numbers of subscriptions. Returns whether it was the last event.
    pub(super) fn note(&mut self, event: &str, data: &str) -> bool {
        if event == GAP {
            self.note_gap();
        }
        if event != "e" {
            return false;
        }
        let number = data.parse().expect("a number");
        self.seen.push(Seen::Event { number, at: Instant::now() });
        number == END
    }

    pub(super) fn note_gap(&mut self) {
        self.seen.push(Seen::Gap);
    }
}

/// A client of a node.
pub(super) struct Recorder {
    viewer: Viewer,
    pub(super) log: ClientLog,
    /// Of the last event.
    pub(super) offset: Option<u64>,
}

impl Recorder {
    pub(super) async fn read_to_end(&mut self) {
        loop {
            let event = self.viewer.next_within(WAIT_MAX).await;
            if self.note(&event) {
                return;
            }
        }
    }

    /// Reads what has arrived already.
    pub(super) fn read_arrived(&mut self) {
        while let Some(event) = self.viewer.next_within(WAIT_MAX).now_or_never() {
            self.note(&event);
        }
    }

    fn note(&mut self, event: &EventView) -> bool {
        self.offset = event.offset.or(self.offset);
        self.log.note(&event.event, &event.data)
    }
}

pub(super) async fn start_nodes(endpoint: &RedisEndpoint, count: usize) -> Vec<FleetNode> {
    let nodes: Vec<_> = (0..count).map(|_| FleetNode::start(endpoint.clone())).collect();
    for node in &nodes {
        node.node.publish("first", 0).await;
    }
    nodes
}

/// Returns clients of all channels at these nodes.
pub(super) async fn recorders(nodes: &[FleetNode]) -> Vec<Recorder> {
    let mut recorders = Vec::new();
    for FleetNode { node, .. } in nodes {
        for channel in CHANNELS {
            for _ in 0..CLIENTS {
                let log = ClientLog { channel, seen: Vec::new() };
                recorders.push(Recorder { viewer: node.watch(channel).await, log, offset: None });
            }
        }
    }
    recorders
}

/// Events that were acknowledged, by channel and number, and when.
pub(super) type Acknowledged = HashMap<(&'static str, u64), Instant>;

/// Publishes through all nodes until the fault is over, and ends each channel then.
pub(super) async fn run(nodes: &[FleetNode], fault: impl Future<Output = ()>) -> Acknowledged {
    run_with(nodes, fault).await.0
}

/// Like [`run`]. Returns also what the fault returns.
pub(super) async fn run_with<T>(
    nodes: &[FleetNode],
    fault: impl Future<Output = T>,
) -> (Acknowledged, T) {
    let (is_over, acknowledged) = (Cell::new(false), RefCell::new(Acknowledged::new()));
    let publishers = nodes.iter().enumerate().flat_map(|(place, node)| {
        let first = NODE_STEP * u64::try_from(place).expect("few nodes");
        CHANNELS.map(|channel| publish(&node.node, channel, first, &is_over, &acknowledged))
    });
    let fault = async {
        let result = fault.await;
        is_over.set(true);
        result
    };
    let (_, result) = tokio::join!(join_all(publishers), fault);
    for channel in CHANNELS {
        nodes[0].node.publish(channel, END).await;
    }
    (acknowledged.into_inner(), result)
}

async fn publish(
    node: &Node,
    channel: &'static str,
    first: u64,
    is_over: &Cell<bool>,
    acknowledged: &RefCell<Acknowledged>,
) {
    for number in first.. {
        loop {
            match node.try_append_all(&[channel], number).await {
                Ok(_) => drop(acknowledged.borrow_mut().insert((channel, number), Instant::now())),
                // It may be published, and is not repeated: so no event is published twice.
                Err(AppendError::Unknown) => {}
                Err(_) => {
                    tokio::time::sleep(INTERVAL).await;
                    continue;
                }
            }
            break;
        }
        if is_over.get() {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

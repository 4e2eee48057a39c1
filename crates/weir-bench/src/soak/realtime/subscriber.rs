//! A subscriber of one channel. When its connection ends, it connects to the next node, and continues after the last event
//! that it has received.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};

use super::channel::Channel;
use super::check::SubscriberCheck;
use super::connection::Connection;
use crate::clock::monotonic;
use crate::realtime::codec::{
    Epoch, Position, Recovery, ServerMessage, SubscribeRequest, number_after, value_after,
};
use crate::realtime::pusher;
use crate::soak::journal::Part;
use crate::soak::shared::Shared;

/// A connection on which nothing has arrived for this long is dead. Longer than Redis is paused.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(in crate::soak) struct Subscriber {
    shared: Arc<Shared>,
    channel: Arc<Channel>,
    node: usize,
    check: SubscriberCheck,
    position: Option<Position>,
    /// Whether it was subscribed before, so that a subscription without recovery is a gap.
    has_joined: bool,
    /// When the last message arrived.
    heard: Duration,
}

impl Subscriber {
    pub(in crate::soak) fn new(shared: &Arc<Shared>, channel: &Arc<Channel>, node: usize) -> Self {
        Self {
            shared: Arc::clone(shared),
            channel: Arc::clone(channel),
            node,
            check: SubscriberCheck::default(),
            position: None,
            has_joined: false,
            heard: monotonic(),
        }
    }

    /// Reads until the last event has arrived, or the run is over.
    pub(in crate::soak) fn run(mut self) -> SubscriberCheck {
        while !self.is_done() {
            if let Err(error) = self.session() {
                let node = self.node % self.shared.nodes.len();
                let text = format!("subscriber of {} at node {node}: {error:#}", self.channel.name);
                self.shared.journal.record(Part::Realtime, self.heard, text);
                self.node += 1;
                self.check.reconnects += 1;
                self.shared.sleep(RECONNECT_AFTER);
            }
        }
        self.check
    }

    fn is_done(&self) -> bool {
        self.shared.is_over() || self.check.is_complete(&self.channel)
    }

    /// One connection.
    fn session(&mut self) -> Result<()> {
        let app = &self.channel.app;
        let mut connection = Connection::open(self.shared.node(self.node).front, app)?;
        let request = SubscribeRequest {
            channel: &self.channel.name,
            socket_id: &connection.socket_id(),
            member: None,
            member_changes: false,
            recover: self.position,
        };
        connection.subscribe(app, &request)?;
        let mut silent_since = monotonic();
        while !self.is_done() {
            match connection.next()? {
                Some(message) => {
                    silent_since = monotonic();
                    self.on_message(&message)?;
                }
                None if monotonic() - silent_since > SILENCE_MAX => bail!("nothing arrives"),
                None => {}
            }
        }
        Ok(())
    }

    fn on_message(&mut self, message: &[u8]) -> Result<()> {
        match value_after(message, r#""event""#) {
            Some(b"weir-bench") => self.on_event(message),
            Some(b"weir:gap") => {
                self.check.on_gap(self.heard, monotonic());
                self.position = position(message);
            }
            _ => match pusher::parse_message(message) {
                ServerMessage::Subscribed { position, recovery, .. } => {
                    self.on_subscribed(position, recovery);
                }
                ServerMessage::Rejected(text) => bail!("{text}"),
                _ => {}
            },
        }
        self.heard = monotonic();
        Ok(())
    }

    fn on_event(&mut self, message: &[u8]) {
        self.position = position(message).or(self.position);
        if let Some(number) = number_after(message, r#""data""#) {
            self.check.on_event(number, &self.channel);
        }
    }

    fn on_subscribed(&mut self, position: Option<Position>, recovery: Option<Recovery>) {
        if recovery == Some(Recovery::Recovered) {
            // Positions are those of the events that follow.
            self.check.recovered += 1;
            return;
        }
        if self.has_joined {
            self.check.on_gap(self.heard, monotonic());
        }
        self.has_joined = true;
        self.position = position;
    }
}

fn position(message: &[u8]) -> Option<Position> {
    let epoch = value_after(message, "epoch").and_then(Epoch::new)?;
    Some(Position { epoch, offset: number_after(message, "offset")? })
}

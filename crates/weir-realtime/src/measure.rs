//! Internals for benchmarks and fuzzers only, without sockets: delivering an event to the
//! subscribers of one core, and a whole core that the caller drives.

use std::hint::black_box;

use weir_base::clock::Timestamp;

use crate::cores::{Audience, Broadcast, ChannelId, Cores, EventKey};
use crate::fanout::{Delivery, Fanout, Subscriber};
use crate::frame::{Draft, Frame};
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::pusher::server_message::ChannelEvent;
pub use crate::shard::manual_core::{Leftovers, ManualConnection, ManualCore, UnreadMessages};

/// One channel with subscribers on one core.
#[derive(Debug)]
pub struct HandOver {
    fanout: Fanout,
    cores: Cores,
    /// Bytes delivered to each subscriber.
    received: Vec<usize>,
    sequence: u64,
}

impl HandOver {
    /// Returns a channel with this number of subscribers.
    #[must_use]
    pub fn new(subscribers: u32) -> Self {
        let mut fanout = Fanout::default();
        for session in 0..subscribers {
            fanout.add(Subscriber { session, wants_member_changes: false, from: 0 });
        }
        let received = vec![0; subscribers as usize];
        Self { fanout, cores: Cores::new(1, 1_000, 1 << 20), received, sequence: 0 }
    }

    /// Encodes an event with this data, and delivers it in turns of `writes_max`. Returns the
    /// number of turns.
    pub fn event(&mut self, data: &str, writes_max: usize) -> usize {
        self.sequence += 1;
        let broadcast = self.broadcast(data);
        self.fanout.push(broadcast);
        let mut turns = 0;
        loop {
            turns += 1;
            let received = &mut self.received;
            let progress = self.fanout.deliver_turn(writes_max, 16 << 10, |session, delivery| {
                if let Delivery::Joined { joined, .. } = delivery {
                    received[session as usize] += black_box(joined).len();
                }
            });
            if !progress.has_more {
                return turns;
            }
        }
    }

    fn broadcast(&self, data: &str) -> Broadcast {
        let channel = ChannelId(1);
        Broadcast {
            channel,
            sequence: self.sequence,
            frame: self.frame(data),
            audience: Audience::Everyone,
            event: Some(EventKey::new(channel, "e")),
            published_at: Timestamp::default(),
            trace: None,
            budget: self.cores.get(0).budget.reserve_always(data.len()),
        }
    }

    fn frame(&self, data: &str) -> Frame {
        let event = ChannelEvent {
            event: "e",
            channel: "news",
            data: Some(data),
            user_id: None,
            position: None,
        };
        Draft::new(&event).finish(Some(ChannelPosition { epoch: Epoch(1), offset: self.sequence }))
    }

    /// Returns the bytes delivered to all subscribers.
    #[must_use]
    pub fn received(&self) -> usize {
        self.received.iter().sum()
    }
}

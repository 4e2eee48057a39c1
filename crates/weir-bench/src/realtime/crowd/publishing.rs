//! The publishing connections among the clients' sockets.

use std::io;

use anyhow::{Context, Result};

use super::{COURIER, Crowd, watch};
use crate::clock::{now, unix_seconds};
use crate::realtime::publisher::Published;
use crate::realtime::surroundings::Surroundings;

/// Publishing connections that a run opens at most.
const COURIERS_MAX: usize = 64;

impl Crowd {
    /// Opens publishing connections until there are `count`.
    pub(crate) fn open_publishers(&mut self, count: usize) -> Result<()> {
        while self.publisher.connections() < count.min(COURIERS_MAX) {
            self.open_publisher().context("connecting to publish")?;
        }
        Ok(())
    }

    fn open_publisher(&mut self) -> io::Result<()> {
        let (index, socket) = self.publisher.open(self.target.url.address)?;
        watch(&self.epoll, socket, COURIER | index as u64).map_err(io::Error::other)
    }

    /// Publishes the next event. False if no connection is free, or none can be had.
    pub(crate) fn publish(&mut self, channel: usize) -> bool {
        if !self.publisher.has_idle() {
            let full = self.publisher.connections() >= COURIERS_MAX;
            if full || self.open_publisher().is_err() {
                return false;
            }
        }
        let Surroundings { speech, data, ledger, channel_names, .. } = &mut self.around;
        let number = u32::try_from(ledger.published()).expect("fewer than 2^32 events");
        let request = speech.publish(&channel_names[channel], &data.of(number), unix_seconds());
        let number = ledger.publish(channel, now());
        if let Some(outcome) = self.publisher.send(number, &request) {
            self.take_outcome(outcome);
        }
        true
    }

    /// Publishes that the server has not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.publisher.under_way()
    }

    pub(super) fn serve_courier(&mut self, index: usize) {
        if let Some(outcome) = self.publisher.ready(index) {
            self.take_outcome(outcome);
        }
    }

    fn take_outcome(&mut self, outcome: Published) {
        let Surroundings { ledger, counts, .. } = &mut self.around;
        match outcome {
            Published::Accepted(number) => ledger.accepted(number, now()),
            Published::Refused(number, text) => {
                ledger.void(number);
                self.attendance.faults.add(1, || format!("a publish was refused: {text}"));
            }
            Published::Unknown(number) => {
                ledger.void(number);
                counts.publishes_unknown += 1;
            }
        }
    }
}

//! What all clients of a run share: the protocol, the ledger and the counters.

use std::time::Instant;

use anyhow::Result;

use super::codec::{ProtocolCodec, channel_name, presence_channel};
use super::ledger::Ledger;
use super::members::MembershipCheck;
use super::order::SubscriberCursor;
use super::payload::EventData;
use super::publisher::Published;
use super::publishing_thread::{PublishingThread, Report};
use super::settings::{LoadSettings, Scenario};
use super::target::Target;
use crate::tally::Faults;

#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) codec: ProtocolCodec,
    pub(crate) data: EventData,
    pub(crate) ledger: Ledger,
    /// Names of the channels, by their numbers.
    pub(crate) channel_names: Vec<String>,
    /// Whether clients keep the position of the last event, to recover from there.
    pub(crate) keeps_positions: bool,
    /// Whether clients join as members.
    pub(crate) is_presence: bool,
    pub(crate) membership: MembershipCheck,
    pub(crate) counts: Counts,
    /// `None` until the first event is published.
    pub(crate) publishing: Option<PublishingThread>,
}

impl SharedState {
    pub(crate) fn new(target: &Target, settings: &LoadSettings) -> Result<Self> {
        let is_presence = settings.scenario == Scenario::Presence;
        let channel_names = match is_presence {
            true => vec![presence_channel().to_owned()],
            false => (0..settings.channels).map(channel_name).collect(),
        };
        Ok(Self {
            codec: ProtocolCodec::new(target),
            data: EventData::new(fastrand::u32(..), settings.payload_bytes)?,
            ledger: Ledger::new(channel_names.len()),
            channel_names,
            keeps_positions: settings.scenario == Scenario::Storm,
            is_presence,
            membership: MembershipCheck::default(),
            counts: Counts::default(),
            publishing: None,
        })
    }

    /// Returns a copy without any events or counts, for another thread's clients.
    pub(crate) fn fresh_copy(&self) -> Self {
        Self {
            codec: self.codec.clone(),
            data: self.data.clone(),
            ledger: Ledger::new(self.channel_names.len()),
            channel_names: self.channel_names.clone(),
            keeps_positions: self.keeps_positions,
            is_presence: self.is_presence,
            membership: MembershipCheck::default(),
            counts: Counts::default(),
            publishing: None,
        }
    }

    /// Records that a client of `channel` received event `number`.
    pub(crate) fn record_delivery(
        &mut self,
        channel: usize,
        cursor: &mut SubscriberCursor,
        number: u32,
        at: Instant,
    ) {
        if !self.ledger.is_sent(number) {
            self.process_reports();
        }
        self.ledger.record_delivery(channel, cursor, number, at);
    }

    /// Records what the publishing thread has reported since the last call.
    pub(crate) fn process_reports(&mut self) {
        while let Some(report) =
            self.publishing.as_mut().and_then(|publishing| publishing.next_report())
        {
            match report {
                Report::Sent { number, at } => self.ledger.mark_sent(number, at),
                Report::Ended { published, at } => self.record_publish_outcome(published, at),
            }
        }
    }

    fn record_publish_outcome(&mut self, published: Published, at: Instant) {
        match published {
            Published::Accepted(number) => self.ledger.mark_accepted(number, at),
            Published::Rejected(number, text) => {
                self.ledger.mark_failed(number);
                let faults = &mut self.counts.rejected_publishes;
                faults.add(1, || format!("a publish was refused: {text}"));
            }
            Published::Unknown(number) => {
                self.ledger.mark_failed(number);
                self.counts.publishes_unknown += 1;
            }
        }
    }
}

/// Counters that all clients of a run share.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) bytes: u64,
    pub(crate) frames: u64,
    pub(crate) recovered: u64,
    pub(crate) gaps: u64,
    /// Events whose offset does not follow the previous one of the same epoch.
    pub(crate) offset_jumps: u64,
    /// Error messages that the server sent to subscribed clients.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) rejected_publishes: Faults,
    /// Publishes whose connection broke before the response.
    pub(crate) publishes_unknown: u64,
}

impl Counts {
    /// Adds the counts of other clients.
    pub(crate) fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.frames += other.frames;
        self.recovered += other.recovered;
        self.gaps += other.gaps;
        self.offset_jumps += other.offset_jumps;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.rejected_publishes.merge(&other.rejected_publishes);
        self.publishes_unknown += other.publishes_unknown;
    }
}

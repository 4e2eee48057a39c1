//! What all clients of a run share: the protocol, the ledger, and what they count together.

use std::time::Instant;

use anyhow::Result;

use super::ledger::Ledger;
use super::members::Roll;
use super::order::Seat;
use super::payload::EventData;
use super::publisher::Published;
use super::publishing_thread::{PublishingThread, Report};
use super::settings::{LoadSettings, Scenario};
use super::speech::{Speech, channel_name, presence_channel};
use super::target::Target;
use crate::tally::Faults;

#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) speech: Speech,
    pub(crate) data: EventData,
    pub(crate) ledger: Ledger,
    /// Names of the channels, by their numbers.
    pub(crate) channel_names: Vec<String>,
    /// Whether clients keep the position of the last event, to recover from there.
    pub(crate) keeps_positions: bool,
    /// Whether clients join as members.
    pub(crate) is_presence: bool,
    pub(crate) roll: Roll,
    pub(crate) counts: Counts,
    /// `None` until the first event is to be published.
    pub(crate) publishing: Option<PublishingThread>,
}

impl Surroundings {
    pub(crate) fn new(target: &Target, settings: &LoadSettings) -> Result<Self> {
        let is_presence = settings.scenario == Scenario::Presence;
        let channel_names = match is_presence {
            true => vec![presence_channel().to_owned()],
            false => (0..settings.channels).map(channel_name).collect(),
        };
        Ok(Self {
            speech: Speech::new(target),
            data: EventData::new(fastrand::u32(..), settings.payload_bytes)?,
            ledger: Ledger::new(channel_names.len()),
            channel_names,
            keeps_positions: settings.scenario == Scenario::Storm,
            is_presence,
            roll: Roll::default(),
            counts: Counts::default(),
            publishing: None,
        })
    }

    /// The same for clients that have not heard anything, and before anything is published.
    pub(crate) fn empty(&self) -> Self {
        Self {
            speech: self.speech.clone(),
            data: self.data.clone(),
            ledger: Ledger::new(self.channel_names.len()),
            channel_names: self.channel_names.clone(),
            keeps_positions: self.keeps_positions,
            is_presence: self.is_presence,
            roll: Roll::default(),
            counts: Counts::default(),
            publishing: None,
        }
    }

    /// A client of `channel` heard event `number`.
    pub(crate) fn heard(&mut self, channel: usize, seat: &mut Seat, number: u32, at: Instant) {
        if !self.ledger.is_sent(number) {
            self.take_reports();
        }
        self.ledger.heard(channel, seat, number, at);
    }

    /// Writes down what the publishing thread has done in the meantime.
    pub(crate) fn take_reports(&mut self) {
        while let Some(report) =
            self.publishing.as_mut().and_then(|publishing| publishing.next_report())
        {
            match report {
                Report::Sent { number, at } => self.ledger.sent(number, at),
                Report::Ended { published, at } => self.take_outcome(published, at),
            }
        }
    }

    fn take_outcome(&mut self, published: Published, at: Instant) {
        match published {
            Published::Accepted(number) => self.ledger.accepted(number, at),
            Published::Refused(number, text) => {
                self.ledger.void(number);
                let faults = &mut self.counts.refused_publishes;
                faults.add(1, || format!("a publish was refused: {text}"));
            }
            Published::Unknown(number) => {
                self.ledger.void(number);
                self.counts.publishes_unknown += 1;
            }
        }
    }
}

/// What the clients of a run count together, beside events.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) bytes: u64,
    pub(crate) frames: u64,
    pub(crate) recovered: u64,
    pub(crate) gaps: u64,
    /// Events whose offset did not follow the one before, in the same epoch.
    pub(crate) offset_jumps: u64,
    /// Complaints of the server to clients that were subscribed.
    pub(crate) complaints: u64,
    pub(crate) first_complaint: Option<String>,
    pub(crate) refused_publishes: Faults,
    /// Publishes whose connection broke before the answer.
    pub(crate) publishes_unknown: u64,
}

impl Counts {
    /// Adds what other clients counted.
    pub(crate) fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.frames += other.frames;
        self.recovered += other.recovered;
        self.gaps += other.gaps;
        self.offset_jumps += other.offset_jumps;
        self.complaints += other.complaints;
        self.first_complaint = self.first_complaint.take().or(other.first_complaint);
        self.refused_publishes.merge(&other.refused_publishes);
        self.publishes_unknown += other.publishes_unknown;
    }
}

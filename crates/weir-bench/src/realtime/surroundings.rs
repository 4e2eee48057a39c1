//! What all clients of a run share: the protocol, the ledger, and what they count together.

use super::ledger::Ledger;
use super::members::Roll;
use super::payload::EventData;
use super::speech::Speech;

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
    /// Publishes whose connection broke before the answer.
    pub(crate) publishes_unknown: u64,
}

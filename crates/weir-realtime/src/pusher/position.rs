//! Positions in a channel's history, for recovery. This is an extension of Weir.
//!
//! On a WebSocket, a position is the two fields `epoch` and `offset`, next to those of the
//! protocol. As `Last-Event-ID`, it is one text, `epoch:offset`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Identifies one period of a channel's history. Offsets of different epochs can't be compared.
///
/// Written as a string of 16 hexadecimal digits, because a JavaScript number would lose digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

/// The position of one event in a channel's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelPosition {
    /// The epoch of the history.
    pub epoch: Epoch,
    /// The offset of the event. A JSON number, exact in JavaScript up to 2^53.
    pub offset: u64,
}

/// The text is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is EPOCH:OFFSET, 16 hexadecimal digits and a number, as an event carried them")]
pub struct PositionError;

/// Number of hexadecimal digits of an epoch.
const EPOCH_DIGITS: usize = 16;

impl FromStr for Epoch {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = text.len() == EPOCH_DIGITS
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match u64::from_str_radix(text, 16) {
            Ok(epoch) if is_plain => Ok(Self(epoch)),
            _ => Err(PositionError),
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = super::json::JsonText::deserialize(deserializer)?;
        text.0.parse().map_err(de::Error::custom)
    }
}

impl FromStr for ChannelPosition {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (epoch, offset) = text.split_once(':').ok_or(PositionError)?;
        let offset: u64 = offset.parse().map_err(|_| PositionError)?;
        Ok(Self { epoch: epoch.parse()?, offset })
    }
}

impl fmt::Display for ChannelPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.epoch, self.offset)
    }
}

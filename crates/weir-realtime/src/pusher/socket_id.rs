//! Ids of connections, which the server assigns and applications sign.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::excerpt::Excerpt;

/// A connection's id: two numbers with a dot in between, such as `123.456`. Server libraries
/// require this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// The number before the dot.
    pub first: u64,
    /// The number after the dot.
    pub second: u64,
}

/// The text is not a connection's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "socket_id '{}' is not one: it is two numbers with a dot, as the client got it when it connected",
    Excerpt(.0)
)]
pub struct SocketIdError(String);

impl FromStr for SocketId {
    type Err = SocketIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once('.')
            .and_then(|(first, second)| {
                Some(Self { first: parse_number(first)?, second: parse_number(second)? })
            })
            .ok_or_else(|| SocketIdError(text.to_owned()))
    }
}

/// Parses a number. Accepts only the form in which [`SocketId`] is displayed.
fn parse_number(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && (digits.len() == 1 || !digits.starts_with('0'))).then_some(number)
}

impl fmt::Display for SocketId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.first, self.second)
    }
}

impl Serialize for SocketId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

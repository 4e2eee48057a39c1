//! The records of the log of durable histories.
//!
//! The first byte of a record is its kind. `E`: the length of a [`Header`] in JSON (4 bytes, little-endian), the
//! header, and the event's data. `S`: a whole channel, as [`crate::saved::format`] writes it; it replaces all earlier
//! records of the channel. `B`: a [`Begin`] in JSON: a process began, or its apps have changed, and channels of
//! other apps have no longer a history here. `C`: the process ended, and everything before is on the disk.

use std::io;

use serde::{Deserialize, Serialize};

use crate::channel::SavedHistory;
use crate::pusher::position::ChannelPosition;
use crate::saved::format;

/// The version of the records. A log with a later one is not read.
pub(crate) const VERSION: u32 = 1;

/// A record, read.
#[derive(Debug)]
pub(super) enum Record<'a> {
    Event {
        header: Header,
        data: &'a str,
    },
    Channel(&'a [u8]),
    Begin(Begin),
    Closed,
    /// The records are of a later version.
    Later(u32),
}

/// What belongs to an event besides its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) app: String,
    pub(super) channel: String,
    pub(super) position: ChannelPosition,
    pub(super) at_us: u64,
    pub(super) name: String,
}

/// The state of the process that writes the log. The first record of a log, and of each one that is rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) version: u32,
    /// The start of the machine.
    pub(super) boot: String,
    /// The ids of the apps with durable histories.
    pub(super) apps: Vec<String>,
}

/// The part of [`Begin`] that all versions have.
#[derive(Deserialize)]
struct AnyBegin {
    version: u32,
}

pub(super) fn encode_event(header: &Header, data: &str) -> Vec<u8> {
    let header = serde_json::to_vec(header).unwrap_or_default();
    let mut record = Vec::with_capacity(5 + header.len() + data.len());
    record.push(b'E');
    // A header has two names and a channel, each with a limit far below 4 GiB.
    record.extend_from_slice(&u32::try_from(header.len()).unwrap_or_default().to_le_bytes());
    record.extend_from_slice(&header);
    record.extend_from_slice(data.as_bytes());
    record
}

/// Returns the record of a whole channel.
pub(crate) fn encode_channel(
    app: &str,
    channel: &str,
    history: &SavedHistory,
) -> io::Result<Vec<u8>> {
    let mut record = vec![b'S'];
    format::write_channel(&mut record, app, channel, history)?;
    Ok(record)
}

pub(super) fn encode_begin(begin: &Begin) -> Vec<u8> {
    let json = serde_json::to_vec(begin).unwrap_or_default();
    [b"B", json.as_slice()].concat()
}

pub(super) const CLOSED: &[u8] = b"C";

/// Reads a record. None: it is damaged.
pub(super) fn parse(record: &[u8]) -> Option<Record<'_>> {
    let (kind, rest) = record.split_first()?;
    match kind {
        b'E' => {
            let (length, rest) = rest.split_first_chunk()?;
            let (header, data) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            let header = serde_json::from_slice(header).ok()?;
            Some(Record::Event { header, data: str::from_utf8(data).ok()? })
        }
        b'S' => Some(Record::Channel(rest)),
        b'B' => {
            let AnyBegin { version } = serde_json::from_slice(rest).ok()?;
            if version > VERSION {
                return Some(Record::Later(version));
            }
            Some(Record::Begin(serde_json::from_slice(rest).ok()?))
        }
        b'C' => Some(Record::Closed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pusher::position::Epoch;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let position = ChannelPosition { epoch: Epoch(7), offset: 3 };
        let [app, channel, name] = ["1", "room", "e"].map(str::to_owned);
        let expected = Header { app, channel, position, at_us: 5, name };
        let record = encode_event(&expected, "{\"a\":\n1}");
        let Some(Record::Event { header, data }) = parse(&record) else { panic!() };
        assert_eq!((header, data), (expected, "{\"a\":\n1}"));
        for length in 0..record.len() - 8 {
            assert!(parse(&record[..length]).is_none(), "{length}");
        }
        let begin = Begin { version: VERSION, boot: "b".into(), apps: vec!["1".into()] };
        let Some(Record::Begin(read)) = parse(&encode_begin(&begin)) else { panic!() };
        assert_eq!(read, begin);
        assert!(matches!(parse(CLOSED), Some(Record::Closed)));
        assert!(matches!(parse(br#"B{"version":2,"nodes":[]}"#), Some(Record::Later(2))));
        assert!(parse(b"Zunknown").is_none());
    }
}

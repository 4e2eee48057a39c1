//! The records of one channel, in the file of saved histories and in the log of durable ones.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

use crate::channel::{HistoryEntry, SavedHistory};
use crate::frame::Frame;
use crate::pusher::position::ChannelPosition;

/// The limit of a record, which holds an event or a [`SavedChannel`].
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A channel in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedChannel {
    pub(crate) app: String,
    pub(crate) name: String,
    position: ChannelPosition,
    /// Number of events of its history, which follow.
    events: usize,
    touched_us: u64,
    /// Data of a cache channel's last event, which follows those of the history.
    cached: Option<String>,
}

/// Writes one channel.
pub(crate) fn write_channel(
    out: &mut dyn Write,
    app: &str,
    name: &str,
    history: &SavedHistory,
) -> io::Result<()> {
    let saved = SavedChannel {
        app: app.to_owned(),
        name: name.to_owned(),
        position: history.position,
        events: history.entries.len(),
        touched_us: history.touched.as_micros(),
        cached: history.cached.as_ref().map(|(data, _)| data.to_string()),
    };
    write_record(out, &serde_json::to_vec(&saved)?)?;
    let cached = history.cached.as_ref().map(|(_, entry)| entry);
    for entry in history.entries.iter().chain(cached) {
        let mut record = entry.at.as_micros().to_le_bytes().to_vec();
        record.extend_from_slice(entry.frame.json());
        write_record(out, &record)?;
    }
    Ok(())
}

pub(super) fn write_record(out: &mut dyn Write, record: &[u8]) -> io::Result<()> {
    let bytes = u32::try_from(record.len()).map_err(io::Error::other)?;
    out.write_all(&bytes.to_le_bytes())?;
    out.write_all(record)
}

/// Reads what [`write_channel`] wrote: the app, the name, and the history.
pub(crate) fn parse_channel(
    mut bytes: &[u8],
) -> Result<((String, String), SavedHistory), &'static str> {
    let record = read_record(&mut bytes)?;
    let saved: SavedChannel =
        serde_json::from_slice(&record).map_err(|_| "a channel is not readable")?;
    let history = read_channel(&mut bytes, &saved)?;
    Ok(((saved.app, saved.name), history))
}

pub(super) fn read_channel(
    input: &mut impl Read,
    saved: &SavedChannel,
) -> Result<SavedHistory, &'static str> {
    let mut history = SavedHistory {
        position: saved.position,
        entries: Vec::new(),
        cached: None,
        touched: Timestamp::from_micros(saved.touched_us),
    };
    let events = saved.events as u64;
    let first = (saved.position.offset + 1).checked_sub(events).ok_or("offsets don't fit")?;
    for offset in first..first + events {
        history.entries.push(read_entry(input, offset)?);
    }
    if let Some(data) = &saved.cached {
        let entry = read_entry(input, saved.position.offset)?;
        history.cached = Some((Box::from(data.as_str()), entry));
    }
    Ok(history)
}

fn read_entry(input: &mut impl Read, offset: u64) -> Result<HistoryEntry, &'static str> {
    let record = read_record(input)?;
    let (at, json) = record.split_first_chunk().ok_or("an event without its time")?;
    let at = Timestamp::from_micros(u64::from_le_bytes(*at));
    let frame = Frame::text(|out| out.extend_from_slice(json));
    Ok(HistoryEntry { offset, at, frame })
}

pub(super) fn read_record(input: &mut impl Read) -> Result<Vec<u8>, &'static str> {
    const CUT: &str = "it ends in the middle of a record";
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes).map_err(|_| CUT)?;
    let bytes = u32::from_le_bytes(bytes) as usize;
    if bytes > RECORD_BYTES_MAX {
        return Err("a record is too long");
    }
    let mut record = Vec::new();
    input.take(bytes as u64).read_to_end(&mut record).map_err(|_| CUT)?;
    if record.len() < bytes {
        return Err(CUT);
    }
    Ok(record)
}

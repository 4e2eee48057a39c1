//! The header of a ring file, which describes its rows.
//!
//! `magic | checksum u32 | length u32 | text`, padded to whole blocks. The text has one line per
//! item: `step SECONDS`, `slots COUNT`, `values PER_COLUMN`, then `column NAME` in order.

use super::ring::RingShape;

const MAGIC: &[u8; 8] = b"weirhis1";
const PREFIX_BYTES: usize = 16;
/// Headers are padded to a block, so that a torn header write never affects rows.
const BLOCK_BYTES: usize = 4096;
/// Limit of a header: 256 columns with names of 200 bytes fit.
pub(super) const BYTES_MAX: usize = 16 * BLOCK_BYTES;

/// Encodes the padded header of `shape`.
pub(super) fn encode(shape: &RingShape) -> Vec<u8> {
    let mut text = format!(
        "step {}\nslots {}\nvalues {}\n",
        shape.step_seconds, shape.slots, shape.values_per_column
    );
    for column in &shape.columns {
        text.push_str(&format!("column {column}\n"));
    }
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut head = Vec::with_capacity(BLOCK_BYTES);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&crc32c::crc32c(text.as_bytes()).to_le_bytes());
    head.extend_from_slice(&length.to_le_bytes());
    head.extend_from_slice(text.as_bytes());
    head.resize(head.len().next_multiple_of(BLOCK_BYTES), 0);
    head
}

/// Decodes the shape and the header's length from the start of a file; None: no valid header.
pub(super) fn decode(start: &[u8]) -> Option<(RingShape, usize)> {
    let rest = start.strip_prefix(MAGIC)?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let text = rest.get(..length)?;
    if crc32c::crc32c(text) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let head_bytes = (PREFIX_BYTES + length).next_multiple_of(BLOCK_BYTES);
    Some((parse(std::str::from_utf8(text).ok()?)?, head_bytes))
}

fn parse(text: &str) -> Option<RingShape> {
    let mut shape =
        RingShape { columns: Vec::new(), step_seconds: 0, slots: 0, values_per_column: 0 };
    for line in text.lines() {
        match line.split_once(' ')? {
            ("step", value) => shape.step_seconds = value.parse().ok()?,
            ("slots", value) => shape.slots = value.parse().ok()?,
            ("values", value) => shape.values_per_column = value.parse().ok()?,
            ("column", name) => shape.columns.push(name.to_owned()),
            _ => return None,
        }
    }
    let sound = shape.step_seconds > 0 && shape.slots > 0 && shape.values_per_column > 0;
    sound.then_some(shape)
}

//! The footer of a segment: a varint-packed list of its data records with their heads.
//!
//! The same bytes are the index in memory of the segment being written, so sealing a segment copies
//! nothing.

use crate::format::{self, HEADER_BYTES, MARK_BYTES, RECORD_HEADER_BYTES, Seal, Seed, Trailer};
use crate::position::RecordPosition;

/// A data record as listed in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedRecord<'a> {
    pub position: RecordPosition,
    pub head: &'a [u8],
    /// The record's size on disk: 10 bytes, head and body.
    pub record_bytes: u32,
}

/// The entries of the segment being written.
#[derive(Debug)]
pub(crate) struct Index {
    /// Space for the end record, followed by the entries.
    bytes: Vec<u8>,
    records: u32,
    /// The end of the last data record.
    data_end: u32,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { bytes: vec![0; MARK_BYTES as usize], records: 0, data_end: HEADER_BYTES }
    }

    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Returns the size of the entries so far.
    pub(crate) fn entries_bytes(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a footer fits its segment") - MARK_BYTES
    }

    /// Adds the data record at `offset`. Offsets must be ascending.
    pub(crate) fn push(&mut self, offset: u32, length: u32, head: &[u8]) {
        encode_varint(&mut self.bytes, offset - self.data_end);
        encode_varint(&mut self.bytes, length);
        encode_varint(&mut self.bytes, u32::try_from(head.len()).expect("a head is under 64 KiB"));
        self.bytes.extend_from_slice(head);
        self.records += 1;
        self.data_end = offset + RECORD_HEADER_BYTES + length;
    }

    pub(crate) fn visit(&self, segment: u32, visit: &mut dyn FnMut(IndexedRecord<'_>)) {
        let entries = &self.bytes[MARK_BYTES as usize..];
        visit_entries(entries, segment, visit).expect("an index under construction is sound");
    }

    /// Returns the bytes that seal a segment whose data ends at `end_offset`: end record, entries,
    /// trailer.
    pub(crate) fn seal(self, log_id: u64, number: u32, end_offset: u32) -> (Seal, Vec<u8>) {
        let seal = Seal { end_offset, entries_bytes: self.entries_bytes(), records: self.records };
        let mut bytes = self.bytes;
        let mut end = Vec::with_capacity(MARK_BYTES as usize);
        let seed = Seed::new(log_id, number);
        format::encode_end(&mut end, seed, end_offset, seal.records, seal.entries_bytes);
        bytes[..MARK_BYTES as usize].copy_from_slice(&end);
        let entries_checksum = crc32c::crc32c(&bytes[MARK_BYTES as usize..]);
        Trailer { number, log_id, seal, entries_checksum }.encode(&mut bytes);
        (seal, bytes)
    }
}

/// The entries are invalid although their checksum matches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Calls `visit` for every entry, in order.
pub(crate) fn visit_entries(
    mut entries: &[u8],
    segment: u32,
    visit: &mut dyn FnMut(IndexedRecord<'_>),
) -> Result<(), Malformed> {
    let mut end = HEADER_BYTES;
    while !entries.is_empty() {
        let gap = decode_varint(&mut entries)?;
        let length = decode_varint(&mut entries)?;
        let head_bytes = decode_varint(&mut entries)?;
        let (head, rest) = entries.split_at_checked(head_bytes as usize).ok_or(Malformed)?;
        entries = rest;
        let offset = end.checked_add(gap).ok_or(Malformed)?;
        let record_bytes = length.checked_add(RECORD_HEADER_BYTES).ok_or(Malformed)?;
        end = offset.checked_add(record_bytes).ok_or(Malformed)?;
        visit(IndexedRecord { position: RecordPosition { segment, offset }, head, record_bytes });
    }
    Ok(())
}

/// Appends a LEB128 number: seven bits per byte, lowest first; the top bit marks that more follow.
#[expect(clippy::cast_possible_truncation, reason = "takes the low seven bits")]
fn encode_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn decode_varint(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    let mut value = 0u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        let bits = u32::from(byte & 0x7f);
        if shift == 28 && bits > 0xf {
            return Err(Malformed);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u32) {
            let mut out = Vec::new();
            encode_varint(&mut out, value);
            let mut rest = out.as_slice();
            prop_assert_eq!(decode_varint(&mut rest), Ok(value));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_entries_never_panic(bytes: Vec<u8>) {
            let _ = visit_entries(&bytes, 1, &mut |_| ());
        }

        #[test]
        fn entries_round_trip(
            records in proptest::collection::vec((0u32..40, 0u32..70_000, 0usize..40), 0..50)
        ) {
            let mut index = Index::new();
            let mut expected = Vec::new();
            let mut offset = HEADER_BYTES;
            for (gap, body, head) in records {
                offset += gap;
                let head = vec![b'h'; head];
                let length = u32::try_from(head.len()).expect("short") + body;
                index.push(offset, length, &head);
                expected.push((offset, head, length + RECORD_HEADER_BYTES));
                offset += length + RECORD_HEADER_BYTES;
            }
            let mut seen = Vec::new();
            index.visit(3, &mut |h| {
                seen.push((h.position.offset, h.head.to_vec(), h.record_bytes));
            });
            prop_assert_eq!(seen, expected);
        }
    }
}

//! The bytes on disk. All integers are little-endian.
//!
//! A log is a directory of files `0000000001.log`, `0000000002.log`, ... without gaps.
//!
//! ```text
//! segment   = header, record*, [ end record, footer entries, trailer ]     (sealed)
//!           | header, record*, zeros up to the allocated size              (being written)
//! header    = "WEIRLOG\n"  version u32  number u32  log id u64  zero u32  crc u32        32 bytes
//! record    = crc u32  (kind << 28 | length) u32  head length u16  head  body   10 + length bytes
//! kinds     : 1 data
//!             2 mark,  body = segment u32, offset u32: everything before it was synced
//!             3 end,   body = data records u32, footer entries' bytes u32
//!             4 gap,   body = zeros where damage was repaired
//!             5 first, body = number of the oldest segment u32, zero u32: every segment begins with
//!                      one, and one is written before a segment is removed (since version 2)
//! entry     = gap varint  length varint  head length varint  head   one per data record;
//!             gap = bytes between this record and the end of the data record before it
//! trailer   = "WEND"  number u32  log id u64  offset of the end record u32
//!             entries' bytes u32  data records u32  entries' crc u32  crc u32          36 bytes
//! ```
//!
//! Checksums are CRC32C. A record's checksum covers everything after it and starts from a value
//! derived from the log's id, the segment's number and the record's offset, so that bytes of
//! another log, segment or offset never look valid. The checksums of header and trailer start from
//! zero, because they are read before the id is known.
//!
//! Bytes that a repair overwrote are in `damaged.log`, which has the same header and records under
//! the segment number 0; see `damage.rs`.
//!
//! Version 1 has no records of kind 5. Versions 2 to 5 have the same bytes; in each the owner writes
//! records that its older versions would misread. Older segments are read, but no jobs are appended to
//! them.

use crate::position::RecordPosition;

/// The version of segments that are written.
pub(crate) const VERSION: u32 = 5;
/// The first version with records of kind 5.
pub(crate) const VERSION_WITH_FIRST: u32 = 2;
/// The oldest version that can be read.
pub(crate) const VERSION_MIN: u32 = 1;
pub(crate) const HEADER_BYTES: u32 = 32;
pub(crate) const RECORD_HEADER_BYTES: u32 = 10;
/// Size of a mark, end or first record: all have a body of two u32.
pub(crate) const MARK_BYTES: u32 = RECORD_HEADER_BYTES + 8;
pub(crate) const TRAILER_BYTES: u32 = 36;
/// Size that sealing adds, without the entries.
pub(crate) const SEAL_BYTES: u32 = MARK_BYTES + TRAILER_BYTES;
/// Maximum size of a footer entry without its head: three varints of at most 5 bytes.
pub(crate) const ENTRY_BYTES_MAX: u32 = 15;
/// Size of a segment with one record, without that record's head (stored twice) and body: the first
/// record, a mark after it, one before the data record, and space to remove a segment.
pub(crate) const SEGMENT_OVERHEAD_BYTES: u32 =
    HEADER_BYTES + 4 * MARK_BYTES + RECORD_HEADER_BYTES + ENTRY_BYTES_MAX + SEAL_BYTES;
/// Size of a record's checksum, which covers the bytes after it.
pub(crate) const CHECKSUM_BYTES: u32 = 4;
const LENGTH_BITS: u32 = 28;
/// Upper limit (exclusive) of the size of a record, of a segment, and of an offset.
pub(crate) const SEGMENT_BYTES_LIMIT: u32 = 1 << LENGTH_BITS;
const HEADER_MAGIC: &[u8; 8] = b"WEIRLOG\n";
const TRAILER_MAGIC: &[u8; 4] = b"WEND";

/// Returns the file name of a segment.
pub(crate) fn file_name(number: u32) -> String {
    format!("{number:010}.log")
}

/// Returns the number in a segment's file name, or `None` if the file is not a segment.
pub(crate) fn file_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 10 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number > 0)
}

/// The start value of the record checksums of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn new(log_id: u64, number: u32) -> Seed {
        Seed(crc32c::crc32c_append(crc32c::crc32c(&log_id.to_le_bytes()), &number.to_le_bytes()))
    }

    /// Returns the checksum of a record at `offset`; `bytes` is the record without its first 4
    /// bytes.
    pub(crate) fn checksum(self, offset: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.start(offset), bytes)
    }

    /// Returns the start value of the checksum of a record at `offset`.
    pub(crate) fn start(self, offset: u32) -> u32 {
        self.0 ^ offset
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Data = 1,
    Mark = 2,
    End = 3,
    Gap = 4,
    First = 5,
}

/// The first 10 bytes of a record: plausible, but not yet checked against the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) checksum: u32,
    pub(crate) kind: RecordKind,
    pub(crate) length: u32,
    pub(crate) head_length: u16,
}

impl RecordHeader {
    /// Decodes a header. Returns `None` if no record can begin with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        let checksum = u32_at(bytes, 0)?;
        let word = u32_at(bytes, 4)?;
        let head_length = u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?);
        let length = word & (SEGMENT_BYTES_LIMIT - 1);
        let kind = match word >> LENGTH_BITS {
            1 => RecordKind::Data,
            2 => RecordKind::Mark,
            3 => RecordKind::End,
            4 => RecordKind::Gap,
            5 => RecordKind::First,
            _ => return None,
        };
        let plausible = match kind {
            RecordKind::Data => u32::from(head_length) <= length,
            RecordKind::Mark | RecordKind::End | RecordKind::First => {
                head_length == 0 && length == 8
            }
            RecordKind::Gap => head_length == 0,
        };
        plausible.then_some(RecordHeader { checksum, kind, length, head_length })
    }

    /// Returns the size of the whole record.
    pub(crate) fn record_bytes(&self) -> u32 {
        RECORD_HEADER_BYTES + self.length
    }
}

/// Returns the first index in `bytes` at which [`RecordHeader::decode`] may succeed. It examines
/// only three of the ten bytes, which makes it cheap enough to try every offset. Text and zeros
/// contain no such index.
pub(crate) fn first_kind(bytes: &[u8]) -> Option<usize> {
    const KIND_AT: usize = 7; // the highest byte of the word, then the head's length
    bytes.get(KIND_AT..)?.windows(3).position(|window| match window[0] >> (LENGTH_BITS % 8) {
        1 => true,
        2..=5 => window[1] == 0 && window[2] == 0,
        _ => false,
    })
}

/// Appends a record to `out`, which need not be empty. The sum of head and body must be under 2^28
/// and the head under 2^16 bytes; the caller has checked both.
pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    seed: Seed,
    offset: u32,
    kind: RecordKind,
    head: &[u8],
    body: &[&[u8]],
) {
    let length: usize = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
    let length = u32::try_from(length).expect("checked against record_bytes_max");
    let head_length = u16::try_from(head.len()).expect("checked by the caller");
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&((kind as u32) << LENGTH_BITS | length).to_le_bytes());
    out.extend_from_slice(&head_length.to_le_bytes());
    out.extend_from_slice(head);
    for part in body {
        out.extend_from_slice(part);
    }
    let checksum = seed.checksum(offset, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Appends a mark: everything before `durable` was synced when this was written.
pub(crate) fn encode_mark(out: &mut Vec<u8>, seed: Seed, offset: u32, durable: RecordPosition) {
    let (segment, at) = (durable.segment.to_le_bytes(), durable.offset.to_le_bytes());
    encode_record(out, seed, offset, RecordKind::Mark, &[], &[&segment, &at]);
}

/// Appends a first record, which says that `first` is the oldest segment.
pub(crate) fn encode_first(out: &mut Vec<u8>, seed: Seed, offset: u32, first: u32) {
    encode_record(out, seed, offset, RecordKind::First, &[], &[&first.to_le_bytes(), &[0; 4]]);
}

/// Appends a gap record of `bytes` in all, at least [`RECORD_HEADER_BYTES`].
pub(crate) fn encode_gap(out: &mut Vec<u8>, seed: Seed, offset: u32, bytes: u32) {
    let zeros = vec![0; (bytes - RECORD_HEADER_BYTES) as usize];
    encode_record(out, seed, offset, RecordKind::Gap, &[], &[&zeros]);
}

/// Appends an end record.
pub(crate) fn encode_end(out: &mut Vec<u8>, seed: Seed, offset: u32, records: u32, entries: u32) {
    let body = [records.to_le_bytes(), entries.to_le_bytes()];
    encode_record(out, seed, offset, RecordKind::End, &[], &[&body[0], &body[1]]);
}

/// Returns the two u32 in the body of a mark, end or first record.
pub(crate) fn pair(body: &[u8]) -> Option<(u32, u32)> {
    Some((u32_at(body, 0)?, u32_at(body, 4)?))
}

/// Returns bytes 4..10 of every mark and of every first record, which recovery searches for after
/// damage.
pub(crate) fn statement_signatures() -> [[u8; 6]; 2] {
    let (mut mark, mut first) = (Vec::new(), Vec::new());
    encode_mark(&mut mark, Seed(0), 0, RecordPosition::default());
    encode_first(&mut first, Seed(0), 0, 0);
    [mark, first].map(|record| record[4..10].try_into().expect("a record header has 10 bytes"))
}

/// The content of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) version: u32,
    pub(crate) number: u32,
    pub(crate) log_id: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(log_id: u64, number: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES as usize);
        out.extend_from_slice(HEADER_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&log_id.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<SegmentHeader> {
        let sound = bytes.get(..8)? == HEADER_MAGIC
            && crc32c::crc32c(bytes.get(..28)?) == u32_at(bytes, 28)?;
        let header = SegmentHeader {
            version: u32_at(bytes, 8)?,
            number: u32_at(bytes, 12)?,
            log_id: u64_at(bytes, 16)?,
        };
        sound.then_some(header)
    }
}

/// The layout of a sealed segment: the offset of its end record and the sizes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) end_offset: u32,
    pub(crate) entries_bytes: u32,
    pub(crate) records: u32,
}

impl Seal {
    pub(crate) fn entries_offset(&self) -> u32 {
        self.end_offset + MARK_BYTES
    }

    pub(crate) fn trailer_offset(&self) -> u32 {
        self.entries_offset() + self.entries_bytes
    }

    /// Returns the exact size of the sealed file.
    pub(crate) fn file_bytes(&self) -> u32 {
        self.trailer_offset() + TRAILER_BYTES
    }
}

/// The last 36 bytes of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) number: u32,
    pub(crate) log_id: u64,
    pub(crate) seal: Seal,
    pub(crate) entries_checksum: u32,
}

impl Trailer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(TRAILER_MAGIC);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.log_id.to_le_bytes());
        out.extend_from_slice(&self.seal.end_offset.to_le_bytes());
        out.extend_from_slice(&self.seal.entries_bytes.to_le_bytes());
        out.extend_from_slice(&self.seal.records.to_le_bytes());
        out.extend_from_slice(&self.entries_checksum.to_le_bytes());
        let checksum = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// Decodes a trailer. `file_bytes` is the size of the file, which the layout must match.
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Option<Trailer> {
        let sound = bytes.get(..4)? == TRAILER_MAGIC
            && crc32c::crc32c(bytes.get(..32)?) == u32_at(bytes, 32)?;
        let seal = Seal {
            end_offset: u32_at(bytes, 16)?,
            entries_bytes: u32_at(bytes, 20)?,
            records: u32_at(bytes, 24)?,
        };
        let layout_bytes =
            u64::from(seal.end_offset) + u64::from(seal.entries_bytes) + u64::from(SEAL_BYTES);
        let fits = layout_bytes == file_bytes && seal.end_offset >= HEADER_BYTES;
        let trailer = Trailer {
            number: u32_at(bytes, 4)?,
            log_id: u64_at(bytes, 8)?,
            seal,
            entries_checksum: u32_at(bytes, 28)?,
        };
        (sound && fits).then_some(trailer)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_only_valid_at_its_own_position() {
        let seed = Seed::new(7, 1);
        let mut out = Vec::new();
        encode_record(&mut out, seed, 100, RecordKind::Data, b"head", &[b"bo", b"dy"]);
        let header = RecordHeader::decode(&out).expect("decodes");
        assert_eq!((header.kind, header.length, header.head_length), (RecordKind::Data, 8, 4));
        assert_eq!(header.record_bytes() as usize, out.len());
        assert_eq!(header.checksum, seed.checksum(100, &out[4..]));
        for elsewhere in [Seed::new(7, 2), Seed::new(8, 1)] {
            assert_ne!(header.checksum, elsewhere.checksum(100, &out[4..]));
        }
        assert_ne!(header.checksum, seed.checksum(101, &out[4..]));
    }

    #[test]
    fn every_header_is_found_at_its_start() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut found = 0;
        for _ in 0..100_000 {
            let mut bytes: [u8; 10] = std::array::from_fn(|_| rng.u8(..) & rng.u8(..) & rng.u8(..));
            bytes[4..7].fill(0);
            bytes[4] = 8;
            if RecordHeader::decode(&bytes).is_some() {
                assert_eq!(first_kind(&bytes), Some(0), "{bytes:?}");
                found += 1;
            }
        }
        assert!(found > 1000, "{found}");
        assert_eq!(first_kind(br#"{"jid":"0123456789abcdef","args":["ABC", 1.5E3]}"#), None);
        assert_eq!(first_kind(&[0; 100]), None);
    }

    #[test]
    fn header_and_trailer_round_trip_and_detect_flipped_bits() {
        let header = SegmentHeader::encode(99, 12);
        let decoded = SegmentHeader::decode(&header).expect("decodes");
        assert_eq!((decoded.number, decoded.log_id, decoded.version), (12, 99, VERSION));
        let seal = Seal { end_offset: 500, entries_bytes: 40, records: 3 };
        let trailer = Trailer { number: 12, log_id: 99, seal, entries_checksum: 5 };
        let mut bytes = Vec::new();
        trailer.encode(&mut bytes);
        assert_eq!(bytes.len(), TRAILER_BYTES as usize);
        let size = u64::from(seal.file_bytes());
        assert_eq!(Trailer::decode(&bytes, size), Some(trailer));
        assert_eq!(Trailer::decode(&bytes, size + 1), None);
        for bit in 0..header.len() * 8 {
            let mut flipped = header.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&flipped), None, "bit {bit}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Trailer::decode(&flipped, size), None, "bit {bit}");
        }
    }

    #[test]
    fn only_segment_files_have_a_number() {
        assert_eq!(file_number(&file_name(17)), Some(17));
        for name in ["0000000000.log", "17.log", "0000000017.log.damaged", "00000000+7.log", "x"] {
            assert_eq!(file_number(name), None, "{name}");
        }
    }
}

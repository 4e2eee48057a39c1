//! One row of a ring: `checksum u32 | zero u32 | second u64 | value f64 ...`, little-endian.
//!
//! The checksum (CRC-32C) covers everything after it. A row of zeros was never written.

use super::band::Band;

const CHECKSUM_BYTES: usize = 4;
const SECOND_AT: usize = 8;
const VALUES_AT: usize = 16;
const VALUE_BYTES: usize = 8;

/// Returns the bytes of a row with `values` values.
pub(super) const fn bytes(values: usize) -> usize {
    VALUES_AT + values * VALUE_BYTES
}

/// Encodes a row that begins at `second` (since the Unix epoch) into `buffer`. One value per column
/// is the mean; three are minimum, mean and maximum.
pub(super) fn encode(second: u64, bands: &[Band], values_per_column: usize, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&[0; SECOND_AT]);
    buffer.extend_from_slice(&second.to_le_bytes());
    for band in bands {
        let values = [band.min, band.mean, band.max];
        let values = if values_per_column == 1 { &values[1..2] } else { &values[..] };
        values.iter().for_each(|value| buffer.extend_from_slice(&value.to_le_bytes()));
    }
    let checksum = crc32c::crc32c(&buffer[CHECKSUM_BYTES..]);
    buffer[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the second of a valid row; None: torn, damaged or never written.
pub(super) fn second(row: &[u8]) -> Option<u64> {
    let (checksum, rest) = row.split_first_chunk::<CHECKSUM_BYTES>()?;
    let second = u64::from_le_bytes(row.get(SECOND_AT..VALUES_AT)?.try_into().ok()?);
    let whole = crc32c::crc32c(rest) == u32::from_le_bytes(*checksum);
    (whole && second > 0).then_some(second)
}

/// Returns the band of a column; [`Band::NONE`] past the last one.
pub(super) fn band(row: &[u8], column: usize, values_per_column: usize) -> Band {
    let value = |index: usize| {
        let at = VALUES_AT + (column * values_per_column + index) * VALUE_BYTES;
        let bytes = row.get(at..at + VALUE_BYTES).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(f64::NAN, f64::from_le_bytes)
    };
    match values_per_column {
        1 => Band::of(value(0)),
        _ => Band { min: value(0), mean: value(1), max: value(2) },
    }
}

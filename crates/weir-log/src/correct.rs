//! Corrects a record in which one bit is wrong: the checksum identifies the bit.
//!
//! No two flips of single bits have the same effect on a CRC32C in records up to 2^31 bits, so
//! there is at most one candidate. Checking the length as well rejects most records with more
//! damage.

use crate::format::{RECORD_HEADER_BYTES, RecordHeader, Seed};

/// The Castagnoli polynomial, lowest bit first.
const POLYNOMIAL: u32 = 0x82F6_3B78;
const CHECKSUM_BYTES: usize = 4;

/// Returns the record that was written at `offset`, if at most one bit of `bytes` is wrong.
pub(crate) fn corrected(seed: Seed, offset: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < RECORD_HEADER_BYTES as usize {
        return None;
    }
    let (stored, covered) = bytes.split_at(CHECKSUM_BYTES);
    let stored = u32::from_le_bytes(stored.try_into().ok()?);
    let difference = stored ^ seed.checksum(offset, covered);
    let mut record = bytes.to_vec();
    if difference.count_ones() > 1 {
        let bit = wrong_bit(difference, covered.len())?;
        record[CHECKSUM_BYTES + bit / 8] ^= 1 << (bit % 8);
    }
    let header = RecordHeader::decode(&record)?;
    (header.record_bytes() as usize == record.len()).then_some(record)
}

/// Returns the index of the bit that changes the checksum of `bytes` bytes by `difference`.
fn wrong_bit(difference: u32, bytes: usize) -> Option<usize> {
    let mut effect = POLYNOMIAL; // of the last bit
    (0..bytes * 8).rev().find(|_| {
        let is_it = effect == difference;
        effect = effect >> 1 ^ (POLYNOMIAL & 0u32.wrapping_sub(effect & 1));
        is_it
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{self, RecordKind};

    #[test]
    fn any_single_bit_error_is_corrected_and_double_errors_are_not() {
        let seed = Seed::new(7, 3);
        let mut record = Vec::new();
        format::encode_record(&mut record, seed, 500, RecordKind::Data, b"head", &[&[b'x'; 60]]);
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let corrected = corrected(seed, 500, &damaged).expect("one bit");
            assert_eq!(corrected[CHECKSUM_BYTES..], record[CHECKSUM_BYTES..], "bit {bit}");
            damaged[(bit / 8 + 9) % record.len()] ^= 4;
            let two = super::corrected(seed, 500, &damaged);
            assert!(two.is_none_or(|it| it[CHECKSUM_BYTES..] != record[CHECKSUM_BYTES..]));
        }
    }
}

//! Events of an exact size that contain their number, by which they are recognized when they arrive.
//!
//! The data of an event is `wb`, the run's tag, `-`, the number in 10 digits, and filler: plain letters, so
//! that no protocol has to escape it, and always of one size.

use anyhow::{Result, ensure};

const NUMBER_DIGITS: usize = 10;

/// The data of every event of a run but for its number.
#[derive(Debug, Clone)]
pub(crate) struct EventData {
    marker: Vec<u8>,
    filler: String,
    /// Where the last marker was. All events of a run have the same form, so this is nearly always right.
    marker_at: usize,
}

impl EventData {
    /// Creates data of exactly `bytes`. Fails if the smallest possible event is longer.
    pub(crate) fn new(tag: u32, bytes: usize) -> Result<Self> {
        let marker = format!("wb{tag:08x}-").into_bytes();
        let smallest = marker.len() + NUMBER_DIGITS;
        ensure!(
            bytes >= smallest,
            "--payload-bytes {bytes}: the smallest event has {smallest} bytes"
        );
        Ok(Self { marker, filler: "x".repeat(bytes - smallest), marker_at: 0 })
    }

    pub(crate) fn of(&self, number: u32) -> String {
        let marker = String::from_utf8_lossy(&self.marker);
        format!("{marker}{number:0NUMBER_DIGITS$}{}", self.filler)
    }

    /// Returns the number of the first event in `text`, and where the text after the number begins.
    pub(crate) fn find(&mut self, text: &[u8]) -> Option<(u32, usize)> {
        let expected = text.get(self.marker_at..);
        if !expected.is_some_and(|text| text.starts_with(&self.marker)) {
            self.marker_at = memchr::memmem::find(text, &self.marker)?;
        }
        let start = self.marker_at + self.marker.len();
        let digits = text.get(start..start + NUMBER_DIGITS)?;
        let number = digits.iter().try_fold(0_u32, |number, digit| {
            let digit = char::from(*digit).to_digit(10)?;
            number.checked_mul(10)?.checked_add(digit)
        })?;
        Some((number, start + NUMBER_DIGITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_has_the_requested_size() {
        for bytes in [21, 150, 10_000] {
            assert_eq!(EventData::new(7, bytes).expect("large enough").of(42).len(), bytes);
        }
        let error = EventData::new(7, 20).expect_err("too small").to_string();
        assert!(error.contains("--payload-bytes 20: the smallest event has 21 bytes"), "{error}");
    }

    #[test]
    fn event_number_is_found_anywhere_for_this_run_only() {
        let mut data = EventData::new(7, 50).expect("large enough");
        for before in ["{\"data\":\"", "", "{\"channel\":\"c\",\"data\":\"", "{\"data\":\""] {
            let text = format!("{before}{}\"}}", data.of(1_234_567));
            let at = before.len() + "wb00000007-".len() + NUMBER_DIGITS;
            assert_eq!(data.find(text.as_bytes()), Some((1_234_567, at)), "{text}");
        }
        let other = EventData::new(8, 50).expect("large enough").of(3);
        assert_eq!(data.find(other.as_bytes()), None);
        assert_eq!(data.find(b"wb00000007-12"), None);
    }
}

//! Sidekiq's `error_backtrace`: base64 of zlib of a JSON array of lines.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// A backtrace of more bytes is not shown: a few kilobytes could otherwise inflate to gigabytes.
const INFLATED_BYTES_MAX: u64 = 1 << 20;

/// Returns the text for the member, which needs no escaping.
pub(super) fn pack(lines: &[String]) -> String {
    // Serializing texts and writing to a Vec can't fail.
    let json = serde_json::to_vec(lines).unwrap_or_default();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(&json).and_then(|()| encoder.finish());
    STANDARD.encode(packed.unwrap_or_default())
}

/// Parses the raw value of the member: the packed text, or a plain array as in older versions.
/// Returns no lines if it is malformed or too large.
pub(super) fn unpack(value: &str) -> Vec<String> {
    if value.starts_with('[') {
        return serde_json::from_str(value).unwrap_or_default();
    }
    let text: String = serde_json::from_str(value).unwrap_or_default();
    // Ruby breaks the text into lines.
    let text: String = text.split_ascii_whitespace().collect();
    inflate(&STANDARD.decode(text).unwrap_or_default()).unwrap_or_default()
}

fn inflate(packed: &[u8]) -> Option<Vec<String>> {
    let mut json = Vec::new();
    ZlibDecoder::new(packed).take(INFLATED_BYTES_MAX).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_that_inflates_to_gigabytes_is_not_shown() {
        let bomb = vec!["0".repeat(4 << 20)];
        let packed = format!("\"{}\"", pack(&bomb));
        assert!(packed.len() < 16 << 10, "{}", packed.len());
        assert_eq!(unpack(&packed), [""; 0]);
    }

    #[test]
    fn older_and_broken_forms() {
        assert_eq!(unpack(r#"["a","b"]"#), ["a", "b"]);
        for odd in ["null", "7", "\"\"", "\"!!\"", "\"AAAA\"", "[1]", "{}"] {
            assert_eq!(unpack(odd), [""; 0], "{odd}");
        }
    }

    proptest! {
        #[test]
        fn lines_survive(lines: Vec<String>, line_bytes in 4..80_usize) {
            let packed = pack(&lines);
            prop_assert_eq!(&unpack(&format!("\"{packed}\"")), &lines);
            let broken: Vec<_> = packed.as_bytes().chunks(line_bytes).map(String::from_utf8_lossy).collect();
            prop_assert_eq!(unpack(&format!("\"{}\\n\"", broken.join("\\n"))), lines);
        }
    }
}

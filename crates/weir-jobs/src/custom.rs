//! The members of a job's `custom` that the server obeys: those of Faktory Enterprise. All other
//! members are the application's own.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_base::clock::Timestamp;

/// What a pushed job asks for in its `custom`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomMembers {
    /// A job that is not fetched before this time is dropped.
    pub expires_at: Option<Timestamp>,
    /// While this job holds its lock, an equal job is not stored.
    pub unique: Option<UniqueRule>,
    /// TRACK reports the job's state and progress.
    pub tracked: bool,
    /// The batch that the job belongs to. [`BatchId::NONE`] if no batch can have the id.
    pub batch: Option<BatchId>,
}

impl CustomMembers {
    /// Returns whether the job asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Identifies a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub(crate) u64);

impl BatchId {
    /// The id of no batch.
    pub const NONE: Self = Self(0);

    const PREFIX: &str = "b-";

    /// Returns a random id.
    #[must_use]
    pub fn random() -> Self {
        Self(fastrand::u64(1..))
    }

    /// Parses the text of an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let is_whole = digits.len() == 16 && digits.bytes().all(is_digit);
        let id = u64::from_str_radix(digits, 16).ok().filter(|id| is_whole && *id != 0);
        id.map(Self)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{:016x}", Self::PREFIX, self.0)
    }
}

/// `unique_for` and `unique_until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueRule {
    pub key: UniqueKey,
    /// The lock lasts this long from the push, or from `at`.
    pub lasts: Duration,
    pub until: UniqueUntil,
}

/// The event that frees the lock of a unique job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueUntil {
    /// The job's end.
    #[default]
    Success,
    /// Its fetch.
    Start,
}

/// Identifies equal jobs: half of the SHA-256 of jobtype, queue and args. A shorter or faster hash
/// would let a producer choose args that keep another job out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueKey(pub(crate) u128);

impl UniqueKey {
    /// Returns the key of a job. `args` is valid JSON: white space between tokens does not count,
    /// numbers and strings count as they are written.
    #[must_use]
    pub fn of(jobtype: &str, queue: &str, args: &str) -> Self {
        let mut digest = Sha256::new();
        for text in [jobtype, queue] {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        without_white_space(args, |part| digest.update(part));
        let digest = digest.finalize();
        let half = digest.first_chunk().expect("a SHA-256 has 32 bytes");
        Self(u128::from_le_bytes(*half))
    }
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Debug for UniqueKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Passes `json` to `write` in parts, without the white space between its tokens.
fn without_white_space(json: &str, mut write: impl FnMut(&[u8])) {
    let bytes = json.as_bytes();
    let (mut start, mut at, mut in_string) = (0, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => {
                write(&bytes[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    write(&bytes[start.min(bytes.len())..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compact(json: &str) -> String {
        let mut text = Vec::new();
        without_white_space(json, |part| text.extend_from_slice(part));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn only_white_space_between_tokens_is_left_out() {
        for (json, expected) in [
            ("[]", "[]"),
            (" [ 1 ,\n\t2.0 ]\r\n", "[1,2.0]"),
            (r#"[" a \" b ", { "k" : "\\" } , 3]"#, r#"[" a \" b ",{"k":"\\"},3]"#),
        ] {
            assert_eq!(compact(json), expected);
        }
    }

    #[test]
    fn jobs_differ_in_type_queue_or_args_as_written() {
        let key = UniqueKey::of("Resize", "default", "[1,\"a b\"]");
        assert_eq!(UniqueKey::of("Resize", "default", " [1 , \"a b\"]"), key);
        for (jobtype, queue, args) in [
            ("Resize", "default", "[1.0,\"a b\"]"),
            ("Resize", "default", "[1,\"a  b\"]"),
            ("Resized", "efault", "[1,\"a b\"]"),
            ("Resize", "other", "[1,\"a b\"]"),
        ] {
            assert_ne!(UniqueKey::of(jobtype, queue, args), key, "{jobtype} {queue} {args}");
        }
    }

    #[test]
    fn ids_of_batches_come_back() {
        for id in [1, 7 << 40, u64::MAX] {
            assert_eq!(BatchId::parse(&BatchId(id).to_string()), Some(BatchId(id)));
        }
        for text in
            ["", "b-", "b-7", "b-0000000000000000", "B-0000000000000001", "b-+000000000000001"]
        {
            assert_eq!(BatchId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn pretty_json_has_the_key_of_compact_json(texts: Vec<String>, numbers: Vec<i64>) {
            let args = serde_json::json!([texts, numbers, {"nested": texts}]);
            let (small, pretty) = (args.to_string(), serde_json::to_string_pretty(&args).unwrap());
            prop_assert_eq!(compact(&pretty), small.clone());
            prop_assert_eq!(UniqueKey::of("T", "q", &small), UniqueKey::of("T", "q", &pretty));
        }

        #[test]
        fn any_text_is_read_to_its_end(text: String) {
            let _ = compact(&text);
        }
    }
}

//! Reads and writes the parts of a job's JSON that the server changes.
//!
//! The text is `base` + `tail`. The base never changes: it is the text as pushed, without its
//! closing brace and the members that the server owns, plus `created_at`, `queue` and `retry` where
//! the client sent none. The server rewrites the tail at each step; it ends with the closing brace:
//! `,"failure":{..},"enqueued_at":"2026-11-20T19:28:22.123456Z"}`. Either member may be missing.
//! `enqueued_at` comes last and has a fixed length, so the parts of a tail are located by length
//! alone, without parsing the job.

use std::io::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::model::FailureState;
use crate::stamp::{STAMP_BYTES, Stamps, parse_rfc3339, rfc3339};

const CREATED_AT: &[u8] = b",\"created_at\":\"";
const QUEUE: &[u8] = b",\"queue\":\"";
const FAILURE: &[u8] = b",\"failure\":";
const ENQUEUED_AT: &[u8] = b",\"enqueued_at\":\"";
const QUOTE: &[u8] = b"\"";
const CLOSE: &[u8] = b"}";

/// Members that are added to the base because the client left them out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added<'a> {
    pub(crate) created_at: Option<Timestamp>,
    /// A valid queue name, which needs no escaping.
    pub(crate) queue: Option<&'a str>,
    pub(crate) retry: Option<i32>,
}

pub(crate) fn write_added(added: &Added<'_>, stamps: &mut Stamps, target: &mut Vec<u8>) {
    if let Some(time) = added.created_at {
        write_all(target, [CREATED_AT, stamps.format(time), QUOTE]);
    }
    if let Some(name) = added.queue {
        write_all(target, [QUEUE, name.as_bytes(), QUOTE]);
    }
    if let Some(retries) = added.retry {
        // Writing to a Vec can't fail.
        let _ = write!(target, ",\"retry\":{retries}");
    }
}

/// Returns the queue that a stored job names.
pub(crate) fn queue(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct NamedQueue {
        queue: String,
    }
    serde_json::from_slice::<NamedQueue>(json).ok().map(|named| named.queue)
}

/// Writes a tail. `failure` is the whole member as [`parts`] returns it, or empty.
pub(crate) fn write_tail(
    failure: &[u8],
    enqueued_at: Option<Timestamp>,
    stamps: &mut Stamps,
    target: &mut Vec<u8>,
) {
    target.extend_from_slice(failure);
    if let Some(time) = enqueued_at {
        write_all(target, [ENQUEUED_AT, stamps.format(time), QUOTE]);
    }
    target.extend_from_slice(CLOSE);
}

fn write_all<const N: usize>(target: &mut Vec<u8>, parts: [&[u8]; N]) {
    for part in parts {
        target.extend_from_slice(part);
    }
}

/// The parts of a job's text. Each member includes its leading comma, or is empty.
struct TextParts<'a> {
    base: &'a [u8],
    failure: &'a [u8],
    enqueued_at: &'a [u8],
}

fn parts(json: &[u8], base_bytes: usize) -> TextParts<'_> {
    const STAMPED: usize = ENQUEUED_AT.len() + STAMP_BYTES + QUOTE.len();
    let (base, tail) = json.split_at(base_bytes.min(json.len()));
    let members = tail.strip_suffix(CLOSE).unwrap_or(tail);
    let behind = members.len().saturating_sub(STAMPED);
    let split = if members[behind..].starts_with(ENQUEUED_AT) { behind } else { members.len() };
    let (failure, enqueued_at) = members.split_at(split);
    TextParts { base, failure, enqueued_at }
}

/// Returns the text of a job that enters its queue `now`: with a new `enqueued_at` and the same
/// failure.
#[must_use]
pub fn enqueued(json: &[u8], base_bytes: usize, now: Timestamp) -> Vec<u8> {
    let TextParts { base, failure, .. } = parts(json, base_bytes);
    let mut text = Vec::with_capacity(json.len() + ENQUEUED_AT.len() + STAMP_BYTES + QUOTE.len());
    text.extend_from_slice(base);
    write_tail(failure, Some(now), &mut Stamps::default(), &mut text);
    text
}

/// Returns the text of a job that another queue gets, and its `base_bytes`. `None` if the text names no
/// queue in a way that can be replaced.
pub(crate) fn in_queue(json: &[u8], base_bytes: usize, queue: &str) -> Option<(Vec<u8>, usize)> {
    #[derive(Deserialize)]
    struct RawQueue<'a> {
        #[serde(borrow)]
        queue: &'a RawValue,
    }
    let named: RawQueue<'_> = serde_json::from_slice(json).ok()?;
    let value = named.queue.get();
    let start = value.as_ptr().addr() - json.as_ptr().addr();
    let end = start + value.len();
    if end > base_bytes {
        return None;
    }
    // A valid queue name needs no escaping.
    let text = [&json[..start], QUOTE, queue.as_bytes(), QUOTE, &json[end..]].concat();
    let base_bytes = base_bytes + text.len() - json.len();
    Some((text, base_bytes))
}

/// Returns the text of a scheduled job or a retry that is due at another time, and its `base_bytes`: its `at`, and the
/// `next_at` of its failure, are that time, where it has them.
pub(crate) fn due_at(json: &[u8], base_bytes: usize, at: Timestamp) -> (Vec<u8>, usize) {
    #[derive(Deserialize)]
    struct RawAt<'a> {
        #[serde(borrow)]
        at: &'a RawValue,
    }
    let text = match failure(json, base_bytes) {
        Some(failure) => failed(json, base_bytes, &FailureState { next_at: Some(at), ..failure }),
        None => json.to_vec(),
    };
    let Ok(named) = serde_json::from_slice::<RawAt<'_>>(&text) else { return (text, base_bytes) };
    let value = named.at.get();
    let start = value.as_ptr().addr() - text.as_ptr().addr();
    let end = start + value.len();
    if end > base_bytes {
        return (text, base_bytes);
    }
    let stamp = rfc3339(at);
    let changed = [&text[..start], QUOTE, stamp.as_bytes(), QUOTE, &text[end..]].concat();
    let base_bytes = base_bytes + changed.len() - text.len();
    (changed, base_bytes)
}

/// Returns the text of a job that failed: with a new failure and the same `enqueued_at`.
#[must_use]
pub fn failed(json: &[u8], base_bytes: usize, failure: &FailureState) -> Vec<u8> {
    let TextParts { base, enqueued_at, .. } = parts(json, base_bytes);
    // Serializing a struct of texts and numbers can't fail.
    let member = serde_json::to_vec(&FailureText::from(failure)).unwrap_or_default();
    [base, FAILURE, &member, enqueued_at, CLOSE].concat()
}

/// Returns the failure that the text contains, if the job has failed before.
#[must_use]
pub fn failure(json: &[u8], base_bytes: usize) -> Option<FailureState> {
    let member = parts(json, base_bytes).failure.strip_prefix(FAILURE)?;
    let text: FailureText = serde_json::from_slice(member).ok()?;
    Some(text.into())
}

/// Parses the value of a `failure` member. Returns `None` if it is malformed.
#[must_use]
pub fn parse_failure(json: &str) -> Option<FailureState> {
    serde_json::from_str::<FailureText>(json).ok().map(FailureState::from)
}

/// The protocol's form of a failure. Empty members are left out, as Faktory does.
#[derive(Serialize, Deserialize)]
struct FailureText {
    retry_count: u32,
    remaining: u32,
    failed_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    errtype: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    backtrace: Vec<String>,
}

impl From<&FailureState> for FailureText {
    fn from(failure: &FailureState) -> Self {
        Self {
            retry_count: failure.retry_count,
            remaining: failure.remaining,
            failed_at: rfc3339(failure.failed_at),
            next_at: failure.next_at.map(rfc3339),
            message: failure.message.clone(),
            errtype: failure.errtype.clone(),
            backtrace: failure.backtrace.clone(),
        }
    }
}

impl From<FailureText> for FailureState {
    fn from(text: FailureText) -> Self {
        Self {
            retry_count: text.retry_count,
            remaining: text.remaining,
            failed_at: parse_rfc3339(&text.failed_at).unwrap_or_default(),
            next_at: text.next_at.and_then(|at| parse_rfc3339(&at).ok()),
            message: text.message,
            errtype: text.errtype,
            backtrace: text.backtrace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rescheduled_job_has_its_new_time() {
        let base = r#"{"jid":"12345678","at" : "2026-11-20T20:28:23.5+01:00","args":[{"at":1}]"#;
        let json = format!("{base}}}");
        let (text, base_bytes) = due_at(json.as_bytes(), base.len(), at(86_400));
        let expected =
            r#"{"jid":"12345678","at" : "1970-01-02T00:00:00.000000Z","args":[{"at":1}]}"#;
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        assert_eq!(&text[base_bytes..], b"}");
        let failure =
            FailureState { next_at: Some(at(2)), failed_at: at(1), ..FailureState::default() };
        let retry = failed(&text, base_bytes, &failure);
        let (retry, base_bytes) = due_at(&retry, base_bytes, at(9));
        let changed = super::failure(&retry, base_bytes).unwrap();
        assert_eq!((changed.next_at, changed.failed_at), (Some(at(9)), at(1)));
        let without = format!("{BASE}}}");
        assert_eq!(
            due_at(without.as_bytes(), BASE.len(), at(9)),
            (without.into_bytes(), BASE.len())
        );
    }

    const BASE: &str = r#"{"jid":"12345678","args":[1 , 12345678901234567890]"#;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn some_failure() -> FailureState {
        FailureState {
            retry_count: 1,
            remaining: 24,
            failed_at: at(1),
            next_at: Some(at(2)),
            message: "it \"broke\"\n\u{1F600}".to_owned(),
            errtype: "E}".to_owned(),
            backtrace: vec!["a,\"enqueued_at\":\"".to_owned(), String::new()],
        }
    }

    #[test]
    fn a_job_keeps_its_base_through_queue_failure_and_requeue() {
        let scheduled = format!("{BASE}}}").into_bytes();
        let first = enqueued(&scheduled, BASE.len(), at(10));
        assert_eq!(
            String::from_utf8_lossy(&first),
            format!(r#"{BASE},"enqueued_at":"1970-01-01T00:00:10.000000Z"}}"#)
        );
        let broken = failed(&first, BASE.len(), &some_failure());
        assert_eq!(failure(&broken, BASE.len()), Some(some_failure()));
        assert!(broken.ends_with(br#","enqueued_at":"1970-01-01T00:00:10.000000Z"}"#));
        let again = enqueued(&broken, BASE.len(), at(20));
        assert_eq!(failure(&again, BASE.len()), Some(some_failure()));
        assert!(again.ends_with(br#","enqueued_at":"1970-01-01T00:00:20.000000Z"}"#));
        assert_eq!(again.len(), broken.len(), "the old time is replaced");
        assert!(again.starts_with(BASE.as_bytes()));
        assert!(serde_json::from_slice::<serde_json::Value>(&again).is_ok());
    }

    #[test]
    fn a_second_failure_replaces_the_first() {
        let json = format!("{BASE}}}").into_bytes();
        let first = failed(&json, BASE.len(), &some_failure());
        let second = failed(&first, BASE.len(), &FailureState { retry_count: 2, ..some_failure() });
        assert_eq!(second.len(), first.len());
        assert_eq!(failure(&second, BASE.len()).unwrap().retry_count, 2);
    }

    #[test]
    fn another_queue_replaces_only_the_name() {
        let base =
            r#"{"jid":"12345678","args":["\"queue\":1", 1.50], "queue" : "a" ,"x":{"queue":"b"}"#;
        let json = format!(r#"{base},"enqueued_at":"1970-01-01T00:00:10.000000Z"}}"#).into_bytes();
        let (moved, base_bytes) = in_queue(&json, base.len(), "longer.name").unwrap();
        let expected = base.replace(r#""a""#, r#""longer.name""#);
        assert_eq!(base_bytes, expected.len());
        assert!(moved.starts_with(expected.as_bytes()));
        assert_eq!(queue(&moved).as_deref(), Some("longer.name"));
        let (back, base_bytes) = in_queue(&moved, base_bytes, "a").unwrap();
        assert_eq!((back, base_bytes), (json, base.len()));
        assert_eq!(in_queue(b"{\"args\":[]}", 11, "a"), None);
        assert_eq!(in_queue(b"{\"queue\":\"a\"}", 3, "b"), None, "it is not in the base");
    }

    #[test]
    fn empty_parts_of_a_failure_are_left_out() {
        let json =
            failed(b"{\"a\":1}", 6, &FailureState { retry_count: 3, ..FailureState::default() });
        assert_eq!(
            String::from_utf8_lossy(&json),
            r#"{"a":1,"failure":{"retry_count":3,"remaining":0,"failed_at":"1970-01-01T00:00:00.000000Z"}}"#
        );
        assert_eq!(failure(b"{\"a\":1}", 6), None);
    }
}

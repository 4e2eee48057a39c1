//! The greeting: the server's `+HI`, then the client's HELLO.

use std::fmt::Write as _;

use serde::Deserialize;

use super::error::FaktoryError;
use super::password::Challenge;
use super::payload;
use crate::model::Wid;
use crate::settings::JobServerLimits;
use crate::workers::Profile;

/// Maximum number of labels of one worker; further ones are ignored.
const LABELS_MAX: usize = 64;

/// The start of a HELLO. The connection of a client that sends anything else is closed.
const START: &[u8] = b"HELLO {";

/// The content of HELLO.
#[derive(Debug)]
pub(crate) struct Hello {
    /// `None` for a producer.
    pub(crate) wid: Option<Wid>,
    pub(crate) profile: Profile,
    /// The client's protocol version. Below 2 the password is hashed once.
    pub(crate) version: u64,
    pub(crate) password_hash: String,
}

/// Returns `HI {..}` without spaces in the JSON, because the Node client splits the line at them.
/// Clients for PHP and Java compare the whole line, so the limit of a batch is announced only if
/// configured.
pub(crate) fn greeting(challenge: Option<&Challenge>, batch_jobs_max: Option<usize>) -> String {
    let mut text = String::from("HI {\"v\":2");
    if let Some(Challenge { iterations, salt }) = challenge {
        // Writing to a String can't fail.
        let _ = write!(text, ",\"i\":{iterations},\"s\":\"{salt}\"");
    }
    if let Some(max) = batch_jobs_max {
        let _ = write!(text, ",\"weir\":{{\"batch\":{max}}}");
    }
    text.push('}');
    text
}

impl Hello {
    /// Parses the HELLO line, including its line end. Returns `None` if it is no HELLO.
    pub(crate) fn parse(
        line: &[u8],
        limits: &JobServerLimits,
    ) -> Option<Result<Self, FaktoryError>> {
        line.starts_with(START).then(|| Self::parse_json(&line[START.len() - 1..], limits))
    }

    fn parse_json(json: &[u8], limits: &JobServerLimits) -> Result<Self, FaktoryError> {
        let text: HelloText = payload::parse("HELLO", json)?;
        let max = limits.id_bytes_max;
        let wid = text.wid.unwrap_or_default();
        if wid.len() > max {
            return Err(FaktoryError::IdTooLong { what: "wid", max });
        }
        let mut labels = text.labels.unwrap_or_default();
        labels.truncate(LABELS_MAX);
        for label in &mut labels {
            label.truncate(label.floor_char_boundary(max));
        }
        let mut hostname = text.hostname.unwrap_or_default();
        hostname.truncate(hostname.floor_char_boundary(max));
        Ok(Self {
            wid: (!wid.is_empty()).then(|| Wid::new(&wid)),
            profile: Profile {
                hostname,
                pid: non_negative(text.pid),
                labels,
                rss_kb: non_negative(text.rss_kb),
                can_cancel: text.weir.is_some_and(|weir| weir.cancel),
            },
            version: text.v.unwrap_or(1),
            password_hash: text.pwdhash.unwrap_or_default(),
        })
    }
}

/// Returns 0 for a number that is absent or negative. For values that are only displayed.
fn non_negative(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// The JSON of HELLO. Clients omit members that they don't have, or send them as null. `username`
/// and unknown members are ignored.
#[derive(Deserialize)]
struct HelloText {
    v: Option<u64>,
    hostname: Option<String>,
    wid: Option<String>,
    pid: Option<i64>,
    labels: Option<Vec<String>>,
    pwdhash: Option<String>,
    rss_kb: Option<i64>,
    weir: Option<Extensions>,
}

/// What the client understands beyond the protocol of Faktory.
#[derive(Deserialize)]
struct Extensions {
    #[serde(default)]
    cancel: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Result<Hello, FaktoryError>> {
        Hello::parse(line.as_bytes(), &JobServerLimits::default())
    }

    #[test]
    fn greeting_has_no_spaces() {
        assert_eq!(greeting(None, None), "HI {\"v\":2}");
        assert_eq!(greeting(None, Some(9)), "HI {\"v\":2,\"weir\":{\"batch\":9}}");
        let challenge = Challenge { iterations: 4000, salt: "ab".into() };
        assert_eq!(greeting(Some(&challenge), None), "HI {\"v\":2,\"i\":4000,\"s\":\"ab\"}");
    }

    #[test]
    fn hello_must_start_exactly() {
        for line in ["", "HELLO", "HELLO  {}", "hello {}", "GET / HTTP/1.1\r\n", "HELLO []"] {
            assert!(parse(line).is_none(), "{line}");
        }
        assert!(parse("HELLO {}\r\n").is_some_and(|hello| hello.is_ok()));
    }

    #[test]
    fn empty_wid_is_a_producer() {
        for line in ["HELLO {}", "HELLO {\"wid\":\"\"}", "HELLO {\"wid\":null,\"labels\":null}"] {
            assert_eq!(parse(line).unwrap().unwrap().wid, None, "{line}");
        }
        let hello = parse("HELLO {\"v\":2,\"wid\":\"w1\",\"pid\":7,\"x\":1}").unwrap().unwrap();
        assert_eq!(hello.wid, Some(Wid::new("w1")));
        assert_eq!((hello.version, hello.profile.pid), (2, 7));
        assert!(!hello.profile.can_cancel);
        for (weir, expected) in [("{\"cancel\":true}", true), ("{}", false), ("null", false)] {
            let hello =
                parse(&format!("HELLO {{\"wid\":\"w1\",\"weir\":{weir}}}")).unwrap().unwrap();
            assert_eq!(hello.profile.can_cancel, expected, "{weir}");
        }
        let profile = parse("HELLO {\"pid\":-1,\"rss_kb\":-1}").unwrap().unwrap().profile;
        assert_eq!((profile.pid, profile.rss_kb), (0, 0));
    }

    #[test]
    fn worker_profile_is_truncated() {
        let long = "ä".repeat(1_000);
        let labels = vec!["l"; 1_000].join("\",\"");
        let line = format!("HELLO {{\"hostname\":\"{long}\",\"labels\":[\"{labels}\"]}}");
        let profile = parse(&line).unwrap().unwrap().profile;
        assert_eq!(profile.hostname, "ä".repeat(127));
        assert_eq!(profile.labels.len(), LABELS_MAX);
        let line = format!("HELLO {{\"wid\":\"{long}\"}}");
        assert!(matches!(parse(&line), Some(Err(FaktoryError::IdTooLong { .. }))));
    }
}

//! Extracts the properties of a job that may be reported: all except its arguments, which may
//! contain private data.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::{error_message, time};

/// Longer strings are truncated. Class names are not that long.
const WORD_BYTES_MAX: usize = 200;
/// Bytes of a job's arguments that are searched for a host.
const ARGUMENTS_SEARCHED_MAX: usize = 16 * 1024;

/// A job without its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// The class that runs the job. For `ActiveJob`, the wrapped class.
    pub class: String,
    /// Enqueue time, or creation time if missing.
    pub enqueued_at: Option<Timestamp>,
    /// The remote host, if the arguments contain a URL.
    pub host: Option<String>,
    /// The class of the last error.
    pub error: Option<String>,
    /// The message of the last error: one short line, in which passwords are masked.
    pub error_message: Option<String>,
    /// Number of retries so far.
    pub retries: u64,
    /// When it failed for the first time.
    pub failed_at: Option<Timestamp>,
    /// When it failed for the last time, if it was retried.
    pub retried_at: Option<Timestamp>,
    /// Size of the job in bytes, with its arguments.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    class: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    wrapped: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    display_class: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "time::deserialize")]
    enqueued_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time::deserialize")]
    created_at: Option<Timestamp>,
    #[serde(borrow, default)]
    error_class: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error_message: Option<&'a RawValue>,
    #[serde(default)]
    retry_count: Option<u64>,
    #[serde(default, deserialize_with = "time::deserialize")]
    failed_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time::deserialize")]
    retried_at: Option<Timestamp>,
}

impl JobSummary {
    /// Parses a payload. Returns `None` if it is not a job.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let bytes = payload.len() as u64;
        let payload: Payload<'_> = serde_json::from_slice(payload).ok()?;
        let class = payload.display_class.or(payload.wrapped).or(payload.class)?;
        Some(Self {
            class: word(&class),
            enqueued_at: payload.enqueued_at.or(payload.created_at),
            host: payload.args.and_then(|arguments| host(arguments.get())),
            error: payload.error_class.map(|error| word(&error)),
            error_message: payload.error_message.and_then(|message| error_message(message.get())),
            retries: payload.retry_count.map_or(0, |count| count.saturating_add(1)),
            failed_at: payload.failed_at,
            retried_at: payload.retried_at,
            bytes,
        })
    }
}

/// Returns the message of an error from its JSON. Anything other than a string is left out.
fn error_message(json: &str) -> Option<String> {
    let message: Cow<'_, str> = serde_json::from_str(json).ok()?;
    error_message::shortened(&message)
}

fn word(text: &str) -> String {
    let end = (0..=WORD_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// Returns the host of the first URL in the arguments.
fn host(arguments: &str) -> Option<String> {
    let searched =
        arguments.as_bytes().get(..ARGUMENTS_SEARCHED_MAX).unwrap_or(arguments.as_bytes());
    let text = String::from_utf8_lossy(searched);
    let (_, rest) = text.split_once("https://").or_else(|| text.split_once("http://"))?;
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    let end = rest.find(|letter| !is_host(letter)).unwrap_or(rest.len());
    // In "user:password@host", the part before the @ is not a host and may be secret.
    let after = &rest[end..];
    let is_user = after.starts_with('@')
        || after.strip_prefix(':').is_some_and(|it| {
            it.split(['/', '"', '?']).next().is_some_and(|authority| authority.contains('@'))
        });
    let host = &rest[..end];
    (host.contains('.') && !is_user).then(|| word(&host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(json: &str) -> JobSummary {
        JobSummary::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_delivery_tells_class_host_and_time_but_no_argument() {
        let job = parse(
            r#"{"class":"DeliveryWorker","args":["{\"content\":\"secret\"}",1,"https://Far.Example/inbox"],
                "queue":"push","jid":"0123456789abcdef01234567","enqueued_at":1763792000.5,"retry":16}"#,
        );
        assert_eq!(job.class, "DeliveryWorker");
        assert_eq!(job.host.as_deref(), Some("far.example"));
        assert_eq!(job.enqueued_at, Some(Timestamp::from_millis(1_763_792_000_500)));
        assert!(!format!("{job:?}").contains("secret"));
    }

    #[test]
    fn version_8_has_milliseconds_and_wrapped_jobs_their_own_class() {
        let job = parse(
            r#"{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"CleanJob","args":[],
                "enqueued_at":1763792000500,"error_class":"IOError","retry_count":0}"#,
        );
        assert_eq!((job.class.as_str(), job.retries), ("CleanJob", 1));
        assert_eq!(job.enqueued_at, Some(Timestamp::from_millis(1_763_792_000_500)));
        assert_eq!(job.error.as_deref(), Some("IOError"));
    }

    #[test]
    fn the_message_of_an_error_is_shown_without_its_password() {
        let job = |message: &str| {
            parse(&format!(r#"{{"class":"A","error_class":"IOError","error_message":{message}}}"#))
        };
        let told = job(r#""can't connect to redis://:hunter2@a:1\nreason""#);
        assert_eq!(told.error_message.as_deref(), Some("can't connect to redis://***@a:1"));
        for odd in ["7", "null", "{}", r#""""#] {
            assert_eq!(job(odd).error_message, None, "{odd}");
            assert_eq!(job(odd).error.as_deref(), Some("IOError"), "{odd}");
        }
    }

    #[test]
    fn who_does_not_say_when_it_was_enqueued_says_when_it_was_made() {
        for times in
            [r#""created_at":1763792000"#, r#""created_at":1763792000,"enqueued_at":1e300"#]
        {
            let job = parse(&format!(r#"{{"class":"A",{times}}}"#));
            assert_eq!(job.enqueued_at, Some(Timestamp::from_millis(1_763_792_000_000)), "{times}");
        }
    }

    #[test]
    fn no_password_is_taken_for_a_host() {
        for arguments in [
            r#"["https://user.name:pass.word@far.example/"]"#,
            r#"["https://user.name@far.example/"]"#,
            r#"["https://localhost/"]"#,
        ] {
            assert_eq!(host(arguments), None, "{arguments}");
        }
        assert_eq!(host(r#"["http://a.example:8080/x@y"]"#).as_deref(), Some("a.example"));
    }

    #[test]
    fn odd_payloads_are_no_jobs() {
        for odd in ["", "[]", "7", "{}", "{\"class\":7}", "\u{0}"] {
            assert_eq!(JobSummary::parse(odd.as_bytes()), None, "{odd:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_words_are_bounded(bytes: Vec<u8>, class in ".{0,300}", text in ".{0,80}") {
            let _ = JobSummary::parse(&bytes);
            let _ = host(&text);
            let json = serde_json::json!({ "class": class, "args": [format!("https://{text}")] });
            let job = JobSummary::parse(json.to_string().as_bytes()).unwrap();
            prop_assert!(job.class.len() <= WORD_BYTES_MAX);
            prop_assert!(job.host.is_none_or(|host| host.len() <= WORD_BYTES_MAX));
        }
    }
}

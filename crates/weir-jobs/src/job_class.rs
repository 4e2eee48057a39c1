//! The class of a job, by which operators know it.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;

use crate::key_path::KeyPath;

/// Bytes of a class. A longer text is none.
const CLASS_BYTES_MAX: usize = 255;

/// The member in which adapters of `ActiveJob` name the class that a job wraps: Sidekiq's and Faktory's.
static WRAPPED: LazyLock<[Option<KeyPath>; 2]> =
    LazyLock::new(|| ["/wrapped", "/custom/wrapped"].map(|path| path.parse().ok()));

/// Returns the class of a job with this JSON: that which it wraps, or else its `jobtype`.
#[must_use]
pub fn job_class<'a>(jobtype: &'a str, json: &'a [u8]) -> Cow<'a, str> {
    // Each job that starts is asked, and hardly any has the member.
    if memmem::find(json, b"\"wrapped\"").is_none() {
        return Cow::Borrowed(jobtype);
    }
    let mut wrapped = WRAPPED.iter().flatten().filter_map(|path| path.find(json));
    let class = wrapped.find(|class| (1..=CLASS_BYTES_MAX).contains(&class.len()));
    class.unwrap_or(Cow::Borrowed(jobtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_class_that_it_wraps() {
        for (json, class) in [
            (r#"{"jobtype":"W","args":[]}"#, "W"),
            (r#"{"jobtype":"W","wrapped":"Clean","args":[]}"#, "Clean"),
            (r#"{"jobtype":"W","args":[],"custom":{"wrapped":"Clean\u00e9"}}"#, "Cleané"),
            (r#"{"jobtype":"W","args":[{"wrapped":"Clean"}],"custom":{"a":"wrapped"}}"#, "W"),
            (r#"{"jobtype":"W","wrapped":"","custom":{"wrapped":"Clean"}}"#, "Clean"),
            (r#"{"jobtype":"W","wrapped":null,"custom":7}"#, "W"),
        ] {
            assert_eq!(job_class("W", json.as_bytes()), class, "{json}");
        }
        let long = format!(r#"{{"wrapped":"{}"}}"#, "x".repeat(256));
        assert_eq!(job_class("W", long.as_bytes()), "W");
    }
}

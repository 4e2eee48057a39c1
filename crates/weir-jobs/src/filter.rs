//! Matches jobs against a [`Filter`].

use crate::job_class::job_class;
use crate::store::Filter;

impl Filter {
    /// Returns whether the job matches. If the filter lists jids, only they count; an empty filter
    /// matches every job.
    #[must_use]
    pub fn matches(&self, jid: &str, jobtype: &str, json: &[u8]) -> bool {
        if !self.jids.is_empty() {
            return self.jids.iter().any(|wanted| wanted == jid);
        }
        let is_of = |wanted: &String| wanted == jobtype || *wanted == job_class(jobtype, json);
        self.jobtype.as_ref().is_none_or(is_of)
            && self.pattern.as_ref().is_none_or(|pattern| glob_matches(pattern.as_bytes(), json))
    }
}

/// Returns whether all of `text` matches `pattern`, with the semantics of Redis: `*` is any run of
/// bytes, `?` any byte, `[a-z]` and `[^a-z]` are classes, and `\` escapes the next byte. The
/// worst-case time is the product of both lengths, never exponential, because only the last `*` is
/// retried.
#[must_use]
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    if let Some(needle) = plain_needle(pattern) {
        return memchr::memmem::find(text, needle).is_some();
    }
    let (mut at, mut read) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if at < pattern.len() && pattern[at] == b'*' {
            retry = Some((at + 1, read));
            at += 1;
            continue;
        }
        if read == text.len() {
            return pattern[at..].iter().all(|byte| *byte == b'*');
        }
        if let Some(next) = match_one(pattern, at, text[read]) {
            at = next;
            read += 1;
            continue;
        }
        let Some((behind_star, tried)) = retry else {
            return false;
        };
        retry = Some((behind_star, tried + 1));
        at = behind_star;
        read = tried + 1;
    }
}

/// Returns the needle of a pattern `*needle*` without special bytes, which is what most searches
/// are.
fn plain_needle(pattern: &[u8]) -> Option<&[u8]> {
    let needle = pattern.strip_prefix(b"*")?.strip_suffix(b"*")?;
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    (!needle.iter().any(special)).then_some(needle)
}

/// Matches one byte. Returns the index at which the pattern continues.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// Matches one byte against a class. As in Redis, an unclosed class ends with the pattern.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            found |= pattern[at + 1] == byte;
            at += 2;
        } else if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() {
            let (low, high) = (pattern[at].min(pattern[at + 2]), pattern[at].max(pattern[at + 2]));
            found |= (low..=high).contains(&byte);
            at += 3;
        } else {
            found |= pattern[at] == byte;
            at += 1;
        }
    }
    (found != negated).then_some((at + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs_match_as_in_redis() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(
                glob_matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        };
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("*abc*", "xxabcxx", true);
        check("*abc*", "xxabxcx", false);
        check("h?llo", "hello", true);
        check("h?llo", "hllo", false);
        check("h*llo", "heeeello", true);
        check("h[ae]llo", "hallo", true);
        check("h[^e]llo", "hello", false);
        check("h[a-c]llo", "hbllo", true);
        check("h[c-a]llo", "hbllo", true);
        check("a\\*c", "a*c", true);
        check("a\\*c", "abc", false);
        check("*a*b*c", "xaxbxbxc", true);
        check("*[", "a[", false);
        check("a[bc", "ab", true);
        check("*\"jobtype\":\"Hard*\"*", r#"{"jobtype":"HardWork"}"#, true);
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!glob_matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }

    #[test]
    fn jids_win_over_the_rest() {
        let filter = Filter {
            pattern: Some("*nowhere*".to_owned()),
            jobtype: Some("Other".to_owned()),
            jids: vec!["12345678".to_owned()],
        };
        assert!(filter.matches("12345678", "Job", b"{}"));
        assert!(!filter.matches("87654321", "Other", b"nowhere"));
    }

    proptest! {
        #[test]
        fn arbitrary_patterns_never_panic(pattern: Vec<u8>, text: Vec<u8>) {
            let _ = glob_matches(&pattern, &text);
        }
    }
}

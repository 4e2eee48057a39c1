//! Checksums that an upstream states for a whole text, with whichever part of it is sent.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{self, HeaderName};

use super::client::Answer;
use crate::index::digest::Digests;

/// The checksums of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    sha256: Option<[u8; 32]>,
    /// The entity tag as received; it is sent back unchanged.
    pub(super) etag: Option<String>,
}

impl Claims {
    pub(super) fn of(answer: &Answer) -> Self {
        let header = |name| answer.header(&HeaderName::from_static(name));
        let new = header("repr-digest").and_then(|text| of_list(text, "sha-256=:", ":"));
        let old = || header("digest").and_then(|text| of_list(text, "sha-256=", ""));
        Self { sha256: new.or_else(old), etag: answer.header(&header::ETAG).map(str::to_owned) }
    }

    /// Returns whether a text matches. `are_tags_md5` tells whether this upstream's tags are MD5
    /// digests; that is known from an earlier text, since not every tag of 32 digits is one.
    pub(super) fn hold(&self, digests: &Digests, are_tags_md5: bool) -> bool {
        match self.sha256 {
            Some(sha256) => sha256 == digests.sha256,
            None if are_tags_md5 => self.etag.as_deref().is_none_or(|tag| is_md5(tag, digests)),
            None => true,
        }
    }
}

/// Returns whether a tag is the MD5 of the text.
pub(super) fn is_md5(etag: &str, digests: &Digests) -> bool {
    let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
    etag.eq_ignore_ascii_case(&hex::encode(digests.md5))
}

fn of_list(list: &str, before: &str, after: &str) -> Option<[u8; 32]> {
    let found = list.split(',').find_map(|part| {
        let part = part.trim_ascii();
        let is_it = part.get(..before.len())?.eq_ignore_ascii_case(before);
        part.get(before.len()..).filter(|_| is_it)?.strip_suffix(after)
    })?;
    BASE64_STANDARD.decode(found).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_digests_are_read_from_lists() {
        let digests = Digests::of(b"---\n");
        let (new, old) = (digests.repr_digest(), digests.digest());
        for (text, before, after) in [
            (new.as_str(), "sha-256=:", ":"),
            (&format!("md5=:AAAA:, {new}"), "sha-256=:", ":"),
            (old.as_str(), "sha-256=", ""),
            (&old.replace("sha", "SHA"), "sha-256=", ""),
        ] {
            assert_eq!(of_list(text, before, after), Some(digests.sha256), "{text}");
        }
        for text in ["", "sha-256=:AAAA:", "sha-256=", "md5=:AAAA:", "\u{e9}"] {
            assert_eq!(of_list(text, "sha-256=:", ":"), None, "{text}");
        }
    }

    #[test]
    fn a_tag_counts_only_where_tags_are_digests() {
        let (right, wrong) = (Digests::of(b"right"), Digests::of(b"wrong"));
        let tagged = Claims { sha256: None, etag: Some(right.etag()) };
        assert!(tagged.hold(&right, true) && tagged.hold(&wrong, false));
        assert!(!tagged.hold(&wrong, true));
        let digest = Claims { sha256: Some(right.sha256), etag: Some(wrong.etag()) };
        assert!(digest.hold(&right, true) && !digest.hold(&wrong, false));
        assert!(Claims::default().hold(&right, true));
        assert!(is_md5(&format!("W/{}", right.etag()), &right));
    }
}

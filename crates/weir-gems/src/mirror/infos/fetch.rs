//! Fetches an `/info` of an upstream and compares it with the digest in `/versions`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use weir_net::http_client::TimeLimit;

use crate::index::digest::Digests;
use crate::index::info::HEADER;
use crate::mirror::client::{Ask, Client, FetchError};
use crate::mirror::read::{InfoText, ReadError, read_info};
use crate::store::mirror::Noted;

/// Characters to escape in a path.
pub(in crate::mirror) const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A name to fetch.
pub(super) struct Wanted {
    /// Its position in the order of recorded lines.
    pub(super) sequence: u64,
    pub(super) noted: Noted,
    /// Whether clients see versions of it here.
    pub(super) has_versions: bool,
}

/// Outcome of fetching an `/info`.
pub(super) enum Fetched {
    Gem { wanted: Wanted, info: InfoText, bytes: usize },
    Mismatched { path: String },
    Unreadable { path: String, error: ReadError },
    Denied { wanted: Wanted, path: String, error: FetchError },
    Failed { path: String, error: FetchError },
}

pub(in crate::mirror) fn info_path(name: &str) -> String {
    format!("/info/{}", utf8_percent_encode(name, PATH))
}

/// Returns the digest of an `/info` without releases, which need not be fetched.
pub(in crate::mirror) fn without_releases() -> [u8; 16] {
    Digests::of(HEADER.as_bytes()).md5
}

pub(super) async fn fetch(
    client: &Client,
    wanted: Wanted,
    md5: [u8; 16],
    is_fresh: bool,
    (bytes_max, timeout): (usize, TimeLimit),
) -> Fetched {
    let path = info_path(wanted.noted.name.as_str());
    let ask = Ask { is_fresh, ..Ask::all(&path, timeout) };
    let text = match client.text(&ask, bytes_max).await {
        Ok((status, text)) if status.as_u16() == 200 => text,
        // An upstream may respond with 404 for a gem without releases.
        Ok(_) => HEADER.as_bytes().to_vec(),
        Err(error @ FetchError::Denied(_)) => return Fetched::Denied { wanted, path, error },
        Err(error) => return Fetched::Failed { path, error },
    };
    if Digests::of(&text).md5 != md5 {
        return Fetched::Mismatched { path };
    }
    match read_info(&text) {
        Ok(info) => Fetched::Gem { wanted, info, bytes: text.len() },
        Err(error) => Fetched::Unreadable { path, error },
    }
}

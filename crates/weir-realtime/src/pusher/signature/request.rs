//! Verifying requests to the HTTP API: the signature, its time, and the body.

use std::borrow::Cow;
use std::time::Duration;

use md5::{Digest, Md5};
use percent_encoding::percent_decode_str;
use weir_base::clock::Timestamp;

use super::{QueryError, SignedQuery, Token};
use crate::pusher::excerpt::Excerpt;
use crate::pusher::limits::PusherLimits;

/// The only version of the signature scheme.
const VERSION: &str = "1.0";

/// The signed parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The method in capitals.
    pub method: &'a str,
    /// The path of the request line, without the query.
    pub path: &'a str,
    /// The query after the question mark.
    pub query: &'a str,
    /// The whole body.
    pub body: &'a [u8],
}

/// Why a request was rejected. The text is the body of the response, whose status is 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The query can't be signed.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// A required parameter is missing.
    #[error("Missing parameter: {name}")]
    Missing { name: &'static str },
    /// The version of the signature scheme does not exist.
    #[error("auth_version '{}' is not supported: it must be {VERSION}", Excerpt(.given))]
    Version { given: String },
    /// The request was signed for another app.
    #[error("auth_key '{}' is not the key of this app", Excerpt(.given))]
    WrongKey { given: String },
    /// The request was signed with another secret, or another text was signed.
    #[error(
        "Invalid signature: you should have sent the HMAC SHA256 hex digest of \"{}\", made with your secret, but you sent '{}'",
        Excerpt(.signed),
        Excerpt(.given)
    )]
    Mismatch { signed: String, given: String },
    /// The timestamp is not a number.
    #[error("auth_timestamp '{}' is not a number of seconds since 1970", Excerpt(.given))]
    Timestamp { given: String },
    /// The timestamp is too old, or one of the clocks is wrong.
    #[error(
        "Timestamp expired: Given timestamp ({given}) not within {}s of server time ({now})",
        .tolerance.as_secs()
    )]
    Expired { given: u64, now: u64, tolerance: Duration },
    /// The body differs from the signed one.
    #[error("Invalid body_md5: the MD5 of the body that arrived is '{actual}', but the query says '{}'", Excerpt(.given))]
    Body { actual: String, given: String },
}

impl Token<'_> {
    /// Verifies that the application's server sent `request` at about `now`. Returns its
    /// parameters.
    ///
    /// # Errors
    /// Returns why the request is rejected.
    pub fn verify_request<'a>(
        &self,
        request: &SignedRequest<'a>,
        now: Timestamp,
        limits: &PusherLimits,
    ) -> Result<SignedQuery<'a>, RequestError> {
        let query = self.verify_head(request, now, limits)?;
        check_body(&query, request.body)?;
        Ok(query)
    }

    /// Verifies a request without its body, which may still be arriving. [`check_body`] verifies
    /// that.
    ///
    /// # Errors
    /// Returns why the request is rejected.
    pub fn verify_head<'a>(
        &self,
        request: &SignedRequest<'a>,
        now: Timestamp,
        limits: &PusherLimits,
    ) -> Result<SignedQuery<'a>, RequestError> {
        let query = SignedQuery::parse(request.query, limits)?;
        self.check_key(&query)?;
        self.check_signature(request, &query)?;
        check_timestamp(&query, now, limits.api_timestamp_tolerance)?;
        Ok(query)
    }

    fn check_key(&self, query: &SignedQuery<'_>) -> Result<(), RequestError> {
        let version = require(query, "auth_version")?;
        if version != VERSION {
            return Err(RequestError::Version { given: version.to_owned() });
        }
        match require(query, "auth_key")? {
            key if key == self.key => Ok(()),
            other => Err(RequestError::WrongKey { given: other.to_owned() }),
        }
    }

    fn check_signature(
        &self,
        request: &SignedRequest<'_>,
        query: &SignedQuery<'_>,
    ) -> Result<(), RequestError> {
        let given = require(query, "auth_signature")?;
        let signed = request_text(request.method, request.path, query);
        if self.is_signature(signed.as_bytes(), given) || self.signed_decoded(request, query, given)
        {
            return Ok(());
        }
        Err(RequestError::Mismatch { signed, given: given.to_owned() })
    }

    /// Verifies a signature of the unescaped path. Server libraries sign a path before their HTTP
    /// clients escape it, for instance the `|` of a user's id.
    fn signed_decoded(
        &self,
        request: &SignedRequest<'_>,
        query: &SignedQuery<'_>,
        given: &str,
    ) -> bool {
        decode_path(request.path).is_some_and(|path| {
            self.is_signature(request_text(request.method, &path, query).as_bytes(), given)
        })
    }
}

/// Returns the text that is signed for a request.
#[must_use]
pub fn request_text(method: &str, path: &str, query: &SignedQuery<'_>) -> String {
    format!("{method}\n{path}\n{}", query.canonical())
}

/// Returns `path` without escapes. None if it has none, or if one hides a character that would
/// change the path's meaning.
fn decode_path(path: &str) -> Option<Cow<'_, str>> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let slashes = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
    let changes_meaning = slashes(&decoded) != slashes(path)
        || decoded.contains(|character: char| "?#%".contains(character) || character.is_control());
    (decoded != path && !changes_meaning).then_some(decoded)
}

fn require<'q>(query: &'q SignedQuery<'_>, name: &'static str) -> Result<&'q str, RequestError> {
    query.get(name).filter(|value| !value.is_empty()).ok_or(RequestError::Missing { name })
}

fn check_timestamp(
    query: &SignedQuery<'_>,
    now: Timestamp,
    tolerance: Duration,
) -> Result<(), RequestError> {
    let text = require(query, "auth_timestamp")?;
    let given: u64 =
        text.parse().map_err(|_| RequestError::Timestamp { given: text.to_owned() })?;
    let now = now.as_millis() / 1_000;
    match now.abs_diff(given) > tolerance.as_secs() {
        true => Err(RequestError::Expired { given, now, tolerance }),
        false => Ok(()),
    }
}

/// Verifies the digest of a body. A body requires one in the query. Without a body it is optional
/// (Python's library always sends it), but must be right.
///
/// # Errors
/// Returns an error if the digest is missing or wrong.
pub fn check_body(query: &SignedQuery<'_>, body: &[u8]) -> Result<(), RequestError> {
    if body.is_empty() && query.get("body_md5").is_none() {
        return Ok(());
    }
    let given = require(query, "body_md5")?;
    let actual = hex::encode(Md5::digest(body));
    match given.eq_ignore_ascii_case(&actual) {
        true => Ok(()),
        false => Err(RequestError::Body { actual, given: given.to_owned() }),
    }
}

//! Errors of gems as HTTP responses.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use weir_base::admin_api::AdminError;
use weir_gems::operations::{AcceptError, KEY_NAME_CHARACTERS_MAX};
use weir_gems::store::{StoreError, YankError};

/// The error when gems are not served.
pub(crate) fn not_served() -> AdminError {
    let hint = "they are with a table [gems] in weir.toml, unless --only leaves them out";
    AdminError::new(StatusCode::NOT_FOUND, "gems are not served by this Weir", hint)
}

/// Returns routes that respond to every request with that error.
pub(super) fn router() -> Router {
    Router::new().route("/gems/{*rest}", any(async || not_served()))
}

/// The error of a path that was removed, for one release.
pub(super) fn removed(hint: &'static str) -> AdminError {
    AdminError::new(StatusCode::GONE, "this path was removed from the admin API", hint)
}

pub(super) fn no_such_gem(name: &str) -> AdminError {
    let hint = "`weir gems list --search TEXT` finds names; case counts";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no release of a gem {name:?}"), hint)
}

pub(super) fn no_mirror() -> AdminError {
    let hint = "add [[gems.mirror.upstreams]] to weir.toml";
    AdminError::new(StatusCode::NOT_FOUND, "this Weir mirrors no other index", hint)
}

pub(super) fn no_such_key(id: u64) -> AdminError {
    let hint = "`weir gems key list` shows them";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no key {id}"), hint)
}

pub(super) fn incomplete_key() -> AdminError {
    let hint = "the name says who has it; scopes are index_rubygems, push_rubygem and yank_rubygem";
    AdminError::new(StatusCode::BAD_REQUEST, "a key needs a name and a scope at least", hint)
}

pub(super) fn unprintable_key() -> AdminError {
    let hint = "it is shown to people; letters, digits, spaces and punctuation are for that";
    AdminError::new(StatusCode::BAD_REQUEST, "the name of a key has no control characters", hint)
}

pub(super) fn long_key(characters: usize) -> AdminError {
    let hint = "it says who has the key; what else there is to say belongs elsewhere";
    let text = format!(
        "the name of a key has at most {KEY_NAME_CHARACTERS_MAX} characters; this one has {characters}"
    );
    AdminError::new(StatusCode::BAD_REQUEST, text, hint)
}

pub(super) fn read_key_with_gems() -> AdminError {
    let hint = "gems limit what a key pushes and yanks; leave them out";
    AdminError::new(StatusCode::BAD_REQUEST, "a key that only reads is for the whole index", hint)
}

pub(super) fn expired_key() -> AdminError {
    let hint = "give it a second at least, or leave the time out for a key that does not expire";
    AdminError::new(
        StatusCode::BAD_REQUEST,
        "a key that expires after 0 s could never be used",
        hint,
    )
}

pub(super) fn invalid_input(error: impl ToString) -> AdminError {
    AdminError::new(StatusCode::BAD_REQUEST, error.to_string(), "")
}

pub(super) fn store_error(error: StoreError) -> AdminError {
    AdminError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), "see the log")
}

pub(super) fn accept_error(error: AcceptError) -> AdminError {
    match error {
        AcceptError::NoMirror => no_mirror(),
        AcceptError::NotReplaced(_) => {
            let hint = "`weir gems mirror status` lists the versions that are kept out";
            AdminError::new(StatusCode::NOT_FOUND, error.to_string(), hint)
        }
        AcceptError::Store(error) => store_error(error),
    }
}

pub(super) fn yank_error(error: YankError) -> AdminError {
    match error {
        YankError::UnknownGem => {
            let hint = "`weir gems list --search TEXT` finds names; case counts";
            AdminError::new(StatusCode::NOT_FOUND, error.to_string(), hint)
        }
        YankError::UnknownRelease(_) => {
            let hint = "`weir gems info NAME` lists what there is";
            AdminError::new(StatusCode::NOT_FOUND, error.to_string(), hint)
        }
        YankError::AlreadyYanked(_) => AdminError::new(StatusCode::CONFLICT, error.to_string(), ""),
        YankError::Store(error) => store_error(error),
    }
}

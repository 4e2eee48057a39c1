//! The visitor: identified once per request, then passed to the pages.

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, request::Parts};

use crate::console::Console;
use crate::guard::token;
use crate::page_error::PageError;
use crate::theme::Theme;

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// The CSRF token that their forms must carry.
    pub(crate) csrf: String,
    /// Their session's id; None: not logged in.
    pub(crate) session: Option<String>,
    pub(crate) theme: Theme,
    pub(crate) access: Access,
}

/// What the sender of a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Logged in, or no login is needed. Changes need the CSRF token.
    Person,
    /// A program that knows the API token. Other sites cannot send it, so changes need no CSRF
    /// token.
    Program,
    /// Must log in first.
    Stranger,
}

pub(crate) const COOKIE_NAME: &str = "weir_session";

impl Visitor {
    pub(crate) fn new(console: &Console, headers: &HeaderMap) -> Self {
        let settings = &console.deps.settings;
        let theme = cookie(headers, Theme::COOKIE_NAME).map_or(Theme::System, Theme::parse);
        let session = cookie(headers, COOKIE_NAME).and_then(|id| {
            let csrf = console.sessions().csrf(id, console.deps.clock.now())?;
            Some((id.to_owned(), csrf))
        });
        let bearer = bearer(headers);
        let access = match (&settings.token, bearer) {
            (Some(expected), Some(sent)) if token::constant_time_eq(expected.expose(), sent) => {
                Access::Program
            }
            // Whoever sends a token means to use it: a wrong one must not succeed because no password is set.
            (Some(_), Some(_)) if session.is_none() => Access::Stranger,
            _ if session.is_some() || settings.password.is_none() => Access::Person,
            _ => Access::Stranger,
        };
        let (session, csrf) = session.unzip();
        Self {
            csrf: csrf.unwrap_or_else(|| console.csrf_without_session.clone()),
            session,
            theme,
            access,
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn cookie<'a>(headers: &'a HeaderMap, cookie_name: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == cookie_name)
        .map(|(_, value)| value)
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        parts.extensions.get::<Self>().cloned().ok_or(PageError::NotLoggedIn)
    }
}

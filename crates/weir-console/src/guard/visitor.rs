//! The visitor: identified once per request, then passed to the pages.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, request::Parts};
use weir_access::{Caller, Via};

use super::accounts::Identity;
use super::form_access::FormAccess;
use super::session::FoundSession;
use crate::console::Console;
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
    pub(crate) identity: Identity,
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
        let accounts = &console.deps.accounts;
        let theme = cookie(headers, Theme::COOKIE_NAME).map_or(Theme::System, Theme::parse);
        let session = cookie(headers, COOKIE_NAME).and_then(|id| session(console, id));
        let program = bearer(headers).and_then(|sent| accounts.token(sent));
        // A client that sends a token means to use it: a wrong one must not succeed because no login is needed.
        let has_wrong_token = bearer(headers).is_some() && accounts.has_tokens();
        let (access, identity) = match (program, &session) {
            (Some(program), _) => (Access::Program, program),
            (None, Some((_, session))) => (Access::Person, session.login.identity.clone()),
            (None, None) if has_wrong_token || accounts.has_login() => {
                (Access::Stranger, Identity::stranger())
            }
            (None, None) => (Access::Person, Identity::anonymous()),
        };
        let (session, csrf) = session.map(|(id, session)| (id, session.csrf)).unzip();
        Self {
            csrf: csrf.unwrap_or_else(|| console.csrf_without_session.clone()),
            session,
            theme,
            access,
            identity,
        }
    }

    /// Returns what the visitor's forms need.
    pub(crate) fn forms(&self) -> FormAccess {
        FormAccess { csrf: self.csrf.clone(), identity: self.identity.clone() }
    }

    /// Returns the sender of a request from `address` for the audit log.
    pub(crate) fn caller(&self, via: Via, address: Option<IpAddr>) -> Caller {
        let Identity { name, role } = &self.identity;
        Caller { user: Arc::clone(name), role: *role, via, address }
    }
}

/// Returns a session that is valid, and whose user is still the same.
fn session(console: &Console, id: &str) -> Option<(String, FoundSession)> {
    let found = console.sessions().find(id, console.deps.clock.now())?;
    if console.deps.accounts.is_current(&found.login) {
        return Some((id.to_owned(), found));
    }
    console.sessions().end(id);
    None
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

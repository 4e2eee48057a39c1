//! Light or dark: by the system, unless somebody chose. The choice is a cookie, so the page comes
//! right at once and works without script.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{REFERER, SET_COOKIE};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};

use crate::console::Console;
use crate::guard::form::CheckedForm;
use crate::guard::login::safe_path;

/// What the page looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];
    pub(crate) const COOKIE_NAME: &str = "weir_theme";

    /// The theme of a word; anything unknown is the system's.
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }

    /// On its button.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::System => "Auto",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// `POST /theme`
pub(crate) async fn choose(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    form: CheckedForm,
) -> Response {
    const YEAR_SECONDS: u32 = 365 * 24 * 60 * 60;
    let theme = Theme::parse(form.get("theme").unwrap_or_default()).word();
    let secure = if console.deps.settings.cookie_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{}={theme}; Path=/; SameSite=Strict; Max-Age={YEAR_SECONDS}{secure}",
        Theme::COOKIE_NAME
    );
    (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(&path_of_referer(&headers)))
        .into_response()
}

/// The path that the form was on; the origin was checked before, but only the path is used.
fn path_of_referer(headers: &HeaderMap) -> String {
    let referer = headers.get(REFERER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let rest = referer.split_once("://").map_or("", |(_, rest)| rest);
    safe_path(rest.find('/').map(|at| &rest[at..]))
}

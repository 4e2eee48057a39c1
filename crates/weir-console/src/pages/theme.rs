//! The choice of the pages' colours.

use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, IntoResponse, Redirect};

use super::request::{FormRequest, PageResult};
use crate::guard::login::safe_path;
use crate::theme::Theme;

/// `POST /theme`
pub(crate) async fn choose(request: FormRequest) -> PageResult {
    const YEAR_SECONDS: u32 = 365 * 24 * 60 * 60;
    let theme = Theme::parse(request.form.get("theme").unwrap_or_default()).name();
    let secure = if request.console.deps.settings.cookie_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{}={theme}; Path=/; SameSite=Strict; Max-Age={YEAR_SECONDS}{secure}",
        Theme::COOKIE_NAME
    );
    let back = Redirect::to(&path_of(&request.referer));
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), back).into_response())
}

/// Returns the path of the page with the form; its origin was checked before.
fn path_of(referer: &str) -> String {
    let rest = referer.split_once("://").map_or("", |(_, rest)| rest);
    safe_path(rest.find('/').map(|at| &rest[at..]))
}

//! The login page.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{FromRequest, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use serde::Deserialize;
use weir_access::{Caller, Change, Via};

use super::accounts::{Identity, LoginProof};
use super::authorization;
use super::client::LoginClient;
use super::form::CheckedForm;
use super::visitor::{COOKIE_NAME, Visitor};
use crate::console::Console;
use crate::metrics::{ConsoleLimit, LoginOutcome};
use crate::page_error::PageError;
use crate::pages::frame::{PageFrame, Section, html};

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: PageFrame,
    next: String,
    problem: Option<String>,
    /// Whether a name is needed.
    has_users: bool,
    /// The name that was sent.
    user: String,
}

/// What a login page returns to.
#[derive(Debug, Default)]
struct LoginForm {
    next: String,
    user: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LoginQuery {
    next: Option<String>,
}

/// Returns the address of the login page that leads back to `path`.
pub(crate) fn address(path: &str) -> String {
    crate::address::address("/login", &[("next", path)])
}

/// `GET /login`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(query): Query<LoginQuery>,
) -> Result<Response, PageError> {
    if !console.deps.accounts.has_login() {
        return Ok(Redirect::to("/").into_response());
    }
    let form = LoginForm { next: safe_path(query.next.as_deref()), user: String::new() };
    Ok(render(&console, &visitor, form, None))
}

/// `POST /login`: takes a token of the client's bucket before each check of a password.
pub(crate) async fn log_in(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
) -> Result<Response, PageError> {
    let (client, address) = (LoginClient::new(&request), authorization::address(&request));
    let form = CheckedForm::from_request(request, &console).await?;
    let password = form.get("password").unwrap_or_default().to_owned();
    let user = form.get("user").unwrap_or_default().trim().to_owned();
    let form = LoginForm { next: safe_path(form.get("next")), user };
    let accounts = &console.deps.accounts;
    if !accounts.has_login() {
        return Ok(Redirect::to("/").into_response());
    }
    let try_allowed = console.login_tries().take(client, console.deps.clock.now());
    if let Err(empty) = try_allowed {
        console.metrics().limit_hit(ConsoleLimit::LoginBurst);
        return Ok(slow_down(&console, &visitor, form, empty.wait));
    }
    // Before the check: if the password changes meanwhile, the session is not valid.
    let proof = accounts.proof(&form.user);
    let is_right = console.check_password(accounts.check_for(&form.user), password).await;
    let Some(login) = proof.filter(|_| is_right) else {
        console.metrics().login(LoginOutcome::WrongPassword);
        tracing::warn!(?client, "console: wrong password");
        let problem =
            if accounts.has_users() { "Wrong user or password." } else { "Wrong password." };
        let page = render(&console, &visitor, form, Some(problem.to_owned()));
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    };
    console.login_tries().forgive(&client);
    console.metrics().login(LoginOutcome::Accepted);
    let response = begin_session(&console, login.clone(), &form.next);
    let Identity { name, role } = login.identity;
    let caller = Caller { user: name, role, via: Via::Console, address };
    console.deps.audit.begin(caller, Change::login()).end(&response).await;
    Ok(response)
}

fn begin_session(console: &Console, login: LoginProof, next: &str) -> Response {
    let new_session = console.sessions().begin(login, console.deps.clock.now());
    if new_session.others_ended > 0 {
        console.metrics().limit_hit(ConsoleLimit::SessionsMax);
    }
    let age_max = console.deps.settings.session_age_max;
    let cookie = session_cookie(&new_session.id, age_max, console.deps.settings.cookie_secure);
    (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(next)).into_response()
}

/// `POST /logout`
pub(crate) async fn log_out(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    _: CheckedForm,
) -> Response {
    if let Some(id) = &visitor.session {
        console.sessions().end(id);
    }
    let cookie = session_cookie("", Duration::ZERO, console.deps.settings.cookie_secure);
    (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to("/")).into_response()
}

fn session_cookie(id: &str, age_max: Duration, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    let seconds = age_max.as_secs();
    format!("{COOKIE_NAME}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

fn slow_down(console: &Console, visitor: &Visitor, form: LoginForm, wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let problem = format!("Too many attempts from your address. Try again in {seconds} s.");
    let page = render(console, visitor, form, Some(problem));
    let retry_after = AppendHeaders([(RETRY_AFTER, seconds.to_string())]);
    (StatusCode::TOO_MANY_REQUESTS, retry_after, page).into_response()
}

fn render(
    console: &Console,
    visitor: &Visitor,
    form: LoginForm,
    problem: Option<String>,
) -> Response {
    let frame = PageFrame::new(console, visitor, Section::Login, "Log in".to_owned());
    let has_users = console.deps.accounts.has_users();
    let LoginForm { next, user } = form;
    html(&LoginPage { frame, next, problem, has_users, user })
}

/// Returns `path` if it is a path of this console, since `//evil.example` and `https:..` lead to
/// other sites.
pub(crate) fn safe_path(path: Option<&str>) -> String {
    let path = path.unwrap_or("/");
    let is_ours = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    let is_plain = path.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if is_ours && is_plain { path.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_redirects_stay_on_this_console() {
        assert_eq!(safe_path(Some("/retries?search=a%20b")), "/retries?search=a%20b");
        for path in ["//evil.example", "https://evil.example", "/\\evil", "/a\r\nb: c", "x", ""] {
            assert_eq!(safe_path(Some(path)), "/", "{path:?}");
        }
    }
}

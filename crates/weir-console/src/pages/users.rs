//! Users and tokens of the console, with their sessions. They are defined in weir.toml.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use super::frame::{PageFrame, Section, html};
use super::request::{FormRequest, PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage {
    frame: PageFrame,
    rows: Vec<UserRow>,
}

struct UserRow {
    name: String,
    role: String,
    setting: String,
    /// Whether it logs in, rather than sending a token.
    is_user: bool,
    sessions: usize,
    used: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UsersFlash {
    done: Option<String>,
    user: Option<String>,
    count: Option<u64>,
}

/// `GET /users`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let flash: UsersFlash = request.query()?;
    let now = request.console.deps.clock.now();
    let sessions = request.console.sessions().by_user(now);
    let accounts = request.console.deps.accounts.list();
    let rows = accounts.into_iter().map(|account| {
        let used = sessions.get(account.name.as_str()).copied().unwrap_or_default();
        UserRow {
            role: account.role.to_string(),
            setting: account.setting,
            is_user: account.is_user,
            sessions: used.count,
            used: match used.count {
                0 => "–".to_owned(),
                _ => figures::relative(now.as_secs_f64(), used.used_at.as_secs_f64()),
            },
            name: account.name,
        }
    });
    let rows = rows.collect();
    let frame = request.frame(Section::Users, "Users").with_flash(flash.message());
    Ok(html(&UsersPage { frame, rows }))
}

/// `POST /users/act`: ends all sessions of a user.
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let user =
        form.get("user").ok_or_else(|| PageError::Invalid("the form names no user".to_owned()))?;
    if form.get("action") != Some("end") {
        return Err(PageError::Invalid("the action must be end".to_owned()));
    }
    let count = console.sessions().end_all_of(user).to_string();
    let done = [("done", "end"), ("user", user), ("count", &count)];
    Ok(Redirect::to(&address("/users", &done)).into_response())
}

impl UsersFlash {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    fn message(&self) -> Option<String> {
        let user = self.user.as_deref().filter(|_| self.done.as_deref() == Some("end"))?;
        let user = visible(&figures::shortened(user, 80)).into_owned();
        let sessions = figures::counted(self.count.unwrap_or(0), "session");
        Some(format!("{sessions} of {user} ended."))
    }
}

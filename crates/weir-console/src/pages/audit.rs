//! The audit log: who changed what.

use askama::Template;
use serde::Deserialize;
use weir_access::{AuditEntry, AuditPage, AuditQuery, ChangeOutcome};

use super::frame::{PageFrame, Section, html};
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditLogPage {
    frame: PageFrame,
    rows: Vec<AuditRow>,
    user: String,
    action: String,
    /// Why entries are not on the disk.
    problem: Option<String>,
    next: Option<String>,
    is_filtered: bool,
}

struct AuditRow {
    time: String,
    user: String,
    role: String,
    from: String,
    action: String,
    target: String,
    outcome: &'static str,
    /// The style's class of the outcome.
    outcome_class: &'static str,
    status: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AuditFields {
    before: Option<u64>,
    #[serde(default)]
    user: String,
    #[serde(default)]
    action: String,
}

/// `GET /audit?user=..&action=..&before=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let AuditFields { before, user, action } = request.query()?;
    let non_empty = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let query =
        AuditQuery { before, limit: None, user: non_empty(&user), action: non_empty(&action) };
    let log = request.console.deps.audit.clone();
    let read = tokio::task::spawn_blocking(move || log.read(&query)).await;
    let page: AuditPage =
        read.map_err(|error| PageError::Unavailable(error.to_string()))?.map_err(|error| {
            PageError::Unavailable(format!("the audit log cannot be read: {error}"))
        })?;
    let problem = page.problem.map(|problem| {
        let changes = figures::counted(page.unwritten as u64, "change");
        format!("{changes} in memory only, because the log cannot be written: {problem}")
    });
    let next = page.next.map(|next| {
        let before = next.to_string();
        address("/audit", &[("user", user.as_str()), ("action", &action), ("before", &before)])
    });
    Ok(html(&AuditLogPage {
        frame: request.frame(Section::Audit, "Audit log"),
        rows: page.entries.into_iter().map(AuditRow::new).collect(),
        is_filtered: !user.is_empty() || !action.is_empty() || before.is_some(),
        user,
        action,
        problem,
        next,
    }))
}

impl AuditRow {
    fn new(entry: AuditEntry) -> Self {
        let text = |text: &str| visible(text).into_owned();
        let via = entry.via.name();
        Self {
            time: figures::moment(entry.at),
            user: text(&entry.user),
            role: entry.role.to_string(),
            from: entry
                .address
                .map_or_else(|| via.to_owned(), |address| format!("{via}, {address}")),
            action: text(&entry.action),
            target: text(&entry.target),
            outcome: entry.outcome.name(),
            outcome_class: match entry.outcome {
                ChangeOutcome::Done => "",
                ChangeOutcome::Failed | ChangeOutcome::Unknown => "warning",
                ChangeOutcome::Forbidden => "critical",
            },
            status: entry.status.map_or_else(String::new, |status| status.to_string()),
        }
    }
}

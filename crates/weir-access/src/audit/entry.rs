//! An entry of the audit log.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

use crate::caller::{Caller, Via};
use crate::change::Change;
use crate::role::Role;

/// A change that someone requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// The time in microseconds since the Unix epoch; each entry has a larger one than the one before.
    pub id: u64,
    /// When it ended, in seconds since the Unix epoch.
    pub at: f64,
    /// A user, `token NAME`, or on the socket the Unix user.
    pub user: String,
    pub role: Role,
    pub via: Via,
    /// None: the request came over the socket.
    #[serde(default)]
    pub address: Option<String>,
    /// Such as `queue pause`.
    pub action: String,
    /// Such as `name=default`.
    #[serde(default)]
    pub target: String,
    pub outcome: ChangeOutcome,
    /// The status of the response. None: there was none.
    #[serde(default)]
    pub status: Option<u16>,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeOutcome {
    #[default]
    Done,
    /// It was not possible, or the request was wrong.
    Failed,
    /// The role was not sufficient.
    Forbidden,
    /// The client or a time limit ended the request before its response: it may have been done.
    Unknown,
}

/// Which entries a page has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditQuery {
    /// Only entries before this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only those of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Only actions that begin with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// A page of entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The newest first.
    pub entries: Vec<AuditEntry>,
    /// Pass it as `before` to get the next page. None: there is none.
    pub next: Option<u64>,
    /// Entries that are in memory only.
    pub unwritten: usize,
    /// Why they could not be written.
    pub problem: Option<String>,
}

impl AuditEntry {
    pub(super) fn new(
        now: Timestamp,
        caller: &Caller,
        change: &Change,
        status: Option<StatusCode>,
    ) -> Self {
        Self {
            id: now.as_micros(),
            at: now.as_secs_f64(),
            user: caller.user.to_string(),
            role: caller.role,
            via: caller.via,
            address: caller.address.map(|address| address.to_canonical().to_string()),
            action: change.action.clone(),
            target: change.target.clone(),
            outcome: status.map_or(ChangeOutcome::Unknown, ChangeOutcome::of),
            status: status.map(|status| status.as_u16()),
        }
    }
}

impl ChangeOutcome {
    fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::FORBIDDEN => Self::Forbidden,
            status if status.is_client_error() || status.is_server_error() => Self::Failed,
            _ => Self::Done,
        }
    }

    /// The name in JSON, on pages and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Forbidden => "forbidden",
            Self::Unknown => "unknown",
        }
    }
}

impl AuditQuery {
    pub(super) fn matches(&self, entry: &AuditEntry) -> bool {
        let Self { before, user, action, .. } = self;
        before.is_none_or(|before| entry.id < before)
            && user.as_ref().is_none_or(|user| *user == entry.user)
            && action.as_ref().is_none_or(|action| entry.action.starts_with(action))
    }
}

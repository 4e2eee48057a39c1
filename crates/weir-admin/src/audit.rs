//! The admin API of the audit log. Mounted under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET audit?before=&limit=&user=&action=` | an [`AuditPage`], the newest entry first |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use weir_access::{AuditLog, AuditPage, AuditQuery, Caller, Role, Via, change};
use weir_base::admin_api::{AdminError, Params};

use crate::api_routes::{ApiRoutes, get};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::AdminResult;

/// The header in which the command line names the user who called it by sudo. Only root's is read.
pub const SUDO_USER_HEADER: &str = "x-weir-sudo-user";

const NAME_BYTES_MAX: usize = 64;

/// The process at the other end of the socket. It is among the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct SocketPeer {
    pub uid: u32,
}

fn routes() -> ApiRoutes<AuditLog> {
    ApiRoutes::new().route("/audit", get(list))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes.
pub fn router(log: AuditLog) -> Router {
    routes().into_router().with_state(log)
}

/// Records what is changed by `router`, which serves the socket: its users have the role admin.
pub fn record_changes(router: Router, log: AuditLog) -> Router {
    router.layer(from_fn_with_state(log, record))
}

async fn list(
    State(log): State<AuditLog>,
    Params(query): Params<AuditQuery>,
) -> AdminResult<AuditPage> {
    let page = tokio::task::spawn_blocking(move || log.read(&query)).await;
    page.map_err(io::Error::other).flatten().map(Json).map_err(|error| {
        let error = format!("the audit log cannot be read: {error}");
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see data_dir/audit")
    })
}

async fn record(State(log): State<AuditLog>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let user = user(request.extensions().get().copied(), request.headers()).await;
    let caller =
        Caller { user: Arc::from(user), role: Role::Admin, via: Via::Socket, address: None };
    let (request, change) = match change::read(request).await {
        Ok(read) => read,
        Err(error) => {
            let error = AdminError::new(StatusCode::BAD_REQUEST, error.to_string(), "");
            return error.into_response();
        }
    };
    let pending = log.begin(caller, change);
    let response = next.run(request).await;
    pending.end(&response).await;
    response
}

/// Returns the Unix user of the process that sent a request.
async fn user(peer: Option<SocketPeer>, headers: &HeaderMap) -> String {
    let Some(SocketPeer { uid }) = peer else { return "unknown".to_owned() };
    // Blocking: the system may ask a directory service.
    let name = tokio::task::spawn_blocking(move || weir_supervisor::system::user_name(uid)).await;
    let name = name.ok().flatten().unwrap_or_else(|| format!("uid {uid}"));
    let sudo = headers.get(SUDO_USER_HEADER).and_then(|user| user.to_str().ok());
    match sudo.filter(|sudo| uid == 0 && is_name(sudo)) {
        Some(sudo) => format!("{name} (sudo {sudo})"),
        None => name,
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn users_are_named_by_the_system_and_only_root_may_add_to_it() {
        let mut headers = HeaderMap::new();
        assert_eq!(user(Some(SocketPeer { uid: 0 }), &headers).await, "root");
        headers.insert(SUDO_USER_HEADER, "ann".parse().unwrap());
        assert_eq!(user(Some(SocketPeer { uid: 0 }), &headers).await, "root (sudo ann)");
        let stranger = user(Some(SocketPeer { uid: 4_000_000_000 }), &headers).await;
        assert_eq!(stranger, "uid 4000000000");
        headers.insert(SUDO_USER_HEADER, "ann ben".parse().unwrap());
        assert_eq!(user(Some(SocketPeer { uid: 0 }), &headers).await, "root");
    }
}

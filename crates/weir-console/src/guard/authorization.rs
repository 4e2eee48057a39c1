//! Roles and the audit log: every request of an identified visitor passes through here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weir_access::{Caller, ForbiddenError, Via, change, rules};
use weir_base::admin_api::AdminError;

use super::visitor::Visitor;
use crate::console::Console;
use crate::page_error::PageError;

/// Rejects what the visitor's role does not allow, and records changes.
pub(super) async fn authorize(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let via = if path.starts_with("/v1/") { Via::Api } else { Via::Console };
    let caller = visitor.caller(via, address(&request));
    if request.method().is_safe() {
        // The live section of a page needs what its page needs.
        let page = path.strip_prefix("/live").unwrap_or(path);
        return match caller.check(rules::role_to_read(page)) {
            Ok(()) => next.run(request).await,
            Err(error) => forbidden(via, error),
        };
    }
    change_something(&console, caller, request, next).await
}

async fn change_something(
    console: &Console,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    let (request, change) = match change::read(request).await {
        Ok(read) => read,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let (via, checked) = (caller.via, caller.check(change.role));
    let pending = console.deps.audit.begin(caller, change);
    let response = match checked {
        Ok(()) => next.run(request).await,
        Err(error) => forbidden(via, error),
    };
    pending.end(&response).await;
    response
}

/// Returns the address of the client.
pub(super) fn address(request: &Request) -> Option<IpAddr> {
    let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
    info.map(|ConnectInfo(address)| address.ip())
}

fn forbidden(via: Via, error: ForbiddenError) -> Response {
    if via == Via::Console {
        return PageError::Forbidden(error).into_response();
    }
    let hint = "use a token or a user with that role (console.tokens, console.users)";
    AdminError::new(StatusCode::FORBIDDEN, error.to_string(), hint).into_response()
}

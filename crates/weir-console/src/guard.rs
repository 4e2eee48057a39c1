//! Access control: every request passes through here before it reaches a page.
//!
//! From the outside in: headers, deadline, host and origin, the visitor, the access rules of each area, and then the
//! visitor's role and the audit log. Open routes (`/health`, `/ready`) have headers and deadline only.

pub(crate) mod accounts;
mod authorization;
pub(crate) mod client;
pub(crate) mod form;
pub(crate) mod form_access;
mod headers;
mod host;
pub(crate) mod login;
pub(crate) mod session;
pub(crate) mod token;
pub(crate) mod visitor;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use self::visitor::{Access, Visitor};
use crate::console::Console;
use crate::metrics::{ConsoleLimit, ConsoleMetrics};
use crate::{Routes, assets, pages};

/// Puts the pages for `people` and the other parts' `routes` behind their access rules.
pub(crate) fn protect(
    console: Arc<Console>,
    people: Router<Arc<Console>>,
    routes: Routes,
) -> Router {
    let counters = console.metrics().clone();
    let deadline = console.deps.settings.limits.request_timeout;
    let body_bytes_max = console.deps.settings.limits.body_bytes_max;
    let authorize = || from_fn_with_state(Arc::clone(&console), authorization::authorize);
    let people = people
        .layer(authorize())
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(from_fn_with_state(Arc::clone(&console), demand_login));
    let public = Router::new()
        .route("/login", get(login::page).post(login::log_in))
        .route("/assets/{*path}", get(assets::serve))
        .layer(DefaultBodyLimit::max(body_bytes_max));
    let api = Router::new()
        .nest("/v1", routes.api)
        .layer(authorize())
        .layer(from_fn_with_state(Arc::clone(&console), demand_program_or_person));
    let metrics =
        routes.metrics.layer(from_fn_with_state(Arc::clone(&console), demand_metrics_access));
    people
        .merge(public)
        .with_state(Arc::clone(&console))
        .merge(api)
        .merge(metrics)
        .layer(from_fn_with_state(console, identify))
        .merge(routes.open)
        .layer(from_fn(move |request, next| within(deadline, counters.clone(), request, next)))
        .layer(from_fn(headers::add))
}

/// Aborts requests that take too long. Streams respond at once, so they are not affected.
async fn within(
    deadline: Duration,
    metrics: ConsoleMetrics,
    request: Request,
    next: Next,
) -> Response {
    let response = tokio::time::timeout(deadline, next.run(request)).await;
    response.unwrap_or_else(|_| {
        metrics.limit_hit(ConsoleLimit::RequestTimeout);
        let text = "the request took too long (console.limits.advanced.request_timeout)\n";
        (StatusCode::GATEWAY_TIMEOUT, text).into_response()
    })
}

/// Rejects unknown hosts and forms of other sites, and identifies the visitor.
async fn identify(
    State(console): State<Arc<Console>>,
    mut request: Request,
    next: Next,
) -> Response {
    let visitor = Visitor::new(&console, request.headers());
    let hosts = &console.deps.settings.host_names();
    let checked = host::check(request.method(), request.headers(), hosts);
    // A page of another site cannot know the token, and programs may use any host name.
    let is_excused = visitor.access == Access::Program || is_open_metrics(&console, &request);
    if let Err(error) = checked
        && !is_excused
    {
        let status = match error {
            host::HostError::NoHost => StatusCode::BAD_REQUEST,
            host::HostError::UnknownHost(_) => StatusCode::MISDIRECTED_REQUEST,
            host::HostError::OtherSite(_) => StatusCode::FORBIDDEN,
        };
        return (status, format!("{error}\n")).into_response();
    }
    request.extensions_mut().insert(visitor.clone());
    let response = next.run(request).await;
    pages::with_error_pages(&console, &visitor, response)
}

fn is_open_metrics(console: &Console, request: &Request) -> bool {
    console.deps.settings.metrics_without_login && request.uri().path() == "/metrics"
}

fn access(request: &Request) -> Access {
    request.extensions().get::<Visitor>().map_or(Access::Stranger, |visitor| visitor.access)
}

/// Pages require a login; other visitors are redirected to the login page.
async fn demand_login(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    match access(&request) {
        Access::Person => next.run(request).await,
        Access::Program if !console.deps.accounts.has_login() => next.run(request).await,
        Access::Program | Access::Stranger if request.method().is_safe() => {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            Redirect::to(&login::address(path)).into_response()
        }
        Access::Program | Access::Stranger => {
            (StatusCode::UNAUTHORIZED, "log in first: GET /login\n").into_response()
        }
    }
}

/// The admin API requires the token, or a session whose changes carry the CSRF token.
async fn demand_program_or_person(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    match access(&request) {
        Access::Program => next.run(request).await,
        Access::Person if request.method().is_safe() || carries_csrf(&request) => {
            next.run(request).await
        }
        Access::Person => {
            let text = "a change needs the API token (Authorization: Bearer ..) or, from the \
                        console's pages, the x-csrf-token header\n";
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Access::Stranger => unauthorized(&console),
    }
}

fn carries_csrf(request: &Request) -> bool {
    let sent = request.headers().get("x-csrf-token").and_then(|value| value.to_str().ok());
    let expected = request.extensions().get::<Visitor>();
    sent.zip(expected).is_some_and(|(sent, visitor)| token::constant_time_eq(sent, &visitor.csrf))
}

/// `/metrics` requires the same as the API, unless the settings make it public.
async fn demand_metrics_access(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    if access(&request) == Access::Stranger && !console.deps.settings.metrics_without_login {
        return unauthorized(&console);
    }
    next.run(request).await
}

fn unauthorized(console: &Console) -> Response {
    let text = if console.deps.accounts.has_tokens() {
        "send the API token: Authorization: Bearer ..\n"
    } else {
        "no API token is set (console.token): log in at /login, or use the unix socket\n"
    };
    let mut response = (StatusCode::UNAUTHORIZED, text).into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

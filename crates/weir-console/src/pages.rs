//! One file per page. A page reads and acts through the job server's handle, and answers with a
//! template; what changes something takes a [`crate::guard::form::CheckedForm`].

mod act;
mod chart;
mod damage;
mod error;
mod events;
mod front;
mod gems;
mod job;
mod job_history;
mod jobs;
mod observed;
mod overview;
mod queue;
mod queues;
mod ranges;
mod reading;
mod realtime;
pub(crate) mod shell;
pub(crate) mod theme;
mod workers;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};

pub(crate) use self::error::{PageError, dressed};
use crate::console::Console;
use crate::guard::login;

/// The pages for people who are logged in.
pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/", get(overview::page))
        .route("/live/overview", get(overview::fragment))
        .route("/queues", get(queues::page))
        .route("/live/queues", get(queues::fragment))
        .route("/queues/confirm", get(queues::confirm))
        .route("/queues/act", post(queues::act))
        .route("/queue", get(jobs::queue))
        .route("/queue/chart", get(queue::points))
        .route("/live/queue", get(queue::fragment))
        .route("/scheduled", get(jobs::scheduled))
        .route("/retries", get(jobs::retries))
        .route("/dead", get(jobs::dead))
        .route("/jobs/confirm", get(act::confirm_all))
        .route("/jobs/act", post(act::act))
        .route("/damage", get(damage::page))
        .route("/damage/acknowledge", post(damage::acknowledge))
        .route("/job", get(job::page))
        .route("/job/payload", get(job::payload))
        .route("/workers", get(workers::page))
        .route("/live/workers", get(workers::fragment))
        .route("/workers/confirm", get(workers::confirm))
        .route("/workers/act", post(workers::act))
        .route("/front", get(front::page))
        .route("/live/front", get(front::fragment))
        .route("/front/act", post(front::act))
        .route("/front/chart", get(front::points))
        .merge(realtime_routes())
        .merge(observed_routes())
        .route("/gems", get(gems::page))
        .route("/gems/look", post(gems::look))
        .route("/gem", get(gems::gem::page))
        .route("/events", get(events::open))
        .route("/chart", get(chart::points))
        .route("/theme", post(theme::choose))
        .route("/logout", post(login::log_out))
        .fallback(error::no_such_page)
}

/// Those of realtime; where it isn't served, they say so.
fn realtime_routes() -> Router<Arc<Console>> {
    use realtime::{apps, channel, channels, connections, publish, switches, tail};
    Router::new()
        .route("/connections", get(connections::page))
        .route("/live/connections", get(connections::fragment))
        .route("/channels", get(channels::page))
        .route("/live/channels", get(channels::fragment))
        .route("/channel", get(channel::page))
        .route("/live/channel", get(channel::fragment))
        .route("/channel/tail", get(tail::open))
        .route("/channel/publish", get(publish::page).post(publish::act))
        .route("/apps", get(apps::page))
        .route("/live/apps", get(apps::fragment))
        .route("/switches", get(switches::page))
        .route("/live/switches", get(switches::fragment))
        .route("/switches/act", post(switches::act))
        .route("/realtime/chart", get(realtime::points))
}

/// Those of what is observed; where nothing is, they say so.
fn observed_routes() -> Router<Arc<Console>> {
    use observed::{doctor, live, plan, postgres, queue, redis};
    Router::new()
        .merge(live::<doctor::LivePart>())
        .merge(live::<postgres::LivePart>())
        .merge(live::<redis::LivePart>())
        .route("/plan", get(plan::page))
        .route("/observed/queue", get(queue::page))
        .route("/live/observed/queue", get(queue::fragment))
        .route("/observed/queue/chart", get(queue::points))
        .route("/observed/chart", get(observed::points))
}

/// A rendered template. One that can't be rendered is a mistake of the program.
pub(crate) fn html(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "console: a page could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "the page could not be rendered\n").into_response()
        }
    }
}

//! One file per page. A page reads and acts through the console's sources and responds with a template.
//! Handlers that change something take a [`crate::guard::form::CheckedForm`].

mod act;
mod audit;
mod autopilot;
mod batches;
mod chart;
mod cron;
mod damage;
mod demo;
mod docs;
mod error;
mod events;
pub(crate) mod frame;
mod front;
mod gems;
mod job;
mod job_history;
mod job_type;
mod job_types;
mod jobs;
mod limits;
mod live_page;
mod named_value;
mod nodes;
mod observed;
mod overview;
mod queue;
mod queues;
mod ranges;
mod realtime;
mod request;
mod snapshot;
mod store;
mod tasks;
mod theme;
mod users;
mod workers;
mod xray;

use std::sync::Arc;

use axum::Router;

pub(crate) use self::error::with_error_pages;
use self::live_page::live_page;
use self::request::{get_page, post_form};
use crate::console::Console;
use crate::guard::login;

/// The pages for visitors who are logged in.
pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .merge(live_page("/", |request| Box::pin(overview::page(request))))
        .merge(job_routes())
        .merge(front_routes())
        .merge(realtime_routes())
        .merge(observed_routes())
        .route("/demo/flood", post_form(|request| Box::pin(demo::flood(request))))
        .merge(docs_routes())
        .merge(live_page("/nodes", |request| Box::pin(nodes::page(request))))
        .route("/gems", get_page(|request| Box::pin(gems::page(request))))
        .route("/gems/look", post_form(|request| Box::pin(gems::poll_upstreams(request))))
        .route("/gem", get_page(|request| Box::pin(gems::gem::page(request))))
        .route("/users", get_page(|request| Box::pin(users::page(request))))
        .route("/users/act", post_form(|request| Box::pin(users::act(request))))
        .route("/audit", get_page(|request| Box::pin(audit::page(request))))
        .route("/events", get_page(|request| Box::pin(events::open(request))))
        .route("/theme", post_form(|request| Box::pin(theme::choose(request))))
        .route("/logout", axum::routing::post(login::log_out))
        .fallback(error::no_such_page)
}

fn job_routes() -> Router<Arc<Console>> {
    Router::new()
        .merge(live_page("/queues", |request| Box::pin(queues::page(request))))
        .route("/queues/confirm", get_page(|request| Box::pin(queues::confirm(request))))
        .route("/queues/act", post_form(|request| Box::pin(queues::act(request))))
        .merge(live_page("/queue", |request| Box::pin(jobs::queue(request))))
        .route("/queue/chart", get_page(|request| Box::pin(queue::points(request))))
        .route("/scheduled", get_page(|request| Box::pin(jobs::scheduled(request))))
        .route("/retries", get_page(|request| Box::pin(jobs::retries(request))))
        .route("/dead", get_page(|request| Box::pin(jobs::dead(request))))
        .route("/jobs/confirm", get_page(|request| Box::pin(act::confirm_all(request))))
        .route("/jobs/act", post_form(|request| Box::pin(act::act(request))))
        .merge(live_page("/limits", |request| Box::pin(limits::page(request))))
        .merge(live_page("/autopilot", |request| Box::pin(autopilot::page(request))))
        .route("/autopilot/act", post_form(|request| Box::pin(autopilot::act(request))))
        .merge(live_page("/batches", |request| Box::pin(batches::page(request))))
        .merge(live_page("/cron", |request| Box::pin(cron::page(request))))
        .route("/cron/act", post_form(|request| Box::pin(cron::act(request))))
        .route("/xray", get_page(|request| Box::pin(xray::page(request))))
        .route("/damage", get_page(|request| Box::pin(damage::page(request))))
        .route("/damage/acknowledge", post_form(|request| Box::pin(damage::acknowledge(request))))
        .merge(live_page("/tasks", |request| Box::pin(tasks::page(request))))
        .route("/tasks/act", post_form(|request| Box::pin(tasks::act(request))))
        .merge(live_page("/types", |request| Box::pin(job_types::page(request))))
        .merge(live_page("/type", |request| Box::pin(job_type::page(request))))
        .route("/type/chart", get_page(|request| Box::pin(job_type::points(request))))
        .route("/job", get_page(|request| Box::pin(job::page(request))))
        .route("/job/payload", get_page(|request| Box::pin(job::payload(request))))
        .merge(live_page("/workers", |request| Box::pin(workers::page(request))))
        .route("/workers/confirm", get_page(|request| Box::pin(workers::confirm(request))))
        .route("/workers/act", post_form(|request| Box::pin(workers::act(request))))
        .merge(live_page("/store", |request| Box::pin(store::page(request))))
        .route("/store/chart", get_page(|request| Box::pin(store::points(request))))
        .route("/chart", get_page(|request| Box::pin(chart::points(request))))
}

fn front_routes() -> Router<Arc<Console>> {
    Router::new()
        .merge(live_page("/front", |request| Box::pin(front::page(request))))
        .route("/front/act", post_form(|request| Box::pin(front::act(request))))
        .route("/front/chart", get_page(|request| Box::pin(front::points(request))))
}

fn realtime_routes() -> Router<Arc<Console>> {
    use realtime::{apps, channel, channels, connections, publish, switches, tail};
    Router::new()
        .merge(live_page("/connections", |request| Box::pin(connections::page(request))))
        .merge(live_page("/channels", |request| Box::pin(channels::page(request))))
        .merge(live_page("/channel", |request| Box::pin(channel::page(request))))
        .route("/channel/tail", get_page(|request| Box::pin(tail::open(request))))
        .route(
            "/channel/publish",
            get_page(|request| Box::pin(publish::page(request)))
                .merge(post_form(|request| Box::pin(publish::act(request)))),
        )
        .merge(live_page("/apps", |request| Box::pin(apps::page(request))))
        .merge(live_page("/switches", |request| Box::pin(switches::page(request))))
        .route("/switches/act", post_form(|request| Box::pin(switches::act(request))))
        .route("/realtime/chart", get_page(|request| Box::pin(realtime::points(request))))
}

fn observed_routes() -> Router<Arc<Console>> {
    use observed::{doctor, plan, postgres, queue, redis};
    Router::new()
        .merge(live_page("/doctor", |request| Box::pin(doctor::page(request))))
        .merge(live_page("/postgres", |request| Box::pin(postgres::page(request))))
        .merge(live_page("/redis", |request| Box::pin(redis::page(request))))
        .route("/plan", get_page(|request| Box::pin(plan::page(request))))
        .merge(live_page("/observed/queue", |request| Box::pin(queue::page(request))))
        .route("/observed/queue/chart", get_page(|request| Box::pin(queue::points(request))))
        .route("/observed/chart", get_page(|request| Box::pin(observed::points(request))))
}

fn docs_routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/docs", get_page(|request| Box::pin(docs::start(request))))
        .route("/docs/", get_page(|request| Box::pin(docs::start(request))))
        .route("/docs/{*page}", get_page(|request| Box::pin(docs::page(request))))
}

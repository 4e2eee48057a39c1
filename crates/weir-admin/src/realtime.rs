//! The admin API of realtime, for the command line, scripts and tests. Mounted
//! under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET realtime/overview`, `realtime/settings` | [`view::HubOverview`], [`view::SettingsView`] |
//! | `GET realtime/channels?app=&prefix=&limit=` | [`view::ChannelPage`] |
//! | `GET realtime/channel?app=&name=` | [`view::ChannelView`], or 404 |
//! | `GET realtime/history?app=&channel=&limit=` | a list of [`view::EventView`], the newest first |
//! | `GET realtime/users?app=&channel=&after=&limit=` | [`view::MemberPage`] |
//! | `GET realtime/tail?app=&channel=` | server-sent events: `{left_out,events}` |
//! | `POST realtime/publish` | [`EventPublished`] |
//! | `POST realtime/disconnect` | `{"count":n}`: connections told |
//! | `POST realtime/backup` | [`SavedHistories`]: the histories are in a file of data_dir |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

mod errors;
mod operated;
mod tail;

use axum::extract::State;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::admin_api::{AdminError, JsonInput, Params};
use weir_realtime::operations::{EventPublished, PublishEvent};
use weir_realtime::view;

pub(crate) use self::errors::not_served;
pub use self::operated::Realtime;
use crate::api_routes::{ApiRoutes, get, post};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::{AdminResult, row_limit};

/// `{"count":n}`
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    pub count: usize,
}

/// The body of `POST realtime/disconnect`: all connections of a user, or one connection.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Disconnect {
    User { app: String, user: String },
    Socket { app: String, socket_id: String },
}

/// The histories that were written to `backup-histories` in `data_dir`, for a backup that removes
/// the file. No file exists if they are in Redis.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SavedHistories {
    pub channels: usize,
    pub events: usize,
}

fn routes() -> ApiRoutes<Realtime> {
    ApiRoutes::new()
        .route("/overview", get(overview))
        .route("/settings", get(settings))
        .route("/channels", get(channels))
        .route("/channel", get(channel))
        .route("/history", get(history))
        .route("/users", get(users))
        .route("/tail", get(tail::open))
        .route("/publish", post(publish))
        .route("/disconnect", post(disconnect))
        .route("/backup", post(backup))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes; without realtime they return an error.
pub fn router(realtime: Option<Realtime>) -> Router {
    let Some(realtime) = realtime else {
        return errors::router();
    };
    let pages = routes()
        .into_router()
        .fallback(async || AdminError::no_such_page())
        .method_not_allowed_fallback(async || AdminError::wrong_method());
    Router::new().nest("/realtime", pages).with_state(realtime)
}

async fn overview(State(realtime): State<Realtime>) -> Json<view::HubOverview> {
    Json(realtime.hub.overview())
}

async fn backup(State(realtime): State<Realtime>) -> AdminResult<SavedHistories> {
    let Realtime { hub, backup_file, .. } = realtime;
    // Two backups at once must not write the same file.
    let file = backup_file.lock_owned().await;
    let saved = tokio::task::spawn_blocking(move || hub.save(&file)).await;
    let saved = saved.map_err(|error| errors::not_saved(&error))?;
    let saved = saved.map_err(|error| errors::not_saved(&error))?;
    Ok(Json(SavedHistories { channels: saved.channels, events: saved.events }))
}

async fn settings(State(realtime): State<Realtime>) -> Json<view::SettingsView> {
    Json(realtime.hub.settings_view())
}

#[derive(Deserialize, JsonSchema)]
struct ChannelsQuery {
    app: String,
    #[serde(default)]
    prefix: String,
    limit: Option<usize>,
}

async fn channels(
    State(realtime): State<Realtime>,
    Params(query): Params<ChannelsQuery>,
) -> AdminResult<view::ChannelPage> {
    let page = realtime.hub.channels(&query.app, &query.prefix, row_limit(query.limit));
    let error = || errors::operation_error(realtime.hub.no_such_app(&query.app));
    page.map(Json).ok_or_else(error)
}

#[derive(Deserialize, JsonSchema)]
struct ChannelQuery {
    app: String,
    name: String,
}

async fn channel(
    State(realtime): State<Realtime>,
    Params(query): Params<ChannelQuery>,
) -> AdminResult<view::ChannelView> {
    let channel = realtime.hub.channel_view(&query.app, &query.name);
    channel.map(Json).ok_or_else(|| errors::no_such_channel(&query.name))
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    app: String,
    channel: String,
    after: Option<String>,
    limit: Option<usize>,
}

async fn history(
    State(realtime): State<Realtime>,
    Params(query): Params<ListQuery>,
) -> Json<Vec<view::EventView>> {
    Json(realtime.hub.history(&query.app, &query.channel, row_limit(query.limit)))
}

async fn users(
    State(realtime): State<Realtime>,
    Params(query): Params<ListQuery>,
) -> AdminResult<view::MemberPage> {
    let ListQuery { app, channel, after, limit } = &query;
    let page = realtime.hub.members(app, channel, after.as_deref(), row_limit(*limit));
    page.map(Json).ok_or_else(|| errors::no_users(channel))
}

async fn publish(
    State(realtime): State<Realtime>,
    JsonInput(event): JsonInput<PublishEvent>,
) -> AdminResult<EventPublished> {
    let published = realtime.hub.publish_event(&event).await;
    published.map(Json).map_err(errors::operation_error)
}

async fn disconnect(
    State(realtime): State<Realtime>,
    JsonInput(target): JsonInput<Disconnect>,
) -> AdminResult<Count> {
    let count = match target {
        Disconnect::User { app, user } => realtime.hub.disconnect_user(&app, &user).await,
        Disconnect::Socket { app, socket_id } => {
            realtime.hub.disconnect_socket(&app, &socket_id).await.map(|()| 1)
        }
    };
    count.map(|count| Json(Count { count })).map_err(errors::operation_error)
}

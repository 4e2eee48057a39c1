//! The admin API of realtime: `/v1/realtime/..`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET overview` | [`view::Overview`] |
//! | `GET channels?app=&prefix=&limit=` | [`view::ChannelPage`], those with the most subscribers first |
//! | `GET channel?app=&name=` | [`view::ChannelView`], or 404 |
//! | `POST publish` `{app,channel,event,data}` | `{"subscribers":n}` |
//! | `POST disconnect` `{app,user}` | `{"count":n}`: connections that are closed |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_realtime::hub::{Hub, PublishTextError};
use weir_realtime::view;

/// Channels in one answer, unless asked otherwise.
const CHANNELS: usize = 100;
/// The most in one answer.
const CHANNELS_MAX: usize = 10_000;

/// The body of `POST publish`. Data that is no string is sent as the JSON that it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Publish {
    pub(crate) app: String,
    pub(crate) channel: String,
    pub(crate) event: String,
    pub(crate) data: Box<RawValue>,
}

/// `{"subscribers":n}`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    /// Connections that were subscribed at that moment.
    pub(crate) subscribers: usize,
}

/// The body of `POST disconnect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disconnect {
    pub(crate) app: String,
    pub(crate) user: String,
}

/// `{"count":n}`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) count: usize,
}

/// The routes. None: realtime is not served here, and they say so.
pub(crate) fn router(hub: Option<Arc<Hub>>) -> Router {
    let Some(hub) = hub else {
        return Router::new().fallback(async || Problem::not_served());
    };
    Router::new()
        .route("/overview", get(overview))
        .route("/channels", get(channels))
        .route("/channel", get(channel))
        .route("/publish", post(publish))
        .route("/disconnect", post(disconnect))
        .fallback(async || Problem::no_such_request())
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .with_state(hub)
}

type Answer<T> = Result<Json<T>, Problem>;

async fn overview(State(hub): State<Arc<Hub>>) -> Json<view::Overview> {
    Json(hub.overview())
}

#[derive(Deserialize)]
struct ChannelsQuery {
    app: String,
    #[serde(default)]
    prefix: String,
    limit: Option<usize>,
}

async fn channels(
    State(hub): State<Arc<Hub>>,
    Params(query): Params<ChannelsQuery>,
) -> Answer<view::ChannelPage> {
    let limit = query.limit.unwrap_or(CHANNELS).min(CHANNELS_MAX);
    let page = hub.channels(&query.app, &query.prefix, limit);
    page.map(Json).ok_or_else(|| Problem::no_such_app(&query.app))
}

#[derive(Deserialize)]
struct ChannelQuery {
    app: String,
    name: String,
}

async fn channel(
    State(hub): State<Arc<Hub>>,
    Params(query): Params<ChannelQuery>,
) -> Answer<view::ChannelView> {
    let ChannelQuery { app, name } = query;
    match hub.channel_view(&app, &name) {
        Some(channel) => Ok(Json(channel)),
        None if hub.channels(&app, &name, 0).is_none() => Err(Problem::no_such_app(&app)),
        None => Err(Problem::no_such_channel(&name)),
    }
}

async fn publish(State(hub): State<Arc<Hub>>, Input(event): Input<Publish>) -> Answer<Published> {
    let text: String = match serde_json::from_str(event.data.get()) {
        Ok(text) => text,
        Err(_) => event.data.get().to_owned(),
    };
    let subscribers = hub.publish_text(&event.app, &event.channel, &event.event, &text)?;
    Ok(Json(Published { subscribers }))
}

async fn disconnect(State(hub): State<Arc<Hub>>, Input(who): Input<Disconnect>) -> Answer<Count> {
    let count = hub.disconnect_user(&who.app, &who.user);
    count.map(|count| Json(Count { count })).ok_or_else(|| Problem::no_such_app(&who.app))
}

/// An error and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    status: StatusCode,
    error: String,
    hint: &'static str,
}

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>, hint: &'static str) -> Self {
        Self { status, error: error.into(), hint }
    }

    fn not_served() -> Self {
        let hint = "add an app under [[realtime.apps]] and restart Weir";
        Self::new(StatusCode::NOT_FOUND, "realtime is not served here", hint)
    }

    fn no_such_request() -> Self {
        let hint = "see docs/reference for the requests of the admin API";
        Self::new(StatusCode::NOT_FOUND, "there is no such request", hint)
    }

    fn wrong_method() -> Self {
        let hint = "reading is GET, acting is POST";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this request has another method", hint)
    }

    fn no_such_app(id: &str) -> Self {
        let hint = "apps go by their id, not by their key; GET overview lists them";
        Self::new(StatusCode::NOT_FOUND, format!("no app has the id {id:?}"), hint)
    }

    fn no_such_channel(name: &str) -> Self {
        let hint = "a channel is there while somebody is subscribed or it has a history";
        Self::new(StatusCode::NOT_FOUND, format!("there is no channel {name:?}"), hint)
    }
}

impl From<PublishTextError> for Problem {
    fn from(error: PublishTextError) -> Self {
        let text = error.to_string();
        match error {
            PublishTextError::NoApp(id) => Self::no_such_app(&id),
            PublishTextError::Channel(_) | PublishTextError::Event(_) => {
                Self::new(StatusCode::BAD_REQUEST, text, "names are as in Pusher's protocol")
            }
            PublishTextError::TooLarge { .. } => {
                let hint = "the limit is realtime.limits.event_data_bytes_max";
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, text, hint)
            }
            PublishTextError::Refused(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text, "try again")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": self.error, "hint": self.hint });
        (self.status, Json(body)).into_response()
    }
}

/// The query of a URL.
struct Params<T>(T);

impl<T: for<'de> Deserialize<'de>, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        let Query(value) = read.map_err(|error: QueryRejection| {
            let hint = "say which app, by its id: ?app=1";
            Problem::new(StatusCode::BAD_REQUEST, error.body_text(), hint)
        })?;
        Ok(Self(value))
    }
}

/// A JSON body.
struct Input<T>(T);

impl<T: for<'de> Deserialize<'de>, S: Send + Sync> FromRequest<S> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Problem> {
        let read = Json::<T>::from_request(request, state).await;
        let Json(value) = read.map_err(|error: JsonRejection| {
            let hint = "the body is JSON, sent with Content-Type: application/json";
            Problem::new(error.status(), error.body_text(), hint)
        })?;
        Ok(Self(value))
    }
}

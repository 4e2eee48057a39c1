//! A test event, published by hand.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use weir_realtime::operations::PublishEvent;

use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::channel_address;
use crate::console::Console;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "channel_publish.html")]
struct PublishPage {
    shell: Shell,
    app: String,
    name: String,
    name_shown: String,
    subscribers: String,
    is_encrypted: bool,
    back: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    app: String,
    name: String,
}

/// `GET /channel/publish?app=..&name=..`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(Wanted { app, name }): Query<Wanted>,
) -> Result<Response, PageError> {
    let hub = &super::of(&console)?.hub;
    hub.check_channel(&app, &name)?;
    let subscribers = hub.channel_view(&app, &name).map_or(0, |channel| channel.subscribers);
    Ok(html(&PublishPage {
        shell: Shell::new(&console, &visitor, Section::Channels, "Publish a test event"),
        name_shown: visible(&name).into_owned(),
        subscribers: figures::counted(subscribers as u64, "subscriber"),
        is_encrypted: name.starts_with("private-encrypted-"),
        back: channel_address(&app, &name, &[]),
        app,
        name,
    }))
}

/// `POST /channel/publish`
pub(crate) async fn act(
    State(console): State<Arc<Console>>,
    form: CheckedForm,
) -> Result<Response, PageError> {
    let field = |name: &str| form.get(name).unwrap_or_default().to_owned();
    // A browser ends lines as HTTP does; nobody types that.
    let data = field("data").replace("\r\n", "\n");
    let data = to_raw_value(&data).map_err(|error| PageError::Invalid(error.to_string()))?;
    let wish =
        PublishEvent { app: field("app"), channel: field("name"), event: field("event"), data };
    let published = super::of(&console)?.hub.publish_event(&wish).await?;
    let PublishEvent { app, channel, event, .. } = &wish;
    tracing::info!(app, channel, event, "console: published a test event");
    let count = published.subscribers.to_string();
    let done = if published.is_switched_off { "off" } else { "published" };
    let back = channel_address(app, channel, &[("done", done), ("count", &count)]);
    Ok(Redirect::to(&back).into_response())
}

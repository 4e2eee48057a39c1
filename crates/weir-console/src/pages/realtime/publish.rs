//! A test event, published by hand.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde_json::value::to_raw_value;
use weir_realtime::operations::PublishEvent;

use super::super::frame::{PageFrame, Section, html};
use super::super::request::{FormRequest, PageRequest, PageResult};
use super::{ChannelNameQuery, channel_address};
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "channel_publish.html")]
struct PublishPage {
    frame: PageFrame,
    app: String,
    name: String,
    name_shown: String,
    subscribers: String,
    is_encrypted: bool,
    back: String,
}

/// `GET /channel/publish?app=..&name=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let ChannelNameQuery { app, name } = request.query()?;
    let hub = &request.console.realtime()?.hub;
    hub.check_channel(&app, &name)?;
    let subscribers = hub.channel_view(&app, &name).map_or(0, |channel| channel.subscribers);
    Ok(html(&PublishPage {
        frame: request.frame(Section::Channels, "Publish a test event"),
        name_shown: visible(&name).into_owned(),
        subscribers: figures::counted(subscribers as u64, "subscriber"),
        is_encrypted: name.starts_with("private-encrypted-"),
        back: channel_address(&app, &name, &[]),
        app,
        name,
    }))
}

/// `POST /channel/publish`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let field = |name: &str| form.get(name).unwrap_or_default().to_owned();
    // Browsers send line ends as CR LF.
    let data = field("data").replace("\r\n", "\n");
    let data = to_raw_value(&data).map_err(|error| PageError::Invalid(error.to_string()))?;
    let request =
        PublishEvent { app: field("app"), channel: field("name"), event: field("event"), data };
    let published = console.realtime()?.hub.publish_event(&request).await?;
    let PublishEvent { app, channel, event, .. } = &request;
    tracing::info!(app, channel, event, "console: published a test event");
    let count = published.subscribers.to_string();
    let done = if published.is_switched_off { "off" } else { "published" };
    let back = channel_address(app, channel, &[("done", done), ("count", &count)]);
    Ok(Redirect::to(&back).into_response())
}

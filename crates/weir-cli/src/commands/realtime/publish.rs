//! `weir realtime publish`.

use std::io::Read;

use anyhow::Context;
use clap::Args;
use serde_json::value::to_raw_value;
use weir_realtime::operations::{EventPublished, PublishEvent};

use super::shards;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir realtime publish`.
#[derive(Debug, Args)]
pub(crate) struct RealtimePublishArgs {
    #[command(flatten)]
    target: Target,
    /// The app's id
    app: String,
    /// The channel
    channel: String,
    /// The event's name
    event: String,
    /// The event's data, usually JSON; `-`: standard input
    data: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &RealtimePublishArgs) -> anyhow::Result<Exit> {
    let RealtimePublishArgs { app, channel, event, .. } = arguments;
    let event = PublishEvent {
        app: app.clone(),
        channel: channel.clone(),
        event: event.clone(),
        data: to_raw_value(&data(&arguments.data)?)?,
    };
    let mut client = AdminClient::connect(&arguments.target).await?;
    let published: anyhow::Result<EventPublished> =
        client.post("/v1/realtime/publish", &event).await;
    let published = match published {
        Ok(published) => published,
        Err(error) => return Err(shards::with_those_away(&mut client, error).await),
    };
    if arguments.json {
        output::json(&published)?;
    } else if published.is_switched_off {
        output::line(&format!("not sent: {} is switched off (weir switch list)", event.event));
    } else {
        let subscribers = output::count(published.subscribers as u64, "subscriber");
        let is_shared = !shards::of(&mut client).await.is_empty();
        let others = " of this node; other nodes deliver it to theirs";
        output::line(&format!("published to {subscribers}{}", if is_shared { others } else { "" }));
    }
    Ok(if published.is_switched_off { Exit::Failed } else { Exit::Fine })
}

fn data(argument: &str) -> anyhow::Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("standard input")?;
    Ok(text)
}

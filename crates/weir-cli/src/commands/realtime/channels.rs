//! `weir realtime channels`.

use clap::Args;
use serde::Serialize;
use weir_realtime::view::{ChannelPage, ChannelView, HubOverview};

use super::path::path;
use super::shards;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir realtime channels`.
#[derive(Debug, Args)]
pub(crate) struct RealtimeChannelsArgs {
    #[command(flatten)]
    target: Target,
    /// Only channels of this app [default: all apps]
    #[arg(long, value_name = "ID")]
    app: Option<String>,
    /// Only channels whose names begin with this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Maximum number of rows of each app
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A channel, and whose it is.
#[derive(Debug, Serialize)]
struct Listed {
    app: String,
    #[serde(flatten)]
    channel: ChannelView,
}

pub(super) async fn run(arguments: &RealtimeChannelsArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let apps = match &arguments.app {
        Some(app) => vec![app.clone()],
        None => {
            let overview: HubOverview = client.get("/v1/realtime/overview").await?;
            overview.apps.into_iter().map(|app| app.id).collect()
        }
    };
    let (mut listed, mut total) = (Vec::new(), 0);
    let limit = arguments.limit.to_string();
    for app in apps {
        let parameters = [("app", &*app), ("prefix", &*arguments.prefix), ("limit", &*limit)];
        let page: ChannelPage = client.get(&path("channels", &parameters)).await?;
        total += page.total;
        let of_app = page.channels.into_iter();
        listed.extend(of_app.map(|channel| Listed { app: app.clone(), channel }));
    }
    if arguments.json {
        output::json(&listed)?;
    } else {
        print(&listed, total);
        if !shards::of(&mut client).await.is_empty() {
            output::note(
                "SUBSCRIBERS, EVENTS/S, BYTES/S, KEPT and SLOWED are those of this node; USERS are those of all nodes",
            );
        }
    }
    Ok(Exit::Fine)
}

fn print(listed: &[Listed], total: usize) {
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    let head = ["APP", "CHANNEL", "SUBSCRIBERS", "USERS", "EVENTS/S", "BYTES/S", "KEPT", "SLOWED"];
    output::table(&head, &rows);
    output::note(&format!("{} of {total}", listed.len()));
}

fn row(Listed { app, channel }: &Listed) -> Vec<String> {
    vec![
        app.clone(),
        channel.name.clone(),
        channel.subscribers.to_string(),
        channel.users.map_or_else(|| "-".to_owned(), |users| users.to_string()),
        format!("{:.1}", channel.events_per_second),
        format!("{:.0}", channel.bytes_per_second),
        channel.history_events.to_string(),
        channel.slowed.to_string(),
    ]
}

//! `weir realtime disconnect`.

use clap::Args;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::realtime::{Count, Disconnect};

/// `weir realtime disconnect`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).args(["user", "socket"]))]
pub(crate) struct RealtimeDisconnectArgs {
    #[command(flatten)]
    target: Target,
    /// The app's id
    app: String,
    /// Id of a signed-in user
    user: Option<String>,
    /// One connection, by its socket id: 123.456
    #[arg(long, value_name = "SOCKET_ID")]
    socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &RealtimeDisconnectArgs) -> anyhow::Result<Exit> {
    let app = arguments.app.clone();
    let whom = match (&arguments.user, &arguments.socket) {
        (_, Some(socket_id)) => Disconnect::Socket { app, socket_id: socket_id.clone() },
        (user, None) => Disconnect::User { app, user: user.clone().unwrap_or_default() },
    };
    let mut client = AdminClient::connect(&arguments.target).await?;
    let count: Count = client.post("/v1/realtime/disconnect", &whom).await?;
    if arguments.json {
        output::json(&count)?;
    } else {
        output::line(&format!("{} closed", output::count(count.count as u64, "connection")));
    }
    Ok(Exit::Fine)
}

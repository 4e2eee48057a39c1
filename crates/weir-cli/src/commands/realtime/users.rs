//! `weir realtime users`.

use clap::Args;
use weir_realtime::view::{MemberPage, MemberView};

use super::path::path;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// Users that one request asks for.
const PAGE: &str = "1000";

/// `weir realtime users`.
#[derive(Debug, Args)]
pub(crate) struct RealtimeUsersArgs {
    #[command(flatten)]
    target: Target,
    /// The app's id
    app: String,
    /// A presence channel
    channel: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &RealtimeUsersArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let mut members: Vec<MemberView> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut parameters =
            vec![("app", &*arguments.app), ("channel", &*arguments.channel), ("limit", PAGE)];
        parameters.extend(after.as_deref().map(|after| ("after", after)));
        let page: MemberPage = client.get(&path("users", &parameters)).await?;
        members.extend(page.members);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if arguments.json {
        output::json(&members)?;
    } else {
        let row = |member: &MemberView| {
            vec![member.user_id.clone(), member.user_info.clone().unwrap_or_default()]
        };
        output::table(&["USER", "INFO"], &members.iter().map(row).collect::<Vec<_>>());
    }
    Ok(Exit::Fine)
}

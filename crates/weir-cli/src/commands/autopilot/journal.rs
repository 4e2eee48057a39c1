//! `weir autopilot journal`.

use clap::Args;
use weir_autopilot::journal::JournalEntry;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output::{self, printable};
use crate::target::Target;

/// `weir autopilot journal`.
#[derive(Debug, Args)]
pub(crate) struct JournalArguments {
    #[command(flatten)]
    target: Target,
    /// The most entries
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Only entries before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JournalArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let before = arguments.before.map(|id| format!("&before={id}")).unwrap_or_default();
    let path = format!("/v1/autopilot/journal?limit={}{before}", arguments.limit);
    let mut entries: Vec<JournalEntry> = client.get(&path).await?;
    entries.reverse();
    if arguments.json {
        output::json(&entries)?;
    } else if entries.is_empty() {
        output::line("the journal is empty");
    } else {
        entries.iter().for_each(|entry| output::line(&line(entry)));
    }
    Ok(Exit::Fine)
}

fn line(entry: &JournalEntry) -> String {
    let kind = entry.kind.name();
    format!("{:>5}  {}  {kind:<8}  {}", entry.id, output::time(entry.at), printable(&entry.text))
}

//! `weir jobs damage`: damage to the job store that no operator has acknowledged.

use clap::Args;
use serde_json::json;
use weir_admin::jobs::JobCount;
use weir_jobs::view::Damage;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs damage`.
#[derive(Debug, Args)]
pub(crate) struct JobsDamageArgs {
    #[command(flatten)]
    target: Target,
    /// Acknowledge the damage, so that Weir no longer reports it
    #[arg(long)]
    acknowledge: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsDamageArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    if arguments.acknowledge {
        let JobCount { count } = client.post("/v1/jobs/damage/acknowledge", &()).await?;
        if arguments.json {
            output::json(&json!({ "acknowledged": count }))?;
        } else {
            output::line(&format!("{} acknowledged", places(count)));
        }
        return Ok(Exit::Fine);
    }
    let damages: Vec<Damage> = client.get("/v1/jobs/damage").await?;
    if arguments.json {
        output::json(&damages)?;
    } else {
        print(&damages);
    }
    Ok(if damages.is_empty() { Exit::Fine } else { Exit::FoundProblem })
}

fn print(damages: &[Damage]) {
    if damages.is_empty() {
        return output::line("no unacknowledged damage");
    }
    let row = |damage: &Damage| {
        let Damage { file, offset, bytes, set_aside, why } = damage;
        let numbers = [offset, bytes, set_aside].map(ToString::to_string);
        let [offset, bytes, set_aside] = numbers;
        vec![file.clone(), offset, bytes, set_aside, why.clone()]
    };
    let rows: Vec<_> = damages.iter().map(row).collect();
    output::table(&["SEGMENT", "OFFSET", "BYTES", "SET ASIDE", "REASON"], &rows);
    output::line(ADVICE);
}

const ADVICE: &str = "Print the jobs in the damaged records with `weir jobs salvage`. End this report with `weir jobs damage --acknowledge`.";

/// Formats a count: `1 damaged place`, `5 damaged places`.
fn places(count: u64) -> String {
    if count == 1 { "1 damaged place".to_owned() } else { format!("{count} damaged places") }
}

//! `weir audit`: who changed what.

use clap::Args;
use weir_access::{AuditEntry, AuditPage};

use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::output::{self, printable};
use crate::target::Target;

/// `weir audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    target: Target,
    /// The most entries, at most 1000
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Only entries before this id
    #[arg(long, value_name = "ID")]
    before: Option<u64>,
    /// Only changes by this user: the name of a user of the console, "token NAME", or of a Unix user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only actions that begin with this text, such as "queue"
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &AuditArguments) -> anyhow::Result<Exit> {
    let page: AuditPage = admin_client::block_on(async {
        let mut client = AdminClient::connect(&arguments.target).await?;
        client.get(&arguments.path()).await
    })?;
    if let Some(problem) = &page.problem {
        let changes = output::count(page.unwritten as u64, "change");
        output::note(&format!(
            "warning: {changes} in memory only, because the audit log cannot be written: {}",
            printable(problem)
        ));
    }
    if arguments.json {
        output::json(&page)?;
    } else if page.entries.is_empty() {
        output::line("no changes");
    } else {
        let rows: Vec<Vec<String>> = page.entries.iter().rev().map(row).collect();
        output::table(&["TIME", "USER", "ROLE", "FROM", "ACTION", "TARGET", "OUTCOME"], &rows);
        if let Some(next) = page.next {
            output::note(&format!("there are earlier ones: --before {next}"));
        }
    }
    Ok(Exit::Fine)
}

impl AuditArguments {
    fn path(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &self.limit.to_string());
        let before = self.before.map(|id| id.to_string());
        let fields = [("before", &before), ("user", &self.user), ("action", &self.action)];
        for (name, value) in fields {
            query.extend_pairs(value.iter().map(|value| (name, value)));
        }
        format!("/v1/audit?{}", query.finish())
    }
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let via = entry.via.name();
    let from = entry.address.as_ref().map_or_else(|| via.to_owned(), |it| format!("{via} {it}"));
    let status = entry.status.map(|status| format!(" {status}")).unwrap_or_default();
    vec![
        output::time(entry.at),
        printable(&entry.user),
        entry.role.to_string(),
        from,
        printable(&entry.action),
        printable(&entry.target),
        format!("{}{status}", entry.outcome.name()),
    ]
}

//! `weir gems list`: names of gems.

use clap::Args;
use weir_gems::view::NamePage;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// Names per request, which is the server's limit.
const PAGE_NAMES: usize = 10_000;

/// `weir gems list`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Only names that contain this text, case-insensitive
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Maximum number of rows
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let mut names: Vec<String> = Vec::new();
    let mut after = None;
    let total = loop {
        let limit = (arguments.limit - names.len()).min(PAGE_NAMES);
        let page: NamePage = client.get(&path(arguments, after.as_deref(), limit)).await?;
        names.extend(page.names);
        after = page.next;
        if after.is_none() || names.len() >= arguments.limit {
            break page.total;
        }
    };
    if arguments.json {
        output::json(&names)?;
    } else {
        for name in &names {
            output::line(name);
        }
        output::note(&format!("{} of {total}", names.len()));
    }
    Ok(Exit::Fine)
}

fn path(arguments: &Arguments, after: Option<&str>, limit: usize) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string());
    if let Some(search) = &arguments.search {
        query.append_pair("search", search);
    }
    if let Some(after) = after {
        query.append_pair("after", after);
    }
    format!("/v1/gems/names?{}", query.finish())
}

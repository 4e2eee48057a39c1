//! `weir gems info`: a gem with its releases.

use clap::Args;
use weir_gems::view::{GemView, ReleaseView};

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_config::units;

/// `weir gems info`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Its name, case-sensitive
    name: String,
    /// Maximum number of releases
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("name", &arguments.name).append_pair("limit", &arguments.limit.to_string());
    let gem: GemView = client.get(&format!("/v1/gems/gem?{}", query.finish())).await?;
    if arguments.json {
        output::json(&gem)?;
        return Ok(Exit::Fine);
    }
    let rows: Vec<Vec<String>> = gem.releases.iter().map(row).collect();
    let head = ["VERSION", "PLATFORM", "FILE", "SHA256", "NEEDS"];
    output::table(&head, &rows);
    output::note(&format!("{} of {}", gem.releases.len(), gem.releases_total));
    Ok(Exit::Fine)
}

/// Digits of a checksum that are shown.
const SHA256_SHOWN: usize = 12;

fn row(release: &ReleaseView) -> Vec<String> {
    let dependencies = release.dependencies.iter();
    let dependencies = dependencies.map(|it| format!("{} ({})", it.name, it.requirement));
    let ruby = release.ruby.iter().map(|ruby| format!("Ruby {ruby}"));
    let rubygems = release.rubygems.iter().map(|rubygems| format!("RubyGems {rubygems}"));
    let needs: Vec<String> = ruby.chain(rubygems).chain(dependencies).collect();
    vec![
        release.number.clone(),
        release.platform.clone(),
        release.bytes.map_or_else(|| "elsewhere".to_owned(), units::about_size),
        release.sha256.chars().take(SHA256_SHOWN).collect(),
        needs.join("; "),
    ]
}

//! `weir gems key ..`: API keys.

use std::time::Duration;

use clap::{Args, Subcommand};
use weir_base::clock::Clock;
use weir_base::switch::{Pattern, PatternError};
use weir_gems::name::{GemName, NameError};
use weir_gems::store::Scope;
use weir_gems::view::KeyView;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;
use weir_admin::Done;
use weir_admin::gems::{CreatedKey, NewKey, Revoke};
use weir_config::units;

/// The verbs of `weir gems key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print it; it is not shown again
    Create(CreateArguments),
    /// List keys, without their secrets
    List(ListArguments),
    /// Revoke a key
    Revoke(RevokeArguments),
}

/// `weir gems key create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    #[command(flatten)]
    target: Target,
    /// A label for the key, such as its owner
    name: String,
    /// What it allows: index_rubygems (reading, where gems.read = "key"), push_rubygem, yank_rubygem
    #[arg(
        long = "scope",
        value_name = "SCOPE",
        value_delimiter = ',',
        default_value = "push_rubygem"
    )]
    scopes: Vec<Scope>,
    /// Gems that the key may push and yank; `*` stands for any text [default: all]
    #[arg(long = "gem", value_name = "PATTERN", value_delimiter = ',', value_parser = parse_pattern)]
    gems: Vec<Pattern>,
    /// Time until the key expires, for example 90d [default: never]
    #[arg(long = "expires", value_name = "DURATION", value_parser = units::parse_duration)]
    expires_after: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir gems key list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir gems key revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    #[command(flatten)]
    target: Target,
    /// The key's number in `weir gems key list`
    #[arg(value_parser = parse_id)]
    id: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PATH: &str = "/v1/gems/keys";

/// Parses a pattern, and rejects one that cannot match any name.
fn parse_pattern(text: &str) -> Result<Pattern, String> {
    match text.replace('*', "").parse::<GemName>() {
        Err(error @ NameError::Character { .. }) => Err(error.to_string()),
        _ => text.parse().map_err(|error: PatternError| error.to_string()),
    }
}

fn parse_id(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "a key is identified by a number; `weir gems key list` shows them".to_owned())
}

pub(super) async fn run(command: KeyCommand) -> anyhow::Result<Exit> {
    match command {
        KeyCommand::Create(arguments) => create(&arguments).await,
        KeyCommand::List(arguments) => list(&arguments).await,
        KeyCommand::Revoke(arguments) => revoke(&arguments).await,
    }
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    // Rounded up: a fraction of a second must not become zero.
    let expires_after = arguments.expires_after.map(|after| after.as_millis().div_ceil(1_000));
    let expires_after_seconds = expires_after.map(u64::try_from).transpose()?;
    let new = NewKey {
        name: arguments.name.clone(),
        scopes: arguments.scopes.clone(),
        gems: arguments.gems.clone(),
        expires_after_seconds,
    };
    let created: CreatedKey = client.post(PATH, &new).await?;
    if arguments.json {
        output::json(&created)?;
    } else {
        output::line(&created.secret);
        let id = created.key.id;
        output::note(&format!(
            "This is key {id}; it is not shown again. {}",
            usage_hint(&created.key)
        ));
    }
    Ok(Exit::Fine)
}

/// Returns how clients use the key.
fn usage_hint(key: &KeyView) -> String {
    let mut ways = Vec::new();
    if key.scopes.contains(&Scope::IndexRubygems) {
        ways.push("Use it as the password of any user: bundle config set --global HOST USER:KEY.");
    }
    if key.scopes.iter().any(|scope| *scope != Scope::IndexRubygems) {
        ways.push("gem push reads it from GEM_HOST_API_KEY.");
    }
    if !key.gems.is_empty() && ways.len() > 1 {
        ways.push("It can read all gems; --gem limits pushes and yanks only.");
    }
    ways.join(" ")
}

async fn list(arguments: &ListArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let keys: Vec<KeyView> = client.get(PATH).await?;
    if arguments.json {
        output::json(&keys)?;
    } else {
        let now = Clock::system().now().as_secs_f64();
        let rows: Vec<Vec<String>> = keys.iter().map(|key| row(key, now)).collect();
        output::table(&["ID", "NAME", "SCOPES", "GEMS", "MADE", "EXPIRES"], &rows);
    }
    Ok(Exit::Fine)
}

fn row(key: &KeyView, now: f64) -> Vec<String> {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
    let expires = match key.expires_at {
        None => "never".to_owned(),
        Some(_) if key.is_expired => "expired".to_owned(),
        Some(at) => format!("in {}", seconds((at - now).max(0.0))),
    };
    vec![
        key.id.to_string(),
        key.name.clone(),
        scopes.join(", "),
        if key.gems.is_empty() { "all".to_owned() } else { key.gems.join(", ") },
        format!("{} ago", seconds((now - key.created_at).max(0.0))),
        expires,
    ]
}

async fn revoke(arguments: &RevokeArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let id = arguments.id;
    let done: Done = client.post("/v1/gems/keys/revoke", &Revoke { id }).await?;
    if arguments.json {
        output::json(&done)?;
    } else {
        output::line(&format!("key {id} is revoked"));
    }
    Ok(Exit::Fine)
}

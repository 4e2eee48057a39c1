//! `weir gems mirror status`: the state of each upstream.

use clap::Args;
use weir_gems::view::{MirrorView, PhaseView, ReplacedView, UpstreamView};

use super::report::describe_denied;
use super::running::PATH;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output::seconds;
use crate::output::{self, count, printable};
use crate::target::Target;

/// `weir gems mirror status`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let view: MirrorView = client.get(PATH).await?;
    if arguments.json {
        output::json(&view)?;
    } else {
        print(&view);
    }
    Ok(Exit::Fine)
}

fn print(view: &MirrorView) {
    let rows: Vec<Vec<String>> = view.upstreams.iter().map(row).collect();
    output::table(
        &[
            "UPSTREAM",
            "SYNCHRONIZED",
            "NAMES",
            "PENDING",
            "REJECTED NAMES",
            "REJECTED VERSIONS",
            "PROGRESS",
        ],
        &rows,
    );
    output::line(&format!("{} waiting", count(view.hooks_waiting, "webhook")));
    for upstream in &view.upstreams {
        if let Some(error) = &upstream.last_error {
            output::line(&format!("{}: {}", upstream.name, printable(error)));
        } else if let Some(reason) = &upstream.last_miss {
            let reason = printable(reason);
            output::line(&format!("{}: not up to date: {reason}", upstream.name));
        }
        if let Some(denied) = describe_denied(upstream) {
            output::line(&format!("{}: {denied}", upstream.name));
        }
        for release in &upstream.replaced_releases {
            output::line(&format!("{}: {}", upstream.name, describe_replaced(release)));
        }
        let more = upstream.replaced.saturating_sub(upstream.replaced_releases.len() as u64);
        if more > 0 {
            output::line(&format!("{}: {more} more rejected versions", upstream.name));
        }
        for refused in &upstream.refused_names {
            let why = reason(&refused.reason);
            output::line(&format!("{}: {} is rejected: {why}", upstream.name, refused.name));
        }
    }
}

fn describe_replaced(release: &ReplacedView) -> String {
    let ReplacedView { name, number, platform, pinned_sha256, offered_sha256, .. } = release;
    let option = if platform == "ruby" { String::new() } else { format!(" --platform {platform}") };
    format!(
        "{name} {number} ({platform}) is rejected: the upstream has replaced the file with SHA-256 {pinned_sha256} by one with {offered_sha256}; accept it with `weir gems mirror accept {name} {number}{option}`"
    )
}

fn row(upstream: &UpstreamView) -> Vec<String> {
    let up_to_date = match upstream.staleness_seconds {
        Some(ago) => format!("{} ago", seconds(ago)),
        None => "never".to_owned(),
    };
    vec![
        upstream.name.clone(),
        up_to_date,
        upstream.names.to_string(),
        upstream.pending.to_string(),
        upstream.refused.to_string(),
        upstream.replaced.to_string(),
        describe_activity(upstream),
    ]
}

fn describe_activity(upstream: &UpstreamView) -> String {
    let Some(at) = &upstream.progress else { return "idle".to_owned() };
    let what = match at.phase {
        PhaseView::Versions => "reading /versions",
        PhaseView::Gems => "reading gems",
        PhaseView::Files => "fetching .gem files",
    };
    match at.total {
        Some(total) if total > 0 => format!("{what} ({} %)", at.done * 100 / total),
        _ => what.to_owned(),
    }
}

fn reason(reason: &str) -> &str {
    match reason {
        "policy" => "it is private by gems.mirror.policy",
        "local" => "it was pushed or imported here",
        "bound" => "it belongs to another upstream by gems.mirror.policy",
        "shadowed" => "an earlier upstream has it",
        "former" => "it came from an upstream that is no longer in gems.mirror.upstreams",
        "lookalike" => {
            "it could be mistaken for a gem that was pushed or imported here; allow it with a line `from UPSTREAM NAME` in gems.mirror.policy"
        }
        other => other,
    }
}

//! `weir init .. --check`: queues of the application that no process of weir.toml or of the compose override serves.
//!
//! An upgrade of the application may bring a queue. Its jobs wait until a process serves it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};

use super::compose;
use super::findings::Findings;
use super::folder::AppFolder;
use super::mastodon_version::{self, MastodonVersion};
use super::queues::{queues, unserved};
use super::ruby::RubyKind;
use crate::commands::plan::check::foreign::yaml::Yaml;
use crate::commands::plan::check::text::read_text;
use crate::exit::Exit;
use crate::output;

/// Compares the queues of the folder with those that are served.
pub(super) fn check(kind: RubyKind, folder: &AppFolder, settings: &Path) -> anyhow::Result<Exit> {
    let mut findings = Findings::default();
    let version = match kind {
        RubyKind::Mastodon => version(folder, &mut findings),
        RubyKind::Rails => None,
    };
    let of_version = match kind {
        RubyKind::Mastodon => mastodon_version::queues(version),
        RubyKind::Rails => Vec::new(),
    };
    let needed = queues(folder, None, &of_version, &mut findings);
    if needed.is_empty() {
        bail!(
            "no queue was found in {}: neither in config/sidekiq.yml nor in the code",
            folder.shown()
        );
    }
    let (served, source) = served(settings)?;
    output::raw(&findings.text());
    let missing = unserved(&needed, &served);
    if missing.is_empty() {
        let count = output::count(needed.len() as u64, "queue");
        output::line(&output::printable(&format!(
            "{source} serves the {count} of the application: {}",
            needed.join(", ")
        )));
        return Ok(Exit::Fine);
    }
    let name = kind.name();
    for queue in missing {
        output::line(&output::printable(&format!(
            "queue {queue}: no process of {source} serves it, so its jobs would wait; write the settings again with \
             `weir init {name} {} --force`, or add it to `queues` of a process",
            folder.shown()
        )));
    }
    Ok(Exit::FoundProblem)
}

/// Returns Mastodon's version, from its code or from the tag of its image.
fn version(folder: &AppFolder, findings: &mut Findings) -> Option<MastodonVersion> {
    let code = folder.read("lib/mastodon/version.rb", findings);
    code.and_then(|text| MastodonVersion::in_ruby(&text)).or_else(|| {
        let app = compose::ComposeApp::read(folder).ok()??;
        let mut images = app.images().filter(|image| image.contains("mastodon"));
        images.find_map(MastodonVersion::in_image)
    })
}

/// Returns the queues that processes serve, and the file that says so.
fn served(settings: &Path) -> anyhow::Result<(BTreeSet<String>, String)> {
    let shown = settings.display();
    let text = read_text(settings)?;
    let table: toml::Table = text.parse().with_context(|| format!("{shown} is not TOML"))?;
    let groups = table.get("workers").and_then(toml::Value::as_table);
    let queues =
        groups.into_iter().flatten().filter_map(|(_, group)| group.get("queues")?.as_array());
    let names: BTreeSet<String> =
        queues.flatten().filter_map(toml::Value::as_str).map(without_weight).collect();
    let over = settings.with_file_name(compose::FILE);
    if names.is_empty() && over.is_file() {
        return Ok((served_in_compose(&read_text(&over)?), over.display().to_string()));
    }
    Ok((names, shown.to_string()))
}

/// Returns the words after `-q` in the commands of the override.
fn served_in_compose(text: &str) -> BTreeSet<String> {
    let yaml = Yaml::parse(text);
    let services = yaml.as_ref().and_then(|it| it.get("services")).map(Yaml::pairs);
    let commands = services.unwrap_or_default().iter();
    let commands = commands.filter_map(|(_, service)| service.get("command")?.text());
    let words = commands.map(|command| command.split_whitespace().collect::<Vec<_>>());
    let after = |words: Vec<&str>| {
        let pairs = words.windows(2).filter(|pair| pair[0] == "-q");
        pairs.map(|pair| without_weight(pair[1])).collect::<Vec<_>>()
    };
    words.flat_map(after).collect()
}

fn without_weight(queue: &str) -> String {
    queue.split(',').next().unwrap_or(queue).to_owned()
}

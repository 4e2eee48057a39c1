//! `weir init` for an application: Weir's settings from what its folder holds.

mod addresses;
mod code_queues;
mod compose;
mod django;
mod draft;
mod findings;
mod folder;
mod gemfile;
mod guard;
mod mastodon_version;
mod node;
mod options;
mod queues;
mod quote;
mod ruby;
mod settings;
mod today;
mod unit;
mod units;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use weir_config::Source;

use self::draft::Draft;
use self::folder::AppFolder;
pub(super) use self::options::AppOptions;
use self::quote::is_plain;
use self::ruby::RubyKind;
pub(crate) use self::today::RunBy;
use crate::exit::{Exit, WrongUsage};
use crate::output;

/// An application whose files are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppKind {
    Mastodon,
    Rails,
    Django,
    Node,
}

/// What happens with the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) is_printed: bool,
    pub(super) force: bool,
    /// Only compare the queues.
    pub(super) check: bool,
}

/// Writes the files of an application, and prints how they come into effect.
pub(super) fn run(
    kind: AppKind,
    folder: &Path,
    output: Option<&Path>,
    mut options: AppOptions,
    outcome: Outcome,
) -> anyhow::Result<Exit> {
    let folder = AppFolder::open(folder)?;
    options.settings = settings_path(&folder, output)?;
    options.units = std::path::absolute(&options.units)
        .with_context(|| format!("cannot use {}", options.units.display()))?;
    check_path("--units", &options.units)?;
    let ruby = match kind {
        AppKind::Mastodon => Some(RubyKind::Mastodon),
        AppKind::Rails => Some(RubyKind::Rails),
        AppKind::Django | AppKind::Node => None,
    };
    if outcome.check {
        let Some(kind) = ruby else {
            bail!(WrongUsage::new(
                "--check compares the queues of Sidekiq: it needs mastodon or rails"
            ));
        };
        return guard::check(kind, &folder, &options.settings);
    }
    if ruby.is_none() && !options.plan.is_empty() {
        bail!(WrongUsage::new("options of `weir plan` after -- need mastodon or rails"));
    }
    let draft = match kind {
        AppKind::Django => django::draft(&folder, &options)?,
        AppKind::Node => node::draft(&folder, &options)?,
        AppKind::Mastodon => ruby::draft(RubyKind::Mastodon, &folder, &options)?,
        AppKind::Rails => ruby::draft(RubyKind::Rails, &folder, &options)?,
    };
    check_settings(&draft, &options.settings)?;
    print(&draft, &options, outcome)
}

fn print(draft: &Draft, options: &AppOptions, outcome: Outcome) -> anyhow::Result<Exit> {
    if outcome.is_printed {
        output::raw(&draft.settings);
        output::note(draft.report().trim_end());
        return Ok(Exit::Fine);
    }
    let written = draft.write(&options.settings, outcome.force)?;
    output::raw(&draft.report());
    output::line("");
    written.iter().for_each(|path| output::line(&format!("wrote  {}", path.display())));
    output::raw(&format!("\n{}", draft.steps()));
    Ok(Exit::Fine)
}

/// Returns the absolute path of weir.toml: the given one, or in the application's folder.
fn settings_path(folder: &AppFolder, output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match output.filter(|path| *path != Path::new("-")) {
        None => folder.path.join("weir.toml"),
        Some(path) => {
            std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))?
        }
    };
    check_path("--output", &path)?;
    Ok(path)
}

/// Checks that a path can be written to units and commands.
fn check_path(option: &str, path: &Path) -> anyhow::Result<()> {
    if !path.to_str().is_some_and(is_plain) {
        bail!(WrongUsage::new(format!(
            "{option} {:?} cannot be written to units and commands; its name may have only letters, digits, _ . - and /",
            path.display().to_string()
        )));
    }
    Ok(())
}

/// Reads the settings as `weir up` will: whatever the folder holds, no file with an error is written.
fn check_settings(draft: &Draft, path: &Path) -> anyhow::Result<()> {
    let source = Source::of(path, &draft.settings, None);
    match weir_config::parse(&source, &|_| None) {
        Ok(_) => Ok(()),
        Err(errors) => {
            bail!("the settings for this folder are not valid, and nothing was written:\n{errors}")
        }
    }
}

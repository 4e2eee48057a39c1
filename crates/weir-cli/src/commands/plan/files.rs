//! A plan as files that are ready to use.

pub(in crate::commands) mod compose;
mod earlier;
mod layout;
mod settings;
mod systemd;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use weir_advisor::plan::{
    Plan, PlanInput, PlannedSetting, WorkerLayout, queue_words, redis_script,
};

use self::earlier::EarlierFiles;
use super::arguments::PlanArguments;
use crate::commands::confirm::confirm;
use crate::output;

/// A file of a plan.
pub(super) struct PlannedFile {
    /// The path within the folder.
    name: String,
    text: String,
}

/// Returns all files of a plan.
pub(super) fn files(
    arguments: &PlanArguments,
    input: &PlanInput,
    plan: &Plan,
) -> anyhow::Result<Vec<PlannedFile>> {
    check_names(input)?;
    for (option, text) in [("--folder", &arguments.folder), ("--user", &arguments.user)] {
        if text.contains(|it: char| it.is_control() || it.is_whitespace() || it == '%') {
            bail!("{option} {text:?} cannot be written to files: it contains white space or %");
        }
    }
    let file = |name: &str, text: String| PlannedFile { name: name.to_owned(), text };
    let mut files = vec![
        file("layout.toml", layout::text(input, plan)),
        file("weir.toml", settings::text(arguments, plan)),
        file("docker-compose.override.yml", compose::text(plan)),
    ];
    let units = plan.layout.workers.iter().map(|worker| systemd::unit(arguments, worker));
    let drop_ins = plan.layout.services.iter().filter_map(systemd::drop_in);
    files.extend(units.chain(drop_ins).map(|(name, text)| file(&name, text)));
    if !plan.postgres.is_empty() {
        files.push(file("postgresql-weir.conf", postgres_conf(&plan.postgres)));
    }
    if !plan.redis.is_empty() {
        files.push(file("redis-weir.sh", redis_script(&plan.redis)));
    }
    Ok(files)
}

/// Checks that the names of all queues can be written to files.
pub(in crate::commands) fn check_names(input: &PlanInput) -> anyhow::Result<()> {
    // Names come from Redis, where clients choose them: in a unit, a newline would inject a
    // command.
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_odd = |name: &&str| !name.chars().all(plain) || name.starts_with(['-', '.']);
    if let Some(name) = input.queues.iter().map(|queue| queue.name.as_str()).find(is_odd) {
        bail!(
            "the queue {name:?} cannot be written to files; its name may have only letters, digits, _ . and -"
        );
    }
    Ok(())
}

/// Writes changed files, after one confirmation for all that exist. Files of an earlier plan that
/// are not in this one are reported, and removed only with `--prune`.
pub(super) fn write(
    folder: &Path,
    files: &[PlannedFile],
    arguments: &PlanArguments,
) -> anyhow::Result<()> {
    let PlanArguments { yes, prune, .. } = *arguments;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let earlier = EarlierFiles::read(folder)?;
    let present = |file: &PlannedFile| fs::read_to_string(folder.join(&file.name));
    let differs = |file: &&PlannedFile| present(file).is_ok_and(|text| text != file.text);
    let others: Vec<&str> = files.iter().filter(differs).map(|file| file.name.as_str()).collect();
    if !others.is_empty() {
        let question = format!("Replace {} in {}?", others.join(", "), folder.display());
        if !confirm(&question, yes)? {
            output::note("no files were written");
            return Ok(());
        }
    }
    for file in files {
        let path = folder.join(&file.name);
        let of_its_own = path.parent().unwrap_or(folder);
        fs::create_dir_all(of_its_own)
            .with_context(|| format!("cannot make {}", of_its_own.display()))?;
        fs::write(&path, &file.text).with_context(|| format!("cannot write {}", path.display()))?;
        output::note(&format!("wrote {}", path.display()));
    }
    output::note("the first lines of each file describe how to activate it");
    earlier.resolve(folder, files, prune)
}

pub(in crate::commands) fn postgres_conf(settings: &[PlannedSetting]) -> String {
    let mut text = "# Add as the last line of postgresql.conf: include 'postgresql-weir.conf'\n\
        # Values set by ALTER SYSTEM or on the command line override this file. To list them:\n\
        #   SELECT name, setting, source, sourcefile FROM pg_settings\n\
        #   WHERE sourcefile LIKE '%postgresql.auto.conf' OR source = 'command line';\n\
        # To remove one of them: ALTER SYSTEM RESET name;\n"
        .to_owned();
    for PlannedSetting { name, value, reason, restart } in settings {
        let restart = if *restart { "; requires a restart" } else { "" };
        let _ = write!(text, "# {reason}{restart}\n{name} = {value}\n");
    }
    text
}

/// Formats `-q push -q pull`, each with a leading space.
fn queue_flags(worker: &WorkerLayout) -> String {
    queue_words(worker).iter().map(|queue| format!(" -q {queue}")).collect()
}

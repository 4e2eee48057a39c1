//! `weir check`: every error in the settings at once, what they set, and with `--all` everything that is in effect;
//! with `--machine` whether Weir can run with them here.

mod durability;
mod job_store;
mod machine;
mod realtime_broker;

use std::path::Path;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};
use weir_advisor::wording;

use self::durability::DurabilityReport;
use self::job_store::CheckedRedis;
use self::machine::MachineCheck;
use self::realtime_broker::CheckedBroker;
use crate::exit::Exit;
use crate::output;
use crate::target::SettingsArguments;
use weir_config::SettingErrors;
use weir_config::{Change, Loaded, Source, environment};

/// `weir check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Print every setting, including defaults (--json always does)
    #[arg(long)]
    pub(crate) all: bool,
    /// Rename settings in the file that have old names; the rest of the file is unchanged
    #[arg(long, conflicts_with = "json")]
    pub(crate) fix: bool,
    /// Do not connect to the Redis of jobs.store and realtime.broker
    #[arg(long)]
    pub(crate) offline: bool,
    /// Check this machine for this user as well: data directory, ports, limits, kernel, clock
    #[arg(long, conflicts_with = "fix")]
    pub(crate) machine: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> anyhow::Result<Exit> {
    let settings = &arguments.settings;
    let source = Source::find(settings.config.as_deref(), settings.data_dir.as_deref())?;
    match weir_config::parse(&source, &environment::variable) {
        Ok(loaded) if arguments.fix => fix(&source, &loaded),
        Ok(loaded) => report(&source, loaded, arguments),
        Err(errors) => {
            if arguments.json {
                print_errors_json(&errors)?;
            } else {
                output::line(&errors.to_string());
                let count = errors.errors.len();
                let plural = if count == 1 { "error" } else { "errors" };
                output::note(&format!("{count} {plural} in {}", errors.file));
            }
            Ok(Exit::FoundProblem)
        }
    }
}

/// The servers that the settings name, checked.
#[derive(Debug)]
struct CheckedServers {
    job_store: Vec<CheckedRedis>,
    broker: Vec<CheckedBroker>,
}

/// Prints valid settings, with what the servers that they name say to them.
fn report(source: &Source, mut loaded: Loaded, arguments: &CheckArguments) -> anyhow::Result<Exit> {
    let checked = CheckedServers {
        job_store: job_store::check(&loaded.settings, arguments.offline)?,
        broker: realtime_broker::check(&loaded.settings, arguments.offline)?,
    };
    let has_problem = checked.job_store.iter().any(CheckedRedis::has_problem);
    // A Redis that can't be used has no durability to report.
    let DurabilityReport { errors, warnings } = match arguments.offline || has_problem {
        true => DurabilityReport::default(),
        false => durability::report(&loaded.settings)?,
    };
    loaded.warnings.extend(warnings);
    let machine = if arguments.machine { machine::check(&loaded.settings) } else { Vec::new() };
    if arguments.json {
        print_json(&loaded, &checked, &machine, &errors)?;
    } else {
        print(source, &loaded, &checked, arguments.all);
        machine::print(&machine);
        for error in &errors {
            output::line(&format!("error: {error}"));
        }
    }
    let has_problem = has_problem
        || checked.broker.iter().any(CheckedBroker::has_problem)
        || machine.iter().any(MachineCheck::has_problem);
    let is_fine = errors.is_empty() && !has_problem;
    Ok(if is_fine { Exit::Fine } else { Exit::FoundProblem })
}

/// Writes a new file and replaces the old one with it.
fn fix(source: &Source, loaded: &Loaded) -> anyhow::Result<Exit> {
    if loaded.renamed.is_empty() {
        output::line("nothing to rewrite: no setting has an old name");
        return Ok(Exit::Fine);
    }
    let path = Path::new(&source.name);
    let text = weir_config::rewrite(&source.text, &loaded.renamed);
    let fixed = Source { text: text.clone(), ..source.clone() };
    weir_config::parse(&fixed, &environment::variable)
        .context("the rewritten file would have errors; change these settings by hand")?;
    let fresh = path.with_extension("toml.new");
    let permissions = std::fs::metadata(path)?.permissions();
    std::fs::write(&fresh, text).with_context(|| format!("cannot write {}", fresh.display()))?;
    std::fs::set_permissions(&fresh, permissions)?;
    std::fs::rename(&fresh, path).with_context(|| format!("cannot write {}", path.display()))?;
    for renamed in &loaded.renamed {
        output::line(&format!("line {}: {} -> {}", renamed.line, renamed.old, renamed.new));
    }
    Ok(Exit::Fine)
}

fn print(source: &Source, loaded: &Loaded, checked: &CheckedServers, all: bool) {
    let from = if source.is_default { "no weir.toml: defaults" } else { source.name.as_str() };
    output::line(&format!("# {from}"));
    // Without `--all`, only changed values are shown: there are hundreds of settings.
    let (told, others): (Vec<_>, Vec<_>) =
        loaded.values.iter().partition(|value| all || value.is_set || value.shown != value.default);
    for value in told {
        let mark = match &value.variable {
            Some(name) => format!("  # from {name}"),
            None if value.is_set => String::new(),
            None => "  # default".to_owned(),
        };
        output::line(&format!("{} = {}{mark}", value.path, value.shown));
    }
    if !others.is_empty() {
        let others = wording::number(
            others.len() as u64,
            "other setting has its default",
            "other settings have their defaults",
        );
        output::line(&format!("# {others}; `weir check --all` prints every one"));
    }
    let settings = &loaded.settings;
    output::line("");
    for (setting, address) in settings.addresses() {
        output::line(&format!("would listen on {address} ({})", part_name(&setting)));
    }
    output::line(&format!("would listen on {} (admin)", settings.admin_socket().display()));
    checked.job_store.iter().for_each(CheckedRedis::print);
    checked.broker.iter().for_each(CheckedBroker::print);
    for warning in &loaded.warnings {
        output::line(&format!("warning: {warning}"));
    }
}

/// Returns `jobs` of `jobs.listen`.
fn part_name(setting: &str) -> &str {
    setting.strip_suffix(".listen").unwrap_or(setting)
}

/// `errors` are not about a line of the file.
fn print_json(
    loaded: &Loaded,
    checked: &CheckedServers,
    machine: &[MachineCheck],
    errors: &[String],
) -> anyhow::Result<()> {
    let errors: Vec<_> = errors.iter().map(|message| json!({"message": message})).collect();
    let values = loaded.values.iter().map(|value| {
        json!({
            "setting": value.path,
            "value": value.shown,
            "default": value.default,
            "is_set": value.is_set,
            "variable": value.variable,
            "reload": value.change() == Change::Reload,
            "change": value.change().word(),
        })
    });
    let settings = &loaded.settings;
    let addresses = settings.addresses().into_iter();
    let mut listen: Map<String, Value> = addresses
        .map(|(setting, address)| (part_name(&setting).to_owned(), json!(address)))
        .collect();
    listen.insert("admin".to_owned(), json!(settings.admin_socket()));
    output::json(&json!({
        "errors": errors,
        "mistakes": errors,
        "warnings": loaded.warnings,
        "renamed": loaded.renamed.iter().map(|it| json!({"line": it.line, "old": it.old, "new": it.new})).collect::<Vec<_>>(),
        "listen": listen,
        "redis": checked.job_store.iter().map(CheckedRedis::to_json).collect::<Vec<_>>(),
        "realtime_broker": checked.broker.iter().map(CheckedBroker::to_json).collect::<Vec<_>>(),
        "machine": machine.iter().map(MachineCheck::to_json).collect::<Vec<_>>(),
        "settings": values.collect::<Vec<_>>(),
    }))
}

/// Prints the errors as JSON. `mistakes` is the name of `errors` before 0.2.
fn print_errors_json(errors: &SettingErrors) -> anyhow::Result<()> {
    let each = errors
        .errors
        .iter()
        .map(|error| json!({"line": error.line, "column": error.column, "message": error.message}));
    let each: Vec<_> = each.collect();
    output::json(&json!({"file": errors.file, "errors": each, "mistakes": each}))
}

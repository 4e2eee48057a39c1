//! The systemd units that run the application today.

use std::fs;
use std::path::{Path, PathBuf};

use super::findings::Findings;
use super::folder::AppFolder;
use super::quote::{is_name, is_plain};
use crate::commands::plan::check::foreign::unit::Unit;
use crate::commands::plan::check::foreign::words::split;
use crate::commands::plan::check::text::read_text;

/// Of the names of all units that `weir init` writes.
pub(super) const PREFIX: &str = "weir-";
/// More units than a machine has.
const UNITS_MAX: usize = 2_000;
/// Variables that are copied to weir.toml: they choose a memory allocator, a Ruby or a stage, and are no secrets.
const COPIED: [&str; 12] = [
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "RAILS_ENV",
    "RACK_ENV",
    "NODE_ENV",
    "PATH",
    "RUBY_YJIT_ENABLE",
    "RUBYOPT",
    "BUNDLE_GEMFILE",
    "LANG",
    "TZ",
];
/// Variables that the plan and the front replace.
const REPLACED: [&str; 8] = [
    "PORT",
    "BIND",
    "SOCKET",
    "DB_POOL",
    "MAX_THREADS",
    "RAILS_MAX_THREADS",
    "WEB_CONCURRENCY",
    "STREAMING_CLUSTER_NUM",
];

/// A unit of the application.
pub(super) struct AppUnit {
    /// "mastodon-web", or "mastodon-streaming@" of a template.
    pub(super) name: String,
    /// Instances of a template that are enabled: "4000".
    instances: Vec<String>,
    pub(super) file: PathBuf,
    /// The command, if it can be split into words.
    pub(super) words: Vec<String>,
    pub(super) user: Option<String>,
    /// Variables that may be copied.
    pub(super) environment: Vec<(String, String)>,
    /// Names of the other variables.
    pub(super) other_variables: Vec<String>,
    /// `EnvironmentFile=`.
    pub(super) environment_files: Vec<String>,
}

impl AppUnit {
    /// Returns the names for `systemctl`.
    pub(super) fn started(&self) -> Vec<String> {
        match self.name.strip_suffix('@') {
            None => vec![self.name.clone()],
            Some(_) if self.instances.is_empty() => vec![format!("'{}*'", self.name)],
            Some(_) => self.instances.iter().map(|it| format!("{}{it}", self.name)).collect(),
        }
    }

    /// Returns the name without `@`, as a layout has it.
    pub(super) fn plain_name(&self) -> &str {
        self.name.trim_end_matches('@')
    }
}

/// Returns the units in `units` that start in the application's folder.
pub(super) fn find(units: &Path, folder: &AppFolder, findings: &mut Findings) -> Vec<AppUnit> {
    let entries = fs::read_dir(units).into_iter().flatten().filter_map(Result::ok);
    let files = entries.map(|entry| entry.path()).filter(|it| {
        it.extension().is_some_and(|extension| extension == "service") && it.is_file()
    });
    let mut files: Vec<PathBuf> = files.take(UNITS_MAX).collect();
    files.sort();
    let texts = files.iter().filter_map(|file| Some((file, read_text(file).ok()?)));
    let units: Vec<AppUnit> =
        texts.filter_map(|(file, text)| read(units, folder, file, &text)).collect();
    for unit in &units {
        findings.read.push(unit.file.display().to_string());
        if !unit.other_variables.is_empty() {
            findings.not_read.push(format!(
                "{}: the values of {} are not copied, because they may be secrets; if the application needs \
                 them, put them into a file that only its user can read, and name it in the unit of Weir \
                 (EnvironmentFile=)",
                unit.name,
                unit.other_variables.join(", ")
            ));
        }
    }
    units
}

fn read(units: &Path, folder: &AppFolder, file: &Path, text: &str) -> Option<AppUnit> {
    let name = file.file_name()?.to_str()?.strip_suffix(".service")?;
    // One of an earlier run, which is Weir itself.
    if name.starts_with(PREFIX) {
        return None;
    }
    let unit = Unit::parse(text);
    let directory = unit.values_of("WorkingDirectory").next_back().map(Path::new);
    let is_here = directory.and_then(|it| it.canonicalize().ok()).is_some_and(|directory| {
        directory == folder.path || directory == folder.path.join("streaming")
    });
    // A unit that only wants instances of another one has no folder.
    let wanted = format!("{name}@");
    let mut wants = unit.values_of("Wants").chain(unit.values_of("Requires"));
    let is_of_instances = directory.is_none() && wants.any(|it| it.contains(&wanted));
    if !(is_here || is_of_instances && starts_here(units, folder, &wanted)) || !is_unit_name(name) {
        return None;
    }
    let command = unit.values_of("ExecStart").next_back().unwrap_or_default();
    let user = unit.values_of("User").next_back().filter(|user| is_name(user));
    let files = unit.values_of("EnvironmentFile").filter(|it| is_plain(it.trim_start_matches('-')));
    let (environment, other_variables) = variables(&unit);
    Some(AppUnit {
        name: name.to_owned(),
        instances: if name.ends_with('@') { instances(units, name) } else { Vec::new() },
        file: file.to_owned(),
        words: split(command.trim_start_matches(['-', '@', ':', '+', '!'])).unwrap_or_default(),
        user: user.map(str::to_owned),
        environment,
        other_variables,
        environment_files: files.map(str::to_owned).collect(),
    })
}

/// Returns whether the template of this name starts in the application's folder.
fn starts_here(units: &Path, folder: &AppFolder, template: &str) -> bool {
    let text = read_text(&units.join(format!("{template}.service"))).unwrap_or_default();
    let unit = Unit::parse(&text);
    let directory = unit.values_of("WorkingDirectory").next_back();
    directory.and_then(|it| Path::new(it).canonicalize().ok()).is_some_and(|it| it == folder.path)
}

fn is_unit_name(name: &str) -> bool {
    is_name(name.trim_end_matches('@'))
}

/// Returns the instances of a template that are enabled, or that another unit wants.
fn instances(units: &Path, template: &str) -> Vec<String> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let is_list =
        |path: &Path| path.extension().is_some_and(|it| it == "wants" || it == "requires");
    let lists = entries(units).take(UNITS_MAX).map(|it| it.path()).filter(|it| is_list(it));
    let enabled = lists.flat_map(|list| entries(&list).take(UNITS_MAX).collect::<Vec<_>>());
    let names = enabled.filter_map(|entry| entry.file_name().into_string().ok());
    let plain = read_text(&units.join(format!("{}.service", template.trim_end_matches('@'))));
    let plain = Unit::parse(&plain.unwrap_or_default());
    let wanted = plain.values_of("Wants").flat_map(str::split_whitespace).map(str::to_owned);
    let mut instances: Vec<String> = names
        .chain(wanted)
        .filter_map(|name| Some(name.strip_prefix(template)?.strip_suffix(".service")?.to_owned()))
        .filter(|instance| is_name(instance))
        .collect();
    instances.sort();
    instances.dedup();
    instances
}

/// Returns the variables that may be copied, and the names of the others.
fn variables(unit: &Unit) -> (Vec<(String, String)>, Vec<String>) {
    let (mut copied, mut others) = (Vec::new(), Vec::new());
    for line in unit.values_of("Environment") {
        for word in split(line).unwrap_or_default() {
            let Some((name, value)) = word.split_once('=') else { continue };
            if REPLACED.contains(&name) {
            } else if COPIED.contains(&name) && is_plain(value) {
                copied.retain(|(other, _)| other != name);
                copied.push((name.to_owned(), value.to_owned()));
            } else if is_name(name) {
                others.push(name.to_owned());
            }
        }
    }
    (copied, others)
}

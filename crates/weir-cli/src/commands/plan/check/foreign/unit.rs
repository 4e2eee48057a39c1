//! Units of systemd.

use std::collections::BTreeSet;

use super::super::text::read_text;
use super::environment::{Environment, FileSyntax};
use super::files::{Folder, instance, name};
use super::process::StartedProcess;
use super::words::split;

pub(super) fn started(folder: &Folder) -> anyhow::Result<Vec<StartedProcess>> {
    let mut units = Vec::new();
    for file in &folder.files {
        let unit = name(file);
        let mut lines = lines(&read_text(file)?);
        for drop_in in folder.drop_ins(&unit) {
            lines.extend(self::lines(&drop_in));
        }
        units.push((unit, Unit { lines }));
    }
    let of = |(name, unit): &(String, Unit)| {
        let processes = match name.strip_suffix("@.service") {
            Some(_) => instances(folder, name.trim_end_matches(".service"), &units),
            None => Some(1),
        };
        unit.started(folder, name, processes)
    };
    Ok(units.iter().filter_map(of).collect())
}

/// Returns how many instances of a template other units or links start; None: none is known.
fn instances(folder: &Folder, template: &str, units: &[(String, Unit)]) -> Option<u32> {
    let mut all: BTreeSet<String> = folder.wanted_instances(template).into_iter().collect();
    for (_, unit) in units {
        for key in ["Wants", "Requires", "BindsTo", "Upholds"] {
            let names = unit.values_of(key).flat_map(str::split_whitespace);
            all.extend(names.filter_map(|it| instance(it, template).map(str::to_owned)));
        }
    }
    // An instance with its own file is counted as a unit.
    all.retain(|one| !units.iter().any(|(name, _)| instance(name, template) == Some(one)));
    u32::try_from(all.len()).ok().filter(|count| *count > 0)
}

/// A unit with its drop-ins, as keys with values.
pub(in crate::commands) struct Unit {
    lines: Vec<(String, String)>,
}

impl Unit {
    /// Parses the text of a unit without drop-ins.
    pub(in crate::commands) fn parse(text: &str) -> Self {
        Self { lines: lines(text) }
    }

    pub(in crate::commands) fn values_of<'a>(
        &'a self,
        key: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a str> {
        self.lines.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the process. None: the unit starts nothing that keeps running.
    fn started(
        &self,
        folder: &Folder,
        unit: &str,
        processes: Option<u32>,
    ) -> Option<StartedProcess> {
        let last = |key| self.values_of(key).next_back();
        if last("Type") == Some("oneshot") && !last("RemainAfterExit").is_some_and(is_yes) {
            return None;
        }
        // An empty value resets the earlier ones.
        let commands: Vec<&str> = self.values_of("ExecStart").collect();
        let since = commands.iter().rposition(|it| it.is_empty()).map_or(0, |at| at + 1);
        let lines =
            commands[since..].iter().map(|it| it.trim_start_matches(['-', '@', ':', '+', '!']));
        let words = split(&lines.collect::<Vec<_>>().join(" ; "));
        if words.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let unread = words.is_none().then(|| "its command has an unclosed quote".to_owned());
        let name = unit.trim_end_matches(".service");
        Some(StartedProcess {
            name: name.trim_end_matches('@').to_owned(),
            processes,
            words: words.unwrap_or_default(),
            environment: self.environment(folder),
            directory: last("WorkingDirectory").map(|it| it.trim_start_matches('-').to_owned()),
            unread,
            is_unit: true,
            ..StartedProcess::default()
        })
    }

    fn environment(&self, folder: &Folder) -> Environment {
        let mut environment = Environment::default();
        for line in self.values_of("Environment") {
            split(line).unwrap_or_default().iter().for_each(|word| environment.set_word(word));
        }
        // Files take precedence over lines, in any order.
        for file in self.values_of("EnvironmentFile") {
            environment.read(folder, file.trim_start_matches('-'), FileSyntax::Systemd);
        }
        environment
    }
}

fn is_yes(value: &str) -> bool {
    matches!(value, "yes" | "true" | "on" | "1")
}

/// Returns keys with values; lines continued by a backslash are joined.
fn lines(text: &str) -> Vec<(String, String)> {
    let whole = text.replace("\\\n", " ");
    let plain = whole.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = plain.filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

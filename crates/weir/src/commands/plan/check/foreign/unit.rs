//! Units of systemd.

use super::super::read_text;
use super::command::split;
use super::environment::Environment;
use super::files::{Folder, name};
use super::process::Started;

pub(super) fn started(folder: &Folder) -> anyhow::Result<Vec<Started>> {
    let mut all = Vec::new();
    for file in &folder.files {
        let unit = name(file);
        let mut lines = lines(&read_text(file)?);
        for drop_in in folder.drop_ins(&unit) {
            lines.extend(self::lines(&drop_in));
        }
        all.extend(of_lines(folder, &unit, &lines));
    }
    Ok(all)
}

/// None: it starts nothing.
fn of_lines(folder: &Folder, unit: &str, lines: &[(String, String)]) -> Option<Started> {
    let of = |key: &'_ str| {
        let key = key.to_owned();
        lines.iter().filter(move |(name, _)| *name == key).map(|(_, value)| value.as_str())
    };
    let mut environment = Environment::default();
    for line in of("Environment") {
        split(line).unwrap_or_default().iter().for_each(|word| environment.set_word(word));
    }
    // Files win over lines, whatever stands first.
    for file in of("EnvironmentFile") {
        environment.read(folder, file.trim_start_matches('-'));
    }
    // An empty one takes back those before it.
    let commands: Vec<&str> = of("ExecStart").collect();
    let since = commands.iter().rposition(|it| it.is_empty()).map_or(0, |at| at + 1);
    let command = commands[since..].first()?;
    let words = split(command.trim_start_matches(['-', '@', ':', '+', '!']))?;
    let name = unit.trim_end_matches(".service");
    Some(Started {
        name: name.trim_end_matches('@').to_owned(),
        processes: 1,
        words,
        environment,
        image: String::new(),
        is_template: name.ends_with('@'),
        has_ports: false,
    })
}

/// Keys with their values; lines that a backslash goes on with are one.
fn lines(text: &str) -> Vec<(String, String)> {
    let whole = text.replace("\\\n", " ");
    let plain = whole.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = plain.filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

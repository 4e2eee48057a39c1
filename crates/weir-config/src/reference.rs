//! docs/reference/settings.md and the commented file of `weir init`, both from the definitions of
//! the keys.

use std::fmt::Write;

use weir_settings::SettingValue;

use super::{Source, read};

/// Returns every setting with its default, in the order of the file.
pub fn values() -> Vec<SettingValue> {
    let (_, report) = read(&Source::default(), &|_| None, None, true);
    report.values
}

/// Returns the reference page: first the main settings, then the advanced ones.
pub fn markdown() -> String {
    let (advanced, main): (Vec<_>, Vec<_>) =
        values().into_iter().partition(|value| value.setting.is_advanced);
    let mut page = String::from(INTRODUCTION);
    write_sections(&mut page, main);
    page.push_str(ADVANCED);
    write_sections(&mut page, advanced);
    page
}

fn write_sections(page: &mut String, values: Vec<SettingValue>) {
    for (sections, values) in group_shared_settings(values) {
        let title = |section: &String| match section.as_str() {
            "" => "Top level".to_owned(),
            section => format!("`{}`", heading(section)),
        };
        let title = sections.iter().map(title).collect::<Vec<_>>().join(", ");
        let _ = write!(
            page,
            "\n## {title}\n\n| setting | type | default | change | what it does |\n| --- | --- | --- | --- | --- |\n"
        );
        for value in values {
            let change = value.change().word();
            let SettingValue { kind, default, setting, .. } = &value;
            let name = last_segment(&value.path);
            let doc = setting.doc.replace('|', "\\|");
            let _ = writeln!(page, "| `{name}` | {kind} | `{default}` | {change} | {doc} |");
        }
    }
}

/// Returns a settings file with every setting and its default, commented out.
pub fn commented_file() -> String {
    let mut file = String::from(HEADER);
    let displayed = values().into_iter().filter(|value| !value.setting.is_advanced);
    for (section, values) in group_by_section(displayed.collect()) {
        if !section.is_empty() {
            // The presence of such a section would require more keys, or enable a part.
            let must_be_complete =
                section.contains("NAME") || section.contains("[]") || section.ends_with(".tls");
            let is_enabling = ["gems", "observe"].iter().any(|switch| {
                section.strip_prefix(switch).is_some_and(|it| it.is_empty() || it.starts_with('.'))
            });
            let commented = if must_be_complete || is_enabling { "# " } else { "" };
            let _ = write!(file, "\n{commented}{}\n", heading(&section));
        }
        for value in values {
            for line in wrap(value.setting.doc, 96) {
                let _ = writeln!(file, "# {line}");
            }
            let sample_value = sample_value(&value);
            let _ = writeln!(file, "# {} = {sample_value}", last_segment(&value.path));
        }
    }
    file
}

/// Returns an example value: the default, or a placeholder for a setting without one.
pub(super) fn sample_value(value: &SettingValue) -> &str {
    match (value.default.as_str(), value.kind) {
        ("none", "secret") => "{ file = \"PATH\" }",
        ("none", "duration") => "\"5s\"",
        ("none", "number") => "10",
        ("none", "address") => "\"127.0.0.1:8081\"",
        ("none", "text") => "\"TEXT\"",
        ("none", "size") => "\"4GiB\"",
        ("none", "list of texts") => "[\"TEXT\"]",
        ("none", _) => "\"PATH\"",
        (default, _) => default,
    }
}

const ADVANCED: &str = "
# Advanced settings

Hardly anybody needs these. `weir init` leaves them out. They are in tables named `advanced`.
";

const HEADER: &str = "\
# Weir's settings. Everything is commented out and shows its default: Weir runs without this file.
# `weir check` reports all errors with their lines. docs/reference/settings.md explains more.

";

const INTRODUCTION: &str = "\
# Settings

Weir reads `weir.toml` in the current folder, or the file given with `--config`. Without a file the
defaults below apply. `weir check` reports every error at once, each with its line, and prints
what the file sets (`--all`: every setting, as it is in effect); `weir init` writes a commented file.
An unknown key is an error, never ignored. Editors read [a JSON schema](weir.schema.json) of the file.

An environment variable overrides the file: `WEIR_` and the name of the setting in capitals, with `_`
for each dot and without `advanced`, such as `WEIR_JOBS_LISTEN=0.0.0.0:7419` for `jobs.listen` or `WEIR_JOBS_PASSWORD` for
`jobs.password`. Entries of a list are separated by commas. There are no variables for settings below a
name (`[jobs.queues.NAME]`) or in a list of tables (`[[front.apps]]`).

- A **duration** is a whole number with a unit: `\"10ms\"`, `\"2s\"`, `\"5m\"`, `\"3h\"`, `\"180d\"`.
- A **size** is a number of bytes or a number with a unit: `65536`, `\"64MiB\"`, `\"16MB\"`.
- A **secret** is never written in the file: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`.
- A relative **path** starts at the folder of the file.
- **change**: what a changed value takes. `reload`: `SIGHUP`; `restart`: `weir restart`; `upgrade`: `weir upgrade`;
  `stop`: a stop and a start ([more](../restarts.md)). A reload says what needs more. The content of secret and
  TLS files is read again by a reload.

This page is generated from the code (`make docs`); a test fails when it is out of date.
";

/// Groups settings into tables. Settings that several sections share, with equal rows, are listed once for all of
/// them, unless they are too few to be worth a table.
fn group_shared_settings(values: Vec<SettingValue>) -> Vec<(Vec<String>, Vec<SettingValue>)> {
    let displayed = |value: &SettingValue| {
        (
            last_segment(&value.path).to_owned(),
            value.default.clone(),
            value.setting.doc,
            value.change(),
        )
    };
    let sections = group_by_section(values);
    let sections_with = |value: &SettingValue| {
        let sections_with_value =
            sections.iter().filter(|(_, of)| of.iter().any(|it| displayed(it) == displayed(value)));
        sections_with_value.map(|(section, _)| section.clone()).collect::<Vec<_>>()
    };
    let mut tables: Vec<(Vec<String>, Vec<SettingValue>)> = Vec::new();
    for (section, values) in &sections {
        for value in values {
            let mut owners = sections_with(value);
            let equal = values.iter().filter(|it| sections_with(it) == owners).count();
            if owners.first() != Some(section) && equal >= SHARED_MIN {
                continue;
            }
            if equal < SHARED_MIN {
                owners = vec![section.clone()];
            }
            match tables.iter_mut().find(|(known, _)| *known == owners) {
                Some((_, values)) => values.push(value.clone()),
                None => tables.push((owners, vec![value.clone()])),
            }
        }
    }
    tables
}

/// The least number of shared settings for a table of their own.
const SHARED_MIN: usize = 3;

fn group_by_section(values: Vec<SettingValue>) -> Vec<(String, Vec<SettingValue>)> {
    let mut sections: Vec<(String, Vec<SettingValue>)> = Vec::new();
    for value in values {
        let section = value.path.rsplit_once('.').map_or("", |(section, _)| section).to_owned();
        match sections.iter_mut().find(|(known, _)| *known == section) {
            Some((_, values)) => values.push(value),
            None => sections.push((section, vec![value])),
        }
    }
    sections
}

/// Returns the header of a section in the file: `[jobs]`, `[[realtime.apps]]`.
pub(super) fn heading(section: &str) -> String {
    let name = section.replace("[]", "");
    if section.ends_with("[]") { format!("[[{name}]]") } else { format!("[{name}]") }
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

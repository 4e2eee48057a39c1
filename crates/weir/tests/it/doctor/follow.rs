//! Does what doctor printed, to the letter, and looks at what doctor says then.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::json;
use super::page::{NOT_FOLLOWED, Row};
use super::postgres_server::PostgresServer;
use crate::process::output_of;

/// Looks, of a third of a second or more where time must pass: an idle transaction takes a minute to be found.
const LOOKS_MAX: usize = 300;

/// A finding that doctor has printed.
pub(super) struct Found {
    row: Row,
    finding: Value,
    /// All warnings, and worse, of the same report.
    warnings: BTreeSet<(String, String)>,
}

/// Returns the finding of a rule that has `names`, the words for the cause, in its subject or evidence.
pub(super) fn try_find(
    advice: &Value,
    rule: &'static str,
    cause: &'static str,
    names: &str,
) -> Option<Found> {
    let is_it = |finding: &&Value| {
        let has = |name: &str| finding[name].as_str().is_some_and(|it| it.contains(names));
        finding["rule"] == rule && (has("subject") || has("evidence"))
    };
    let finding = advice["findings"].as_array()?.iter().find(is_it)?;
    let (row, finding) = (Row::new(rule, cause, finding), finding.clone());
    Some(Found { row, finding, warnings: warnings(advice) })
}

pub(super) fn find(advice: &Value, rule: &'static str, cause: &'static str, names: &str) -> Found {
    let found = try_find(advice, rule, cause, names);
    found.unwrap_or_else(|| panic!("no {rule} with {names:?} was found: {:#}", advice["findings"]))
}

/// Runs doctor until the rule has the finding.
pub(super) fn find_in_time(
    arguments: &[&str],
    rule: &'static str,
    cause: &'static str,
    names: &str,
) -> Found {
    let found = (0..LOOKS_MAX).find_map(|_| try_find(&json(arguments), rule, cause, names));
    found.unwrap_or_else(|| find(&json(arguments), rule, cause, names))
}

fn warnings(advice: &Value) -> BTreeSet<(String, String)> {
    let findings = advice["findings"].as_array().expect("findings");
    let is_one = |it: &&Value| it["severity"] == "warning" || it["severity"] == "critical";
    findings.iter().filter(is_one).map(name_of).collect()
}

/// Returns the first action of this kind; null if there is none.
fn action<'a>(finding: &'a Value, kind: &str) -> &'a Value {
    let mut actions = finding["actions"].as_array().into_iter().flatten();
    actions.find(|action| action["do"] == kind).unwrap_or(&Value::Null)
}

/// Returns the line to set; null if there is none.
pub(super) fn change_of(finding: &Value) -> &Value {
    action(finding, "set_line")
}

/// Returns the command to run.
pub(super) fn command_of(finding: &Value) -> &str {
    let command = action(finding, "run")["command"].as_str();
    command.unwrap_or_else(|| panic!("no command: {finding:#}"))
}

/// Returns what tells a finding from others.
fn name_of(finding: &Value) -> (String, String) {
    let word = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    (word("rule"), word("subject"))
}

impl Found {
    /// Returns what happens if nothing is changed, and where to look.
    pub(super) fn consequence(&self) -> &str {
        self.finding["consequence"].as_str().unwrap_or_default()
    }

    fn change(&self, word: &str) -> &str {
        let text = change_of(&self.finding)[word].as_str();
        text.unwrap_or_else(|| panic!("no line to change: {:#}", self.finding))
    }

    /// Reports whether there is a line to change.
    pub(super) fn has_line(&self) -> bool {
        change_of(&self.finding).is_object()
    }

    /// Returns where the line is to be changed.
    pub(super) fn place(&self) -> &str {
        self.change("place")
    }

    /// Returns the line as it should read.
    pub(super) fn line(&self) -> &str {
        self.change("line")
    }

    /// Runs the suggested command; returns its output.
    pub(super) fn run(&self) -> String {
        self.run_in(Path::new("/"), &[])
    }

    /// Runs it in a folder and with environment variables.
    pub(super) fn run_in(&self, folder: &Path, environment: &[(&str, &str)]) -> String {
        shell(command_of(&self.finding), folder, environment)
    }

    /// Makes the suggested change of a Postgres, in the place that doctor has named.
    pub(super) fn change_in(&self, server: &mut PostgresServer) {
        let restart = change_of(&self.finding)["restart"] == true;
        let (place, line) = (self.place(), self.line());
        if place.starts_with("psql, as a superuser") || place == "the source, as its administrator"
        {
            server.paste(line);
        } else if place.starts_with("the command line of Postgres") {
            let option = line.strip_prefix("-c ").expect("an option");
            return server.restart_with(&[option]);
        } else {
            server.append(if place.starts_with('/') { place } else { "postgresql.conf" }, line);
        }
        match restart {
            true => server.restart_with(&[]),
            false => server.run("SELECT pg_reload_conf()"),
        }
    }

    /// The finding is gone, and following it has caused no other.
    pub(super) fn healed(self, advice: &Value) -> Row {
        let problem = self.problem(advice);
        assert_eq!(problem, None, "{:#}\nwas followed: {:#}", self.finding, advice["findings"]);
        Row { followed: "healthy".to_owned(), ..self.row }
    }

    /// Runs doctor until it is, at most as long as a change takes to be seen.
    pub(super) fn healed_in_time(self, arguments: &[&str]) -> Row {
        let healthy = (0..LOOKS_MAX).map(|_| json(arguments)).find(|it| self.is_healed(it));
        self.healed(&healthy.unwrap_or_else(|| json(arguments)))
    }

    /// Reports whether the finding is gone, and following it has caused no other.
    pub(super) fn is_healed(&self, advice: &Value) -> bool {
        self.problem(advice).is_none()
    }

    fn problem(&self, advice: &Value) -> Option<String> {
        let own = name_of(&self.finding);
        let all = advice["findings"].as_array().expect("findings");
        if all.iter().any(|it| name_of(it) == own) {
            return Some("it is still there".to_owned());
        }
        let new: Vec<_> = warnings(advice).difference(&self.warnings).cloned().collect();
        (!new.is_empty()).then(|| format!("new: {new:?}"))
    }

    /// The command has shown the cause.
    pub(super) fn shown(self, output: &str, words: &str) -> Row {
        assert!(output.contains(words), "{words:?} is not in: {output}\n{:#}", self.finding);
        Row { followed: format!("shows `{words}`"), ..self.row }
    }

    /// There is nothing to follow, or not here.
    pub(super) fn not_followed(self, why: &str) -> Row {
        Row { followed: format!("{NOT_FOLLOWED}{why}"), ..self.row }
    }
}

/// Runs a command as somebody would who has copied it; returns its output.
pub(super) fn shell(command: &str, folder: &Path, environment: &[(&str, &str)]) -> String {
    let programs = tempfile::tempdir().expect("a folder");
    let mut shell = Command::new("timeout");
    shell.args(["60", "sh", "-c", command]).current_dir(folder).env_remove("WEIR_CONFIG");
    shell.env("PATH", path(programs.path())).envs(environment.iter().copied());
    let output = output_of(&mut shell);
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Returns the search path, with Weir and, where the system has no `sudo`, one that becomes that user of Postgres.
fn path(programs: &Path) -> OsString {
    let has_sudo = output_of(Command::new("sh").args(["-c", "command -v sudo"])).status.success();
    if !has_sudo {
        let sudo = programs.join("sudo");
        let script = "#!/bin/sh\nexport PGUSER=\"$2\"\nshift 2\nexec \"$@\"\n";
        std::fs::write(&sudo, script).expect("written");
        std::fs::set_permissions(&sudo, PermissionsExt::from_mode(0o755)).expect("changed");
    }
    let weir = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let own = [programs.as_os_str(), weir.as_os_str()].join(OsStr::new(":"));
    let usual = std::env::var_os("PATH").unwrap_or_default();
    [own, usual].join(OsStr::new(":"))
}

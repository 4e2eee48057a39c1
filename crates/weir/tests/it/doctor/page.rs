//! Each finding provoked for real, and docs/doctor-findings.md, which shows what doctor then said.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_advisor::rules::RULES;

use super::{json, postgres, redis};

const HEAD: &str = "\
# Findings of weir doctor

Each of them was provoked for real: by a Redis, processes of Sidekiq and a Postgres that a test starts,
breaks and looks at. The table is what doctor said then; the test fails when it is out of date
(`WEIR_WRITE_DOCS=1 cargo test -p weir --test it doctor::page` writes it). How to use it is on
[another page](doctor.md).

| rule | provoked by | what it says | what it says to do |
| --- | --- | --- | --- |
";

const TAIL: &str = "
Rules that these sources alone do not provoke: `redis-fork` (a Redis of some ten GB that takes half a second
to fork), `stuck-threads` (jobs that run for an hour), `threads-hurt`, `inside-outside` and `own-queue` (figures that only a running Weir measures: `--weir`,
or `[observe]`). `idle-cores` takes a
machine with three cores, of which one is idle. Each is tested with given facts, like all others.
";

/// Rules that the page does not show, with the reason in [`TAIL`].
const NOT_HERE: [&str; 5] =
    ["redis-fork", "stuck-threads", "threads-hurt", "inside-outside", "own-queue"];
/// Needs three cores, of which one is idle for as long as doctor looks.
const BY_CHANCE: &str = "idle-cores";

/// How a finding was provoked, and what doctor said.
pub(super) struct Row {
    rule: &'static str,
    how: &'static str,
    line: String,
    change: String,
}

/// The rows for `provoked`: rule by rule, how. All must be found.
pub(super) fn rows(advice: &Value, provoked: &[(&'static str, &'static str)]) -> Vec<Row> {
    let row = |(rule, how): &(&'static str, &'static str)| {
        row(advice, rule, how).unwrap_or_else(|| panic!("{rule} was not found: {advice:#}"))
    };
    provoked.iter().map(row).collect()
}

/// The first finding of a rule.
pub(super) fn row(advice: &Value, rule: &'static str, how: &'static str) -> Option<Row> {
    let findings = advice["findings"].as_array()?;
    let finding = findings.iter().find(|finding| finding["rule"] == rule)?;
    let word = |name: &str| finding[name].as_str().unwrap_or_default();
    let severity = word("severity").to_uppercase();
    let line = format!("{severity} {}: {}", word("subject"), word("evidence"));
    let change = match finding["change"].as_object() {
        Some(change) => format!("{}: {}", text(&change["place"]), text(&change["line"])),
        None => word("next").to_owned(),
    };
    Some(Row { rule, how, line: anonymous(&line), change: anonymous(&change) })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Looks until a rule speaks, as long as a finding may need to come of age.
pub(super) fn row_in_time(
    arguments: &[&str],
    rule: &'static str,
    how: &'static str,
    looks: usize,
) -> Option<Row> {
    (0..looks).find_map(|_| row(&json(arguments), rule, how))
}

/// Names of the machine and numbers of processes are another's each time.
pub(super) fn anonymous(text: &str) -> String {
    let mut before = "";
    let port = if text.contains("psql -h ") { "5432" } else { "6379" };
    let word = |word| {
        let word: &str = word;
        let ends = word.trim_end_matches([',', ';', ':']);
        let parts: Vec<&str> = ends.split(':').collect();
        let is_identity = parts.len() == 3 && parts[2].len() == 12;
        let is_address = ends.starts_with("127.0.0.1:");
        let rest = &word[ends.len()..];
        let is_port = std::mem::replace(&mut before, word) == "-p";
        match (is_identity, is_address) {
            _ if is_port => port.to_owned(),
            _ if ends.starts_with("redis://127") => "redis://127.0.0.1:6379/0".to_owned(),
            _ if ends.starts_with("postgres://") => {
                "postgres://weir@127.0.0.1/mastodon_production".to_owned()
            }
            (true, _) => format!("web:4711:b4a577edbccf{rest}"),
            (_, true) => format!("127.0.0.1:6379{rest}"),
            _ => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The page without what differs from run to run: figures, their units and the columns' widths.
pub(super) fn essence(page: &str) -> Vec<String> {
    let word = |word: &str| -> Option<String> {
        let letters = word.trim_matches(|letter: char| !letter.is_ascii_alphabetic());
        let is_unit = ["us", "ms", "s", "min", "h", "days", "kB", "MB", "GB"].contains(&letters);
        let text: String = word.chars().filter(|it| !it.is_ascii_digit() && *it != '.').collect();
        (!is_unit && !text.is_empty()).then_some(text)
    };
    let line = |line: &str| {
        let line = without_range(line);
        line.split(' ').filter_map(word).collect::<Vec<_>>().join(" ")
    };
    page.lines().filter(|line| !is_by_chance(line)).map(line).collect()
}

/// Where the pace was unsteady a time to drain has a range: "9 s (8 s to 11 s)", "9 s (at least 8 s)".
fn without_range(line: &str) -> String {
    let Some((before, rest)) = line.split_once(" (") else { return line.to_owned() };
    match rest.split_once(')') {
        Some((inner, after)) if inner.contains(" s to ") || inner.starts_with("at least ") => {
            format!("{before}{after}")
        }
        _ => line.to_owned(),
    }
}

fn is_by_chance(line: &str) -> bool {
    line.starts_with(&format!("| `{BY_CHANCE}`"))
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor-findings.md")
}

fn page(rows: &BTreeMap<&str, Row>, before: &str) -> String {
    let mut page = HEAD.to_owned();
    for rule in RULES.iter().filter(|rule| !NOT_HERE.contains(&rule.name)) {
        match rows.get(rule.name) {
            Some(Row { rule, how, line, change }) => {
                let cell = |text: &str| text.replace('|', "\\|");
                page.push_str(&format!("| `{rule}` | {how} | {} | ", cell(line)));
                page.push_str(&if change.is_empty() {
                    "|\n".to_owned()
                } else {
                    format!("`{}` |\n", cell(change))
                });
            }
            None if rule.name == BY_CHANCE => {
                eprintln!(
                    "skipped: there was no idle core of three, so {BY_CHANCE} has the row that it had"
                );
                let row = before.lines().find(|line| is_by_chance(line));
                page.extend(row.map(|row| format!("{row}\n")));
            }
            None => panic!("nobody has provoked {}", rule.name),
        }
    }
    page + TAIL
}

#[test]
fn each_finding_is_provoked_and_its_page_is_up_to_date() {
    let (Some(of_redis), Some(of_postgres)) = (redis::provoked(), postgres::provoked()) else {
        return;
    };
    let rows = of_redis.into_iter().chain(of_postgres).map(|row| (row.rule, row)).collect();
    let before = std::fs::read_to_string(path()).unwrap_or_default();
    let page = page(&rows, &before);
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so by it")]
    if std::env::var("WEIR_WRITE_DOCS").is_ok() {
        std::fs::write(path(), page).expect("written");
        return;
    }
    let (old, new) = (essence(&before), essence(&page));
    for (old, new) in old.iter().zip(&new) {
        assert_eq!(
            old, new,
            "docs/doctor-findings.md is out of date (WEIR_WRITE_DOCS=1 writes it)"
        );
    }
    assert_eq!(old.len(), new.len());
}

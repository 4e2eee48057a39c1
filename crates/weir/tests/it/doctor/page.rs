//! Each finding provoked for real, and docs/doctor-findings.md, which shows what doctor then said.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use weir_advisor::rules::RULES;

use super::weir_parts::ForgottenQueue;
use super::{json, postgres, redis};

const HEAD: &str = "\
# Findings of weir doctor

Each of them was provoked for real: by a Redis, processes of Sidekiq, a Postgres and a Weir that tests start,
break and look at. The table is what doctor said then; a test fails when it is out of date
(`WEIR_WRITE_DOCS=1 cargo test -p weir --test it doctor::` writes it). How to use it is on
[another page](doctor.md).

| rule | provoked by | what it says | what it says to do |
| --- | --- | --- | --- |
";

const TAIL: &str = "
`idle-cores` takes a core that nothing else uses for a while, `redis-fork` the right to trace a process. Where the tests have
neither they say so, and the row is the one that was made where they had it.
";

/// How a finding was provoked, and what doctor said.
pub(super) struct Row {
    rule: &'static str,
    cause: &'static str,
    said: String,
    to_do: String,
}

/// The rows for `provoke_all`: rule by rule, how. All must be found.
pub(super) fn rows(advice: &Value, provoked: &[(&'static str, &'static str)]) -> Vec<Row> {
    let row = |(rule, cause): &(&'static str, &'static str)| {
        row(advice, rule, cause).unwrap_or_else(|| panic!("{rule} was not found: {advice:#}"))
    };
    provoked.iter().map(row).collect()
}

/// Returns the first finding of a rule.
pub(super) fn row(advice: &Value, rule: &'static str, cause: &'static str) -> Option<Row> {
    let findings = advice["findings"].as_array()?;
    let finding = findings.iter().find(|finding| finding["rule"] == rule)?;
    let word = |name: &str| finding[name].as_str().unwrap_or_default();
    let severity = word("severity").to_uppercase();
    let said = format!("{severity} {}: {}", word("subject"), word("evidence"));
    let change = finding["change"].as_object();
    let change =
        change.map(|change| format!("{}: {}", text(&change["place"]), text(&change["line"])));
    let all: Vec<_> =
        change.into_iter().chain(finding["next"].as_str().map(str::to_owned)).collect();
    let to_do = all.join("; then ");
    Some(Row {
        rule,
        cause,
        said: without_machine_names(&said),
        to_do: without_machine_names(&to_do),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Runs doctor until the rule has a finding, at most as long as one may need to appear.
pub(super) fn row_in_time(
    arguments: &[&str],
    rule: &'static str,
    cause: &'static str,
    looks: usize,
) -> Option<Row> {
    (0..looks).find_map(|_| row(&json(arguments), rule, cause))
}

/// Replaces names of the machine and process ids, which differ between runs.
pub(super) fn without_machine_names(text: &str) -> String {
    let mut before = "";
    let port = if text.contains("psql -h ") { "5432" } else { "6379" };
    let word = |word| {
        let word: &str = word;
        let ends = word.trim_end_matches([',', ';', ':']);
        let parts: Vec<&str> = ends.split(':').collect();
        let is_identity = parts.len() == 3 && parts[2].len() == 12;
        let is_address = ends.starts_with("127.0.0.1:");
        let rest = &word[ends.len()..];
        let option = std::mem::replace(&mut before, word);
        match (is_identity, is_address) {
            _ if option == "-p" => port.to_owned(),
            _ if option == "-TTIN" => "4711".to_owned(),
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

/// Returns the page without what differs between runs: figures, their units and the widths of columns.
pub(super) fn without_figures(page: &str) -> Vec<String> {
    let word = |word: &str| -> Option<String> {
        let letters = word.trim_matches(|letter: char| !letter.is_ascii_alphabetic());
        let is_unit = ["us", "ms", "s", "min", "h", "days", "kB", "MB", "GB"].contains(&letters);
        let text: String = word.chars().filter(|it| !it.is_ascii_digit() && *it != '.').collect();
        (!is_unit && !text.is_empty()).then_some(text)
    };
    let line = |line: &str| {
        let line = without_range(without_cpu(line));
        line.split(' ').filter_map(word).collect::<Vec<_>>().join(" ")
    };
    page.lines().map(line).collect()
}

/// Removes what a backlog says of the cores. It depends on what else runs on the machine.
fn without_cpu(line: &str) -> &str {
    line.split_once(" No core of this machine is idle").map_or(line, |(before, _)| before)
}

/// Removes the range of a time to drain: "9 s (8 s to 11 s)", "9 s (at least 8 s)". It depends on how steady the rate
/// was.
fn without_range(line: &str) -> String {
    let Some((before, rest)) = line.split_once(" (") else { return line.to_owned() };
    match rest.split_once(')') {
        Some((inner, after)) if inner.contains(" s to ") || inner.starts_with("at least ") => {
            format!("{before}{after}")
        }
        _ => line.to_owned(),
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor-findings.md")
}

fn read() -> String {
    std::fs::read_to_string(path()).unwrap_or_default()
}

fn is_written() -> bool {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so by it")]
    std::env::var("WEIR_WRITE_DOCS").is_ok()
}

/// Returns the line of a rule.
fn line_of<'a>(page: &'a str, rule: &str) -> Option<&'a str> {
    page.lines().find(|line| line.starts_with(&format!("| `{rule}` |")))
}

impl Row {
    fn line(&self) -> String {
        let Self { rule, cause, said, to_do } = self;
        let cell = |text: &str| text.replace('|', "\\|");
        let to_do = if to_do.is_empty() { String::new() } else { format!(" `{}`", cell(to_do)) };
        format!("| `{rule}` | {cause} | {} |{to_do} |", cell(said))
    }
}

/// Returns the page with these rows replaced.
fn page_with_rows(rows: &[Row], before: &str) -> String {
    let line = |rule: &str| {
        let new = rows.iter().find(|row| row.rule == rule).map(Row::line);
        new.or_else(|| line_of(before, rule).map(str::to_owned))
    };
    let lines = RULES.iter().filter_map(|rule| line(rule.name));
    HEAD.to_owned() + &lines.map(|line| line + "\n").collect::<String>() + TAIL
}

/// Several tests have rows, each its own.
static TURN: Mutex<()> = Mutex::new(());

/// Checks that the page has these rows, or writes them if the page is to be updated.
pub(super) fn show(rows: &[Row]) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = read();
    if is_written() {
        std::fs::write(path(), page_with_rows(rows, &before)).expect("written");
        return;
    }
    let differs = |row: &&Row| {
        line_of(&before, row.rule)
            .is_none_or(|old| without_figures(old) != without_figures(&row.line()))
    };
    let out_of_date: String = rows.iter().filter(differs).map(|row| row.line() + "\n").collect();
    assert!(
        out_of_date.is_empty(),
        "docs/doctor-findings.md is out of date (WEIR_WRITE_DOCS=1 writes it):\n{out_of_date}"
    );
}

#[test]
fn findings_page_has_a_row_for_each_rule() {
    let page = read();
    let names = RULES.iter().map(|rule| rule.name);
    let missing: Vec<_> = names.filter(|rule| line_of(&page, rule).is_none()).collect();
    if !is_written() {
        assert_eq!(missing, Vec::<&str>::new(), "nobody has provoked these");
        assert!(page == page_with_rows(&[], &page), "it has other lines, or another order");
    }
}

#[test]
fn each_finding_can_be_provoked_and_is_documented() {
    // Its job comes of age while all others are provoked.
    let forgotten = ForgottenQueue::push_jobs();
    for rows in [redis::provoke_all(), postgres::provoke_all()].into_iter().flatten() {
        show(&rows);
    }
    show(&[forgotten.row()]);
}

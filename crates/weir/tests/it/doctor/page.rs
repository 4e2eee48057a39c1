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
    how: &'static str,
    said: String,
    to_do: String,
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
    let said = format!("{severity} {}: {}", word("subject"), word("evidence"));
    let change = finding["change"].as_object();
    let change =
        change.map(|change| format!("{}: {}", text(&change["place"]), text(&change["line"])));
    let all: Vec<_> =
        change.into_iter().chain(finding["next"].as_str().map(str::to_owned)).collect();
    let to_do = all.join("; then ");
    Some(Row { rule, how, said: anonymous(&said), to_do: anonymous(&to_do) })
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
    page.lines().map(line).collect()
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

/// Of one rule.
fn line_of<'a>(page: &'a str, rule: &str) -> Option<&'a str> {
    page.lines().find(|line| line.starts_with(&format!("| `{rule}` |")))
}

impl Row {
    fn line(&self) -> String {
        let Self { rule, how, said, to_do } = self;
        let cell = |text: &str| text.replace('|', "\\|");
        let to_do = if to_do.is_empty() { String::new() } else { format!(" `{}`", cell(to_do)) };
        format!("| `{rule}` | {how} | {} |{to_do} |", cell(said))
    }
}

/// With these rows in the place of theirs.
fn with(rows: &[Row], before: &str) -> String {
    let line = |rule: &str| {
        let new = rows.iter().find(|row| row.rule == rule).map(Row::line);
        new.or_else(|| line_of(before, rule).map(str::to_owned))
    };
    let lines = RULES.iter().filter_map(|rule| line(rule.name));
    HEAD.to_owned() + &lines.map(|line| line + "\n").collect::<String>() + TAIL
}

/// Several tests have rows, each its own.
static TURN: Mutex<()> = Mutex::new(());

/// Whether the page says of these rules what was seen. Or writes that it does.
pub(super) fn show(rows: &[Row]) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = read();
    if is_written() {
        std::fs::write(path(), with(rows, &before)).expect("written");
        return;
    }
    let differs = |row: &&Row| {
        line_of(&before, row.rule).is_none_or(|old| essence(old) != essence(&row.line()))
    };
    let out_of_date: String = rows.iter().filter(differs).map(|row| row.line() + "\n").collect();
    assert!(
        out_of_date.is_empty(),
        "docs/doctor-findings.md is out of date (WEIR_WRITE_DOCS=1 writes it):\n{out_of_date}"
    );
}

#[test]
fn the_page_has_a_row_for_each_rule_in_their_order() {
    let page = read();
    let names = RULES.iter().map(|rule| rule.name);
    let missing: Vec<_> = names.filter(|rule| line_of(&page, rule).is_none()).collect();
    if !is_written() {
        assert_eq!(missing, Vec::<&str>::new(), "nobody has provoked these");
        assert!(page == with(&[], &page), "it has other lines, or another order");
    }
}

#[test]
fn each_finding_is_provoked_and_its_page_is_up_to_date() {
    // Its job comes of age while all others are provoked.
    let forgotten = ForgottenQueue::pushed();
    for rows in [redis::provoked(), postgres::provoked()].into_iter().flatten() {
        show(&rows);
    }
    show(&[forgotten.row()]);
}

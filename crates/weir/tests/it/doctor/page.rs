//! docs/doctor-gallery.md: what doctor said of each problem that a test has provoked, and what came of doing it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use weir_advisor::rules::RULES;

const HEAD: &str = "\
# Gallery of provoked problems

Tests cause each of these problems for real, in a Redis, processes of Sidekiq, a Postgres or a Weir that they start. They run
`weir doctor`, do what it says to the letter (a command in a shell, a line in the file or on the command line that it names),
and run it again. The last column is the result:

- healthy: the finding is gone, and no new warning has come;
- shows: the command succeeded, and printed the words that tell the cause;
- otherwise there was nothing to follow, and the column says why.

A test fails when this page is out of date (`WEIR_WRITE_DOCS=1 cargo test -p weir --test it doctor::` writes it). How to use
doctor is on [another page](doctor.md).

| rule | provoked by | what it says | what it says to do | followed |
| --- | --- | --- | --- | --- |
";

const TAIL: &str = "
`idle-cores` takes a core that nothing else uses for a while, `redis-fork` the right to trace a process, `cpu-limit` the right to
create a control group. Where the tests have none of them they say so, and the row is the one that was made where they had it.
";

/// Problems whose action was followed, at least.
const FOLLOWED_MIN: usize = 40;
/// How the last column begins if there was nothing to follow.
pub(super) const NOT_FOLLOWED: &str = "not followed: ";

/// How a finding was provoked, what doctor said, and what came of it.
pub(super) struct Row {
    pub(super) rule: &'static str,
    pub(super) cause: &'static str,
    pub(super) said: String,
    pub(super) to_do: String,
    pub(super) followed: String,
}

impl Row {
    /// Leaves out what to do, where that depends on the moment.
    pub(super) fn without_action(self) -> Self {
        Self { to_do: String::new(), ..self }
    }

    /// Describes a finding that nobody has followed yet.
    pub(super) fn new(rule: &'static str, cause: &'static str, finding: &Value) -> Self {
        let word = |name: &str| finding[name].as_str().unwrap_or_default();
        let severity = word("severity").to_uppercase();
        let said = format!("{severity} {}: {}", word("subject"), word("evidence"));
        let text = |action: &Value| {
            let word = |name: &str| action[name].as_str().unwrap_or_default().to_owned();
            match action["do"].as_str() {
                Some("set_line") => format!("{}: {}", word("place"), word("line")),
                Some("run") => word("command"),
                _ => word("text"),
            }
        };
        let all: Vec<_> = finding["actions"].as_array().into_iter().flatten().map(text).collect();
        let (said, to_do) =
            (without_machine_names(&said), without_machine_names(&all.join("; then ")));
        Self { rule, cause, said, to_do, followed: String::new() }
    }

    fn line(&self) -> String {
        let Self { rule, cause, said, to_do, followed } = self;
        let cell = |text: &str| text.replace('|', "\\|");
        let to_do = if to_do.is_empty() { String::new() } else { format!(" `{}`", cell(to_do)) };
        format!("{}{} |{to_do} | {followed} |", start(rule, cause), cell(said))
    }
}

/// Returns the cells that name a problem.
fn start(rule: &str, cause: &str) -> String {
    format!("| `{rule}` | {cause} | ")
}

/// Replaces names of the machine and process ids, which differ between runs.
pub(super) fn without_machine_names(text: &str) -> String {
    let mut before = "";
    let temporary = std::env::temp_dir().display().to_string();
    let port = if text.contains("psql ") { "5432" } else { "6379" };
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
            _ if option == "-h" && word.starts_with(&temporary) => "/run/postgresql".to_owned(),
            _ if word.starts_with(&temporary) => {
                let name = ends.rsplit('/').next().unwrap_or_default();
                format!("/etc/postgresql/conf.d/{name}{rest}")
            }
            _ if ends.starts_with("redis://127") => "redis://127.0.0.1:6379/0".to_owned(),
            _ if ends.starts_with("postgres://") => {
                "postgres://weir@127.0.0.1/mastodon_production".to_owned()
            }
            (true, _) => format!("web:4711:b4a577edbccf{rest}"),
            (_, true) if ends.ends_with("/postgres") => format!("127.0.0.1:5432/postgres{rest}"),
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor-gallery.md")
}

fn read() -> String {
    std::fs::read_to_string(path()).unwrap_or_default()
}

fn is_written() -> bool {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so by it")]
    std::env::var("WEIR_WRITE_DOCS").is_ok()
}

/// Returns the lines of a rule.
fn lines_of<'a>(page: &'a str, rule: &str) -> Vec<&'a str> {
    let start = format!("| `{rule}` |");
    page.lines().filter(|line| line.starts_with(&start)).collect()
}

/// Returns the line of a problem.
fn line_of<'a>(page: &'a str, row: &Row) -> Option<&'a str> {
    let start = start(row.rule, row.cause);
    page.lines().find(|line| line.starts_with(&start))
}

/// Returns the page with these rows replaced, or added after the others of their rule.
fn page_with_rows(rows: &[Row], before: &str) -> String {
    let lines = |rule: &str| {
        let own: Vec<&Row> = rows.iter().filter(|row| row.rule == rule).collect();
        let new = |old: &str| {
            let row = own.iter().find(|row| line_of(old, row).is_some());
            row.map_or_else(|| old.to_owned(), |row| row.line())
        };
        let added = own.iter().filter(|row| line_of(before, row).is_none()).map(|row| row.line());
        let old = lines_of(before, rule).into_iter().map(new);
        old.chain(added).collect::<Vec<_>>()
    };
    let all = RULES.iter().flat_map(|rule| lines(rule.name));
    HEAD.to_owned() + &all.map(|line| line + "\n").collect::<String>() + TAIL
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
        line_of(&before, row).is_none_or(|old| without_figures(old) != without_figures(&row.line()))
    };
    let out_of_date: String = rows.iter().filter(differs).map(|row| row.line() + "\n").collect();
    assert!(
        out_of_date.is_empty(),
        "docs/doctor-gallery.md is out of date (WEIR_WRITE_DOCS=1 writes it):\n{out_of_date}"
    );
}

#[test]
fn gallery_has_each_rule_and_follows_enough_problems() {
    let page = read();
    let names = RULES.iter().map(|rule| rule.name);
    let missing: Vec<_> = names.filter(|rule| lines_of(&page, rule).is_empty()).collect();
    if !is_written() {
        assert_eq!(missing, Vec::<&str>::new(), "nobody has provoked these");
        assert!(page == page_with_rows(&[], &page), "it has other lines, or another order");
        let is_followed = |line: &&str| !line.contains(&format!("| {NOT_FOLLOWED}"));
        let followed = page.lines().filter(|line| line.starts_with("| `")).filter(is_followed);
        assert!(followed.count() >= FOLLOWED_MIN);
    }
}

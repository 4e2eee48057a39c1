//! Runs all tests: Rust, documentation, real clients, a browser. The output goes to files under
//! `target/test-logs`; failures are printed; the last line has the total counts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::server::Server;

/// Number of lines printed of a suite that failed.
const SHOWN_LINES: usize = 80;

/// A command whose output contains counts.
#[derive(Debug)]
struct Suite {
    name: &'static str,
    command: Vec<&'static str>,
    folder: &'static str,
    /// Finds a running Weir by [`Server::environment`].
    needs_server: bool,
}

/// The results in the output of a suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Runs the named suites, or all of them, even if some fail. Returns whether all passed.
pub(crate) fn run(root: &Path, names: &[&str]) -> anyhow::Result<bool> {
    let logs = root.join("target/test-logs");
    fs::create_dir_all(&logs)?;
    let mut total = Counts::default();
    let mut failed = Vec::new();
    let suites = suites(root);
    if let Some(unknown) = names.iter().find(|name| !suites.iter().any(|it| it.name == **name)) {
        let known: Vec<&str> = suites.iter().map(|suite| suite.name).collect();
        bail!("{unknown:?} is not a suite; there are {}", known.join(", "));
    }
    let suites = suites.into_iter().filter(|it| names.is_empty() || names.contains(&it.name));
    // The Rust tests use all cores; the others mostly wait for servers and a browser.
    let (rust, others): (Vec<Suite>, Vec<Suite>) = suites.partition(|suite| suite.name == "rust");
    for together in [rust, others] {
        for outcome in run_together(root, &together, &logs)? {
            outcome.print(root);
            failed.extend(outcome.failed_tests());
            total.add(outcome.counts);
        }
    }
    // At the end, where they are seen in a log that was cut.
    for line in failed.iter().take(SHOWN_LINES) {
        println!("{line}");
    }
    println!("{}", total.line());
    Ok(total.failed == 0)
}

/// A suite that has run.
#[derive(Debug)]
struct SuiteOutcome {
    name: &'static str,
    counts: Counts,
    took: Duration,
    output: String,
    log: PathBuf,
}

impl SuiteOutcome {
    fn print(&self, root: &Path) {
        if self.counts.failed > 0 {
            print_last_lines(&self.output);
            println!("  all of its output: {}", relative(&self.log, root));
        }
        println!("{:<10} {} in {} s", self.name, self.counts.line(), self.took.as_secs());
    }

    fn failed_tests(&self) -> Vec<String> {
        if self.counts.failed == 0 {
            return Vec::new();
        }
        let tests = failed_tests(&self.output).into_iter();
        tests.map(|test| format!("failed: {} {test}", self.name)).collect()
    }
}

/// Runs suites at the same time. Returns their outcomes in the same order.
fn run_together(root: &Path, suites: &[Suite], logs: &Path) -> anyhow::Result<Vec<SuiteOutcome>> {
    thread::scope(|scope| {
        let start = |suite| scope.spawn(move || run_suite(root, suite, logs));
        let threads: Vec<_> = suites.iter().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
        };
        threads.into_iter().map(join).collect()
    })
}

#[expect(clippy::disallowed_methods, reason = "the time of a suite is printed, not tested")]
fn run_suite(root: &Path, suite: &Suite, logs: &Path) -> anyhow::Result<SuiteOutcome> {
    let log = logs.join(format!("{}.log", suite.name));
    let started = Instant::now();
    let succeeded = execute(root, suite, &log)?;
    let output = fs::read(&log).with_context(|| log.display().to_string())?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let mut counts = parse_counts(&output);
    if counts.failed == 0 && (!succeeded || counts.passed == 0) {
        // It broke before it could count.
        counts.failed = 1;
    }
    Ok(SuiteOutcome { name: suite.name, counts, took: started.elapsed(), output, log })
}

fn suites(root: &Path) -> Vec<Suite> {
    let suite = |name, command: &[&'static str], folder| Suite {
        name,
        command: command.to_vec(),
        folder,
        needs_server: false,
    };
    let mut suites = vec![
        suite(
            "rust",
            &["cargo", "run", "--quiet", "--locked", "-p", "xtask", "--", "executables"],
            "",
        ),
        // Only the names of doc tests have a path. With `--doc`, cargo disregards `doctest = false`.
        suite(
            "doc",
            &["cargo", "test", "--workspace", "--locked", "--no-fail-fast", "--", "src/"],
            "",
        ),
    ];
    suites.push(suite("clients", &["e2e/run"], ""));
    if root.join("e2e/browser/package.json").exists() {
        let browser = suite("browser", &["npm", "test"], "e2e/browser");
        suites.push(Suite { needs_server: true, ..browser });
    }
    suites
}

fn execute(root: &Path, suite: &Suite, log: &Path) -> anyhow::Result<bool> {
    let output = File::create(log)?;
    let mut command = Command::new(suite.command[0]);
    command
        .args(&suite.command[1..])
        .current_dir(root.join(suite.folder))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let server = suite.needs_server.then(|| Server::start(root)).transpose()?;
    if let Some(server) = &server {
        command.envs(server.environment()?);
        command.env("WEIR_SCREENSHOTS", log.with_extension("screenshots"));
    }
    let status = command.status().with_context(|| suite.command.join(" "))?;
    Ok(status.success())
}

fn print_last_lines(output: &str) {
    let lines: Vec<&str> = output.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        // A line of a failed assertion may hold a megabyte.
        let shown: String = line.chars().take(500).collect();
        println!("  | {shown}");
    }
}

/// Returns the names of failed tests: below cargo's `failures:`, after pytest's `FAILED` and TAP's `not ok`.
fn failed_tests(output: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_list = false;
    for line in output.lines() {
        let of_list = line.strip_prefix("    ").filter(|it| is_list && !it.contains(' '));
        is_list = line == "failures:" || of_list.is_some() || (is_list && line.is_empty());
        let of_line =
            line.strip_prefix("FAILED ").or_else(|| line.trim_start().strip_prefix("not ok "));
        names.extend(of_list.filter(|name| !name.is_empty()).or(of_line));
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

impl Counts {
    fn line(self) -> String {
        let Self { passed, failed, skipped } = self;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Sums the results printed by cargo, node and e2e/run.
///
/// If a runner prints its own total at the end (e2e/run does, for suites in several languages), that total is used.
fn parse_counts(output: &str) -> Counts {
    if let Some(total) = parse_final_counts(output) {
        return total;
    }
    let mut total = Counts::default();
    for line in output.lines() {
        total.add(parse_cargo(line).unwrap_or_default());
    }
    if total == Counts::default() {
        total = parse_tap(output).or_else(|| parse_last_counts(output)).unwrap_or_default();
    }
    total
}

/// Parses `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 1s`.
fn parse_cargo(line: &str) -> Option<Counts> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |name: &str| number_before(counts, name).unwrap_or_default();
    Some(Counts {
        passed: number(" passed"),
        failed: number(" failed"),
        skipped: number(" ignored"),
    })
}

/// Parses the output of node's reporters: `# pass 5` or `ℹ pass 5`.
fn parse_tap(output: &str) -> Option<Counts> {
    let number = |name: &str| {
        let lines = output
            .lines()
            .filter_map(|line| line.trim_start_matches(['#', 'ℹ', ' ']).strip_prefix(name));
        lines.filter_map(|rest| rest.trim().parse::<u64>().ok()).next_back()
    };
    let failed = number("fail ")? + number("cancelled ").unwrap_or_default();
    Some(Counts {
        passed: number("pass ")?,
        failed,
        skipped: number("skipped ").unwrap_or_default(),
    })
}

/// Parses `5 passed, 0 failed, 1 skipped`, if this is all of the last line.
fn parse_final_counts(output: &str) -> Option<Counts> {
    let last = output.lines().rev().find(|line| !line.trim().is_empty())?.trim();
    parse_last_counts(last).filter(|total| total.line() == last)
}

/// Parses the last `5 passed, 0 failed, 1 skipped`.
fn parse_last_counts(output: &str) -> Option<Counts> {
    let line = output.lines().rev().find(|line| line.contains(" passed, "))?;
    let number = |name: &str| number_before(line, name);
    Some(Counts {
        passed: number(" passed")?,
        failed: number(" failed")?,
        skipped: number(" skipped").unwrap_or_default(),
    })
}

fn number_before(text: &str, name: &str) -> Option<u64> {
    let before = &text[..text.find(name)?];
    let start = before.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    before.get(start..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_listed() {
        let output = "failures:\n\n---- a::b stdout ----\npanicked\n\nfailures:\n    a::b\n    c\n\n\
                      test result: FAILED.\nFAILED test_x.py::test_y - assert\n  not ok 3 - opens\n    d\n";
        assert_eq!(failed_tests(output), ["3 - opens", "a::b", "c", "test_x.py::test_y - assert"]);
    }

    #[test]
    fn output_of_each_runner_is_parsed() {
        let counts = |passed, failed, skipped| Counts { passed, failed, skipped };
        let cargo = "running 5 tests\n\
            test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.1s\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(parse_counts(cargo), counts(6, 2, 1));
        assert_eq!(parse_counts("# pass 3\n# fail 1\n# cancelled 1\n# skipped 2"), counts(3, 2, 2));
        assert_eq!(parse_counts("ℹ pass 3\nℹ fail 0\nℹ skipped 0"), counts(3, 0, 0));
        assert_eq!(
            parse_counts("== python: 4 passed, 0 failed, 0 skipped\n9 passed, 1 failed, 2 skipped"),
            counts(9, 1, 2)
        );
        assert_eq!(
            parse_counts(
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
                 == rust: 3 passed, 0 failed, 0 skipped\n\n7 passed, 0 failed, 2 skipped\n"
            ),
            counts(7, 0, 2)
        );
        assert_eq!(parse_counts("error: could not compile"), Counts::default());
    }
}

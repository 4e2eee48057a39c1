//! Determines which statements of a settings file run: those in an `if` or `unless` only if its
//! condition is known.
//!
//! A condition is known if it depends on a variable that a file here sets. Variables that no file
//! sets may be set by the shell, the platform or an image.

use super::environment::Environment;
use super::evaluate::{Value, value};

/// Limit of chained assignments.
const DEPTH_MAX: usize = 4;

/// Statements that run, or may run.
#[derive(Debug, Default)]
pub(super) struct Script {
    statements: Vec<Statement>,
}

#[derive(Debug)]
struct Statement {
    text: String,
    /// Unknown: whether it runs is decided elsewhere.
    is_known: bool,
}

/// Lines up to `end`.
struct Block {
    /// Whether an earlier branch was taken; None: unknown.
    was_taken: Option<bool>,
    /// Whether this branch is taken; None: unknown.
    runs: Option<bool>,
    /// `if` or `unless`, which `else` turns around.
    is_condition: bool,
}

impl Script {
    pub(super) fn read(text: &str, environment: &Environment) -> Self {
        let mut script = Self::default();
        let mut blocks: Vec<Block> = Vec::new();
        for line in lines(text) {
            script.read_line(line, &mut blocks, environment);
        }
        script
    }

    fn read_line(&mut self, line: &str, blocks: &mut Vec<Block>, environment: &Environment) {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "if" | "unless" => {
                let runs = self.evaluate_condition(condition(rest), environment);
                let runs = if keyword == "if" { runs } else { not(runs) };
                match rest.split_once(" then ") {
                    Some((_, body)) if body.ends_with(" end") => {
                        self.push(body, and(runs, all_blocks_run(blocks)))
                    }
                    _ => blocks.push(Block { was_taken: runs, runs, is_condition: true }),
                }
            }
            "elsif" | "else" | "when" | "in" | "rescue" | "ensure" => {
                let runs = if keyword == "elsif" {
                    self.evaluate_condition(condition(rest), environment)
                } else {
                    Some(true)
                };
                if let Some(block) = blocks.last_mut().filter(|it| it.is_condition) {
                    block.runs = and(not(block.was_taken), runs);
                    block.was_taken = not(and(not(block.was_taken), not(runs)));
                }
            }
            _ if keyword == "end" || keyword.starts_with("end.") || keyword.starts_with("end)") => {
                blocks.pop();
            }
            _ => self.read_statement(line, blocks, environment),
        }
    }

    fn read_statement(&mut self, line: &str, blocks: &mut Vec<Block>, environment: &Environment) {
        let (text, runs) = match modifier(line) {
            Some((text, condition, is_if)) => {
                let runs = self.evaluate_condition(condition, environment);
                (text, if is_if { runs } else { not(runs) })
            }
            None => (line, Some(true)),
        };
        self.push(text, and(runs, all_blocks_run(blocks)));
        if opens_block(line) {
            blocks.push(Block { was_taken: None, runs: None, is_condition: false });
        }
    }

    fn push(&mut self, text: &str, runs: Option<bool>) {
        if runs != Some(false) {
            self.statements.push(Statement { text: text.to_owned(), is_known: runs.is_some() });
        }
    }

    /// Returns the arguments of the last call of a setting: `threads min, max`. Undecided: whether
    /// it is called is unknown.
    pub(super) fn find_call(&self, name: &str) -> Option<Result<&str, Undecided>> {
        let arguments = |it: &'_ Statement| {
            it.text.strip_prefix(name).is_some_and(|it| it.starts_with([' ', '(']))
        };
        let last = self.statements.iter().rfind(|it| arguments(it))?;
        let rest = last.text[name.len()..].trim_matches([' ', '(', ')']);
        Some(if last.is_known { Ok(rest) } else { Err(Undecided) })
    }

    /// Evaluates an expression, which may be an assigned name.
    pub(super) fn value(&self, expression: &str, environment: &Environment) -> Value {
        let mut expression = expression.trim();
        for _ in 0..DEPTH_MAX {
            match value(expression, environment) {
                Value::Unknown => {}
                known => return known,
            }
            let assigned = self.statements.iter().rev().find_map(|it| {
                let (name, rest) = it.text.split_once('=')?;
                let name = name.trim_end_matches(['|', '+', '-', '*', ' ']);
                (name == expression && !rest.starts_with('=')).then_some((it, rest))
            });
            match assigned {
                Some((statement, rest)) if statement.is_known && is_plain(&statement.text) => {
                    expression = rest.trim()
                }
                _ => return Value::Unknown,
            }
        }
        Value::Unknown
    }

    /// Returns whether a condition is true; None: unknown.
    fn evaluate_condition(&self, condition: &str, environment: &Environment) -> Option<bool> {
        let plain = condition.trim();
        for (word, is_or) in [(" || ", true), (" or ", true), (" && ", false), (" and ", false)] {
            if plain.contains(word) {
                let parts =
                    plain.split(word).map(|part| self.evaluate_condition(part, environment));
                return match is_or {
                    true => not(all_true(parts.map(not))),
                    false => all_true(parts),
                };
            }
        }
        if let Some(rest) = plain.strip_prefix('!').or_else(|| plain.strip_prefix("not ")) {
            return not(self.evaluate_condition(rest, environment));
        }
        for operator in [" == ", " != ", " >= ", " <= ", " > ", " < "] {
            if let Some((left, right)) = plain.split_once(operator) {
                let sides = [left, right].map(|side| self.evaluate_operand(side, environment));
                return compare(operator.trim(), &sides);
            }
        }
        let name = plain.strip_prefix("ENV[").and_then(|it| it.strip_suffix(']'));
        let name =
            name.or_else(|| plain.strip_prefix("ENV.key?(").and_then(|it| it.strip_suffix(')')));
        environment.get(name?.trim_matches(['"', '\''])).map(|_| true)
    }

    fn evaluate_operand(&self, text: &str, environment: &Environment) -> Value {
        let text = text.trim();
        let quoted = |quote: char| {
            text.strip_prefix(quote)?.strip_suffix(quote).filter(|it| !it.contains(quote))
        };
        if let Some(text) = quoted('"').or_else(|| quoted('\'')) {
            return Value::CheckedLayout(text.to_owned());
        }
        // `.downcase` and others change it.
        let known = [".to_i", ".to_s", ".fetch", ".presence"];
        let plain = known.iter().fold(text.to_owned(), |text, method| text.replace(method, ""));
        if plain.contains('.') { Value::Unknown } else { self.value(text, environment) }
    }
}

/// It is unknown whether the setting is called.
#[derive(Debug)]
pub(super) struct Undecided;

/// A default decides between numbers, as it does where a number of processes is asked for; of texts it is `RAILS_ENV`
/// that matters, which is "production" in places that are not here.
fn compare(operator: &str, sides: &[Value; 2]) -> Option<bool> {
    let [left, right] = sides;
    if let (Some(left), Some(right)) = (left.number(), right.number()) {
        return Some(match operator {
            "==" => left == right,
            "!=" => left != right,
            ">=" => left >= right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left < right,
        });
    }
    match (left, right, operator) {
        (Value::CheckedLayout(left), Value::CheckedLayout(right), "==") => Some(left == right),
        (Value::CheckedLayout(left), Value::CheckedLayout(right), "!=") => Some(left != right),
        _ => None,
    }
}

const fn not(truth: Option<bool>) -> Option<bool> {
    match truth {
        Some(truth) => Some(!truth),
        None => None,
    }
}

const fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Returns false if any part is false, even if others are unknown.
fn all_true(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut every = Some(true);
    for part in parts {
        every = and(every, part);
    }
    every
}

fn all_blocks_run(blocks: &[Block]) -> Option<bool> {
    all_true(blocks.iter().map(|block| block.runs))
}

/// Without `then` and what follows.
fn condition(text: &str) -> &str {
    text.split(" then").next().unwrap_or(text)
}

/// Splits "STATEMENT if CONDITION"; the flag is true for `if`.
fn modifier(line: &str) -> Option<(&str, &str, bool)> {
    let of =
        |word: &str| line.rsplit_once(word).filter(|(text, _)| !text.trim_end().ends_with('='));
    let of_if = of(" if ").map(|(text, condition)| (text, condition, true));
    of_if.or_else(|| of(" unless ").map(|(text, condition)| (text, condition, false)))
}

/// Returns whether this line needs an `end`.
fn opens_block(line: &str) -> bool {
    const KEYWORDS: [&str; 8] =
        ["case", "while", "until", "begin", "def", "class", "module", "for"];
    let first = line.split(' ').next().unwrap_or(line);
    let assigned = line.split_once("= ").map(|(_, rest)| rest.split(' ').next().unwrap_or(rest));
    let is_do = line.ends_with(" do") || (line.contains(" do |") && line.ends_with('|'));
    let is_end = line.ends_with(" end");
    let is_value =
        assigned.is_some_and(|it| it == "if" || it == "unless" || KEYWORDS.contains(&it));
    (is_do || KEYWORDS.contains(&first) || is_value) && !is_end
}

/// Returns whether this is `a = b`, not `a ||= b`.
fn is_plain(assignment: &str) -> bool {
    assignment
        .split_once('=')
        .is_some_and(|(name, _)| !name.trim_end().ends_with(['|', '+', '-', '*']))
}

/// Returns the lines without comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_comment = false;
    let lines = text.lines().filter(move |line| {
        let was = is_comment;
        is_comment = (is_comment && !line.starts_with("=end")) || line.starts_with("=begin");
        !was && !is_comment
    });
    let lines = lines.map(str::trim).filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.find(" #").map_or(line, |at| line[..at].trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(text: &str) -> Option<u32> {
        let mut environment = Environment::default();
        environment.set("RAILS_ENV", "production");
        environment.set("N", "3");
        let script = Script::read(text, &environment);
        match script.find_call("workers") {
            Some(Ok(expression)) => script.value(expression, &environment).number(),
            Some(Err(_)) => None,
            None => Some(0),
        }
    }

    #[test]
    fn settings_in_undecided_conditions_are_ignored() {
        for (text, expected) in [
            ("workers 2", Some(2)),
            ("if ENV['RAILS_ENV'] == 'production'\n  workers 2\nend", Some(2)),
            ("if ENV['RAILS_ENV'] != \"production\"\nworkers 2\nelse\nworkers 4\nend", Some(4)),
            ("unless ENV['RAILS_ENV'] == 'production'\nworkers 2\nend", Some(0)),
            ("if ENV['X'] == 'y'\nworkers 2\nend", None),
            ("if ENV['X']\nworkers 2\nelse\nworkers 4\nend", None),
            ("unless ENV['X']\nworkers 2\nend", None),
            ("workers 2 if ENV['RAILS_ENV'] == 'production'", Some(2)),
            ("workers 2 if ENV['X']", None),
            ("workers 2 if ENV['X'] && ENV['N'] == '4'", Some(0)),
            ("workers 2 unless ENV['N']", Some(0)),
            ("workers 2 if ENV['N'] && !ENV.key?('X')", None),
            ("workers 2 if ENV['N'].to_i > 3", Some(0)),
            ("workers 2 if ENV['N'].to_i >= 3 || ENV['X']", Some(2)),
            ("workers 2 if ENV['N'].downcase == '3'", None),
            (
                "env = ENV.fetch('RAILS_ENV') { 'x' }\nif env == 'test'\nworkers 1\nelsif env == 'production'\nworkers 5\nend",
                Some(5),
            ),
            ("env = ENV.fetch('OTHER', 'x')\nif env == 'x'\nworkers 1\nend", None),
            ("n = ENV.fetch('M', 1).to_i\nworkers n if n > 1", Some(0)),
            ("case ENV['N']\nwhen '3'\nworkers 2\nend", None),
            ("if ENV['X']\nn = 2\nelse\nn = 4\nend\nworkers n", None),
            ("n = if ENV['N'] then 2 else 4 end\nworkers n", None),
            ("n = if ENV['X']\n2\nelse\n4\nend\nworkers n", None),
            ("n = 2\nn = 4\nworkers n", Some(4)),
            ("n = 2\nn ||= 4\nworkers n", None),
            ("before_fork do\n  if x\n  end\nend\nworkers 2", Some(2)),
            ("before_fork do |a|\n  workers 9\nend\nworkers 2", Some(2)),
            ("if ENV['X'] then workers 9 end\nworkers 2", Some(2)),
            ("workers 2\nif ENV['X'] then workers 9 end", None),
            ("=begin\nworkers 9\n=end\nworkers 2 # not 9", Some(2)),
        ] {
            assert_eq!(workers(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-a-z=!|&'\\[\\]{}() #\n]{0,80}") {
            let _ = Script::read(&text, &Environment::default());
        }
    }
}

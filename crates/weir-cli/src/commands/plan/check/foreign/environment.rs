//! Variables, and words that have them in them.

use std::collections::BTreeMap;

use super::files::Folder;

/// The programs that read a file of variables, which differ in comments and separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum FileSyntax {
    /// The gem dotenv (2.x) and programs like it: a `#` ends an unquoted value, and `NAME: VALUE` is
    /// accepted as well.
    Dotenv,
    /// Docker compose: the same, but a `#` begins a comment only after a space.
    Compose,
    /// `EnvironmentFile=` of systemd: a `#` begins a comment only at the start of a line, and
    /// `export` is not accepted.
    Systemd,
}

/// The environment of a process, as far as the files define it.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Environment {
    variables: BTreeMap<String, String>,
    /// Files that it is read from and that are not here.
    pub(super) unread: Vec<String>,
}

impl Environment {
    pub(in crate::commands) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(in crate::commands) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a variable from "NAME=VALUE"; ignores other words.
    pub(super) fn set_word(&mut self, word: &str) {
        if let Some((name, value)) = assignment(word) {
            self.set(name, value);
        }
    }

    /// Reads a file with one variable per line.
    pub(super) fn read(&mut self, folder: &Folder, file: &str, syntax: FileSyntax) {
        match folder.find(file) {
            Some(text) => self.read_lines(&text, syntax),
            None => self.unread.push(file.to_owned()),
        }
    }

    /// Sets the variables of a file for dotenv that have no value yet.
    pub(super) fn read_defaults(&mut self, text: &str) {
        let mut defaults = Self::default();
        defaults.read_lines(text, FileSyntax::Dotenv);
        for (name, value) in defaults.variables {
            self.variables.entry(name).or_insert(value);
        }
    }

    pub(in crate::commands) fn read_lines(&mut self, text: &str, syntax: FileSyntax) {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some((name, value)) = syntax.variable(line) {
                self.set(name, value);
            }
        }
    }

    /// Fills in variables: `$NAME`, `${NAME}`, `${NAME:-5}`. Undefined ones are left unchanged.
    pub(in crate::commands) fn substitute(&self, word: &str) -> String {
        let mut filled = String::new();
        let mut rest = word;
        while let Some((before, behind)) = rest.split_once('$') {
            filled.push_str(before);
            let (variable, after) = split_variable(behind);
            match self.value_of(variable) {
                Some(value) => filled.push_str(&value),
                None => {
                    filled.push('$');
                    filled.push_str(variable);
                }
            }
            rest = after;
        }
        filled + rest
    }

    /// Returns the value of "NAME", "{NAME}" or "{NAME:-5}".
    fn value_of(&self, variable: &str) -> Option<String> {
        let inner = variable.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let inner = inner.unwrap_or(variable);
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (name, rest) = inner.split_at(inner.find(|it| !plain(it)).unwrap_or(inner.len()));
        // `:-5`, `-5`, `:=5`: a default. `:+5`: instead of a value. `:?no`: an error without one.
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        if let Some(instead) = rest.strip_prefix('+') {
            return Some(self.get(name).map(|_| instead.to_owned()).unwrap_or_default());
        }
        let default = rest.strip_prefix(['-', '=']);
        self.get(name).or(default).map(str::to_owned)
    }
}

impl FileSyntax {
    /// Parses a line with a variable; None: it has none.
    fn variable(self, line: &str) -> Option<(&str, &str)> {
        if self == Self::Systemd {
            return assignment(line).map(|(name, value)| (name, unquoted(value)));
        }
        let exported = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t']));
        let line = exported.unwrap_or(line).trim_start();
        let (name, value) = assignment(line).or_else(|| yaml_assignment(line))?;
        Some((name, self.without_comment(value)))
    }

    fn without_comment(self, value: &str) -> &str {
        let quoted = |quote: char| {
            let (inner, rest) = value.strip_prefix(quote)?.split_once(quote)?;
            let rest = rest.trim_start();
            (rest.is_empty() || rest.starts_with('#')).then_some(inner)
        };
        if let Some(inner) = quoted('"').or_else(|| quoted('\'')) {
            return inner;
        }
        let end = match self {
            Self::Dotenv => value.find('#'),
            Self::Compose if value.starts_with('#') => Some(0),
            Self::Compose => value.find(" #"),
            Self::Systemd => None,
        };
        unquoted(value[..end.unwrap_or(value.len())].trim_end())
    }
}

/// Parses "NAME: VALUE", in which a space must follow the colon.
fn yaml_assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    (value.starts_with([' ', '\t']) && is_name(name)).then(|| (name, value.trim()))
}

/// Splits the text after a dollar into the variable and the rest.
fn split_variable(text: &str) -> (&str, &str) {
    if text.starts_with('{') {
        return match text.find('}') {
            Some(end) => text.split_at(end + 1),
            None => ("", text),
        };
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = text.find(|letter| !plain(letter)).unwrap_or(text.len());
    text.split_at(end)
}

pub(in crate::commands) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.trim();
    is_name(name).then(|| (name, value.trim()))
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|it| it.is_ascii_alphabetic() || it == '_');
    first && letters.all(|it| it.is_ascii_alphanumeric() || it == '_')
}

fn unquoted(value: &str) -> &str {
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_comments_and_separators() {
        use FileSyntax::{Compose, Dotenv, Systemd};
        for (line, syntax, expected) in [
            ("A: 40", Dotenv, Some("40")),
            ("A: 40", Compose, Some("40")),
            ("A: 40", Systemd, None),
            ("A:40", Dotenv, None),
            ("A=40 # comment", Dotenv, Some("40")),
            ("A=40#comment", Dotenv, Some("40")),
            ("A=40 # comment", Compose, Some("40")),
            ("A=40#comment", Compose, Some("40#comment")),
            ("A=40 # comment", Systemd, Some("40 # comment")),
            ("A=\"4 # 0\" # comment", Dotenv, Some("4 # 0")),
            ("A='40'# comment", Compose, Some("40")),
            ("export A=3 # four", Dotenv, Some("3")),
            ("export\tA=3", Dotenv, Some("3")),
            ("export A=3", Systemd, None),
            ("A=\"40\"", Systemd, Some("40")),
            ("A = 40", Dotenv, Some("40")),
            ("# A=40", Dotenv, None),
            ("A= # none", Dotenv, None),
        ] {
            let mut environment = Environment::default();
            environment.read_lines(line, syntax);
            assert_eq!(environment.get("A"), expected, "{line} {syntax:?}");
        }
    }

    #[test]
    fn set_variables_are_substituted_and_others_left() {
        let mut environment = Environment::default();
        let text = "# NAME=no\nexport THREADS=\"25\"\nQUEUE='push'\nEMPTY=\n1X=2\n";
        environment.read_lines(text, FileSyntax::Dotenv);
        for (word, expected) in [
            ("$THREADS", "25"),
            ("${QUEUE},6", "push,6"),
            ("${THREADS:-5}", "25"),
            ("${NONE:-5}", "5"),
            ("${EMPTY:-7}", "7"),
            ("${NONE:=6}", "6"),
            ("${NONE-}", ""),
            ("${THREADS:?a-b}", "25"),
            ("${NONE:?a-b}", "${NONE:?a-b}"),
            ("${NONE:+debug -x}", ""),
            ("${THREADS:+debug -x}", "debug -x"),
            ("$NONE", "$NONE"),
            ("${NONE}", "${NONE}"),
            ("a$", "a$"),
            ("${open", "${open"),
            ("$1X", "$1X"),
        ] {
            assert_eq!(environment.substitute(word), expected, "{word}");
        }
    }
}

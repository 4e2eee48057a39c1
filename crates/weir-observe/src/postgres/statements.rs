//! Reads the statements with the highest total time from `pg_stat_statements`, if available.
//!
//! The extension usually replaces values by `$1`, but not for utility commands and for statements
//! whose entry was evicted while they ran. Therefore only queries are read, and anything that may
//! be a value is removed.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::SqlState;
use weir_advisor::observation::{Fact, Missing, MissingReason, StatementTimes};

use super::session::PostgresSession;

const WHAT: &str = "Postgres' slow statements";
/// Maximum characters of a statement, enough to find it in the application.
const TEXT_MAX: usize = 300;
/// Characters that are read before values are removed.
const READ_MAX: usize = 2_000;
/// Times are in milliseconds; the columns exist since version 13. The share refers to all
/// statements of this database.
const QUESTION: &str = "SELECT left(query, $READ) AS text, calls, total_exec_time AS total, \
    total_exec_time / nullif(sum(total_exec_time) OVER (), 0) AS share \
    FROM pg_stat_statements \
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND query ~* '^\\s*(/\\*.*\\*/)?\\s*(select|insert|update|delete|with|merge)\\y' \
    ORDER BY total_exec_time DESC LIMIT $MAX";

/// Returns the statements by total time. Not queried if disabled or if the extension is missing.
pub(super) async fn statements(session: &mut PostgresSession) -> Fact<Vec<StatementTimes>> {
    let max = session.limits().statements_max;
    if max == 0 {
        return Fact::NotAsked;
    }
    let question = QUESTION.replace("$READ", &READ_MAX.to_string());
    match session.query(&question.replace("$MAX", &max.to_string())).await {
        Ok(rows) => Fact::Known(rows.iter().filter_map(statement).collect()),
        Err(error) => Fact::Unknown(explained(session.missing(WHAT, &error), error.code())),
    }
}

/// Explains how to enable the extension. Its absence is not an error.
fn explained(missing: Missing, code: Option<&SqlState>) -> Missing {
    // The extension exists but is not in `shared_preload_libraries`.
    let is_off = code == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    if missing.obstacle != MissingReason::NotSupported && !is_off {
        return missing;
    }
    let remedy = "shared_preload_libraries = 'pg_stat_statements' in postgresql.conf, a restart, and \
                  CREATE EXTENSION pg_stat_statements; in this database";
    let (obstacle, remedy) = (MissingReason::NotSupported, Some(remedy.to_owned()));
    Missing { obstacle, remedy, ..missing }
}

fn statement(row: &SimpleQueryRow) -> Option<StatementTimes> {
    let number = |name: &str| row.get(name)?.parse::<f64>().ok();
    let seconds = number("total")? / 1_000.0;
    Some(StatementTimes {
        text: without_values(row.get("text")?),
        calls: row.get("calls")?.parse().ok()?,
        total: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
        share: number("share").unwrap_or_default(),
    })
}

/// Replaces numbers and strings by `?`, removes comments, and joins lines. Stops at other kinds of
/// quotes.
fn without_values(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_inside_a_word =
            plain.ends_with(|it: char| it.is_alphanumeric() || "_$\"".contains(it));
        match letter {
            '\'' => {
                skip_text(&mut letters);
                plain.push('?');
            }
            '/' if letters.peek() == Some(&'*') => skip_comment(&mut letters),
            '-' if letters.peek() == Some(&'-') => {
                letters.by_ref().take_while(|it| *it != '\n').for_each(drop);
            }
            // A dollar-quoted string; $1 is a parameter.
            '$' if !letters.peek().is_some_and(char::is_ascii_digit) => break,
            '0'..='9' if !is_inside_a_word => {
                while letters.next_if(|it| it.is_ascii_alphanumeric() || *it == '.').is_some() {}
                plain.push('?');
            }
            letter if letter.is_whitespace() => {
                if !plain.ends_with(' ') {
                    plain.push(' ');
                }
            }
            letter => plain.push(letter),
        }
        if plain.len() >= TEXT_MAX {
            plain.push('…');
            break;
        }
    }
    plain.trim().to_owned()
}

type PeekableChars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips a string. Doubled quotes belong to it, and so may quotes after a backslash. When in doubt,
/// removes too much rather than too little.
fn skip_text(letters: &mut PeekableChars<'_>) {
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\'' if letters.next_if_eq(&'\'').is_none() => return,
            _ => {}
        }
    }
}

fn skip_comment(letters: &mut PeekableChars<'_>) {
    let mut before = ' ';
    for letter in letters.skip(1) {
        if before == '*' && letter == '/' {
            return;
        }
        before = letter;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_and_comments_are_taken_out() {
        for (text, plain) in [
            (
                "SELECT *\n  FROM \"statuses\" WHERE id = $1",
                "SELECT * FROM \"statuses\" WHERE id = $1",
            ),
            ("SELECT 'it''s private', 42, 4.5e3 FROM t1", "SELECT ?, ?, ? FROM t1"),
            (
                "/* by:anna */ UPDATE a SET b = E'x\\'y' -- z\nWHERE c",
                "UPDATE a SET b = E? WHERE c",
            ),
            ("SELECT $$secret$$", "SELECT"),
            ("SELECT 'never ends", "SELECT ?"),
        ] {
            assert_eq!(without_values(text), plain);
        }
        let long = without_values(&"SELECT a, ".repeat(100));
        assert!(long.ends_with('…') && long.len() < TEXT_MAX + 10);
    }

    #[test]
    fn a_missing_extension_is_told_how_to_be_had() {
        let missing = |obstacle, code: &str| {
            let (what, reason) = (WHAT.to_owned(), String::new());
            let missing = Missing { what, obstacle, reason, remedy: None };
            explained(missing, Some(&SqlState::from_code(code)))
        };
        let absent = missing(MissingReason::NotSupported, "42P01");
        assert!(absent.remedy.unwrap().contains("CREATE EXTENSION"));
        let not_loaded = missing(MissingReason::Unreachable, "55000");
        assert_eq!(not_loaded.obstacle, MissingReason::NotSupported);
        assert_eq!(missing(MissingReason::Unreachable, "57014").remedy, None);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_quoted_text_stays(text in "\\PC{0,80}", secret in "[a-z]{12}") {
            let _ = without_values(&text);
            let with = format!("SELECT '{secret}' FROM x");
            prop_assert!(!without_values(&with).contains(&secret));
        }
    }
}

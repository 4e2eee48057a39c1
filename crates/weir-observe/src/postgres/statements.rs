//! The statements that took most time, where `pg_stat_statements` is there.
//!
//! It keeps statements with `$1` in place of values, nearly always: a statement whose entry was thrown
//! away while it ran is kept as it was written, and so are commands that are no queries. So only
//! queries are asked for, and what could be a value is taken out here once more.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::SqlState;
use weir_advisor::observation::{Fact, Missing, MissingReason, StatementTimes};

use super::error::code;
use super::session::PostgresSession;

const WHAT: &str = "Postgres' slow statements";
/// Letters of a statement that are kept: enough to find it in the application.
const TEXT_MAX: usize = 300;
/// What is read of each, before values are taken out.
const READ_MAX: usize = 2_000;
/// In milliseconds, since version 13; the share is of all statements of this database.
const QUESTION: &str = "SELECT left(query, $READ) AS text, calls, total_exec_time AS total, \
    total_exec_time / nullif(sum(total_exec_time) OVER (), 0) AS share \
    FROM pg_stat_statements \
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND query ~* '^\\s*(/\\*.*\\*/)?\\s*(select|insert|update|delete|with|merge)\\y' \
    ORDER BY total_exec_time DESC LIMIT $MAX";

/// The longest first. Not asked for where nobody wants them, or where Postgres does not keep them.
pub(super) async fn statements(session: &mut PostgresSession) -> Fact<Vec<StatementTimes>> {
    let max = session.limits().statements_max;
    if max == 0 {
        return Fact::NotAsked;
    }
    let question = QUESTION.replace("$READ", &READ_MAX.to_string());
    match session.query(&question.replace("$MAX", &max.to_string())).await {
        Ok(rows) => Fact::Known(rows.iter().filter_map(statement).collect()),
        Err(error) => Fact::Unknown(explained(session.missing(WHAT, &error), code(&error))),
    }
}

/// That it is not there is no defect, but there is a way to have it.
fn explained(missing: Missing, code: Option<&SqlState>) -> Missing {
    // The extension is there, and not in shared_preload_libraries.
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

/// With `?` for each number and each text, without comments, in one line. What is quoted in other ways
/// ends it.
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
            // A dollar-quoted text; $1 is a place.
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

/// A doubled quote is a letter of the text; with a backslash before it, it may be. Too much is taken out
/// rather than too little.
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

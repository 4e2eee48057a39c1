//! Output of commands: results on standard output, everything else on standard error. Colour only
//! on a terminal, and never as the only mark.

use std::io::{IsTerminal, Write};

use weir_config::environment;

/// Prints a line of the result. A closed pipe (`weir .. | head`) is not an error.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints text as it is. A closed pipe is not an error.
pub fn raw(text: &str) {
    let _ = try_raw(text);
}

/// Prints text as it is.
///
/// # Errors
/// Standard output cannot be written: its reader is gone, for example (`weir .. | head`).
pub fn try_raw(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Prints a value as JSON.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a remark on standard error.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints the error of a command, with all causes.
pub(crate) fn error(error: &anyhow::Error) {
    let label =
        if is_coloured(&std::io::stderr()) { "\u{1b}[31merror:\u{1b}[0m" } else { "error:" };
    note(&format!("{label} {}", with_causes(error)));
}

/// Returns an error with its causes. Many errors name their cause themselves; it is not repeated.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns whether to use colour: on a terminal, unless `NO_COLOR` is set.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !environment::no_color()
}

/// Replaces control characters and those that are invisible or change the direction of text: names of queues, classes and
/// nodes are input, and a terminal would interpret them.
pub(crate) fn printable(text: &str) -> String {
    let is_interpreted = |character: char| {
        character.is_control()
            || matches!(character, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_interpreted, "\u{fffd}")
}

/// Returns a time in this machine's time zone.
pub(crate) fn time(seconds: f64) -> String {
    let duration = jiff::SignedDuration::try_from_secs_f64(seconds).unwrap_or_default();
    let at = jiff::Timestamp::from_duration(duration).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%F %T").to_string()
}

/// Formats a count with its noun: `1 job`, `5 jobs`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Prints aligned columns; `head` is the first row.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut text = columns(head, rows).join("\n");
    text.push('\n');
    raw(&text); // at once: a system call for each line of a long table takes longer than the rest
}

/// Returns the lines of a table.
pub(crate) fn columns(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let render = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let head = render(&mut head.iter().copied());
    let rows = rows.iter().map(|row| render(&mut row.iter().map(String::as_str)));
    std::iter::once(head).chain(rows).collect()
}

/// Formats seconds: `3d 4h`, `5m 2s`, `0.4s`.
pub(crate) fn seconds(seconds: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("d", 86_400.0), ("h", 3_600.0), ("m", 60.0)];
    let below = |unit: &str| match unit {
        "d" => ("h", 3_600.0),
        "h" => ("m", 60.0),
        _ => ("s", 1.0),
    };
    for (unit, size) in UNITS {
        if seconds >= size {
            let (smaller, smaller_size) = below(unit);
            let whole = (seconds / size).floor();
            let rest = ((seconds - whole * size) / smaller_size).floor();
            return format!("{whole}{unit} {rest}{smaller}");
        }
    }
    if seconds >= 10.0 { format!("{seconds:.0}s") } else { format!("{seconds:.1}s") }
}

/// Formats seconds like [`seconds`], with milliseconds below a second: `<1ms`, `80ms`, `1.2s`.
pub(crate) fn fine_seconds(duration: f64) -> String {
    match duration {
        ..0.000_5 => "<1ms".to_owned(),
        ..0.999_5 => format!("{:.0}ms", duration * 1e3),
        _ => seconds(duration),
    }
}

/// Formats a share between 0 and 1: `2.5 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::{fine_seconds, printable, seconds, with_causes};

    #[test]
    fn cause_that_an_error_names_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("the connection ended: {0}")]
        struct Ended(#[from] Error);
        let ended = Ended(Error::from(ErrorKind::UnexpectedEof));
        let error = anyhow::Error::new(ended).context("no demo responds");
        let text = "no demo responds: the connection ended: unexpected end of file";
        assert_eq!(with_causes(&error), text);
        let error = anyhow::Error::new(Error::other("full")).context("cannot write a");
        assert_eq!(with_causes(&error), "cannot write a: full");
    }

    #[test]
    fn durations_below_a_second_have_milliseconds() {
        let cases =
            [(0.0, "<1ms"), (0.000_6, "1ms"), (0.08, "80ms"), (0.9996, "1.0s"), (302.0, "5m 2s")];
        for (value, text) in cases {
            assert_eq!(fine_seconds(value), text);
        }
    }

    #[test]
    fn control_characters_in_names_are_not_printed() {
        assert_eq!(printable("queue \u{1b}[2Jpush\n"), "queue \u{fffd}[2Jpush\u{fffd}");
        assert_eq!(printable("Müller 1 h"), "Müller 1 h");
        assert_eq!(
            printable("a\u{200b}b\u{200f}c\u{202e}\u{61c}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (value, text) in [
            (0.44, "0.4s"),
            (12.3, "12s"),
            (302.0, "5m 2s"),
            (3_600.0, "1h 0m"),
            (273_600.0, "3d 4h"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }
}

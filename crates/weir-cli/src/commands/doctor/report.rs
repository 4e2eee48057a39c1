//! Findings as text.

use std::fmt::Write;

use weir_advisor::{Advice, Finding, Severity};

use crate::output::printable;

/// Returns the verdict in one line, then each finding with its evidence, effect and remedy.
pub(super) fn text(advice: &Advice, coloured: bool) -> String {
    let mut text = format!("{}\n", printable(&advice.verdict.to_string()));
    for finding in &advice.findings {
        describe(&mut text, finding, coloured);
    }
    text
}

fn describe(text: &mut String, finding: &Finding, coloured: bool) {
    let Finding { rule, evidence, consequence, .. } = finding;
    let subject = printable(&finding.subject);
    let _ = write!(text, "\n{}  {subject}  [{rule}]\n", label(finding.severity, coloured));
    let mut line = |name: &str, words: &str| {
        let _ = writeln!(text, "  {name:<7} {}", printable(words));
    };
    line("seen", evidence);
    if !consequence.is_empty() {
        line("means", consequence);
    }
    if let Some(change) = &finding.change {
        line("change", &format!("{}:", change.place));
        line("", &format!("  {}", change.line));
        if change.restart {
            line("then", "restart the processes that read it");
        }
    }
    if let Some(next) = &finding.next {
        line("next", next);
    }
}

/// Returns the label, such as "CRITICAL": colour is never the only mark.
pub(super) fn label(severity: Severity, coloured: bool) -> String {
    let (word, colour) = match severity {
        Severity::Critical => ("CRITICAL", "31"),
        Severity::Warning => ("WARNING", "33"),
        Severity::Notice => ("NOTICE", "36"),
        Severity::Unknown => ("UNKNOWN", "35"),
    };
    if coloured { format!("\u{1b}[{colour}m{word}\u{1b}[0m") } else { word.to_owned() }
}

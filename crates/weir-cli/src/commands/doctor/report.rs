//! Findings as text.

use std::fmt::Write;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use weir_advisor::{Action, Advice, Finding, Severity, Since, wording};
use weir_base::clock::Clock;

use crate::output::printable;

/// Since a time before this, the date is shown as well.
const DAY: Duration = Duration::from_secs(86_400);

/// Returns the verdict in one line, then each finding with its evidence, effect and remedy. `now` is the
/// time of the observation, in the time zone of the reader.
pub(super) fn text(advice: &Advice, now: &Zoned, coloured: bool) -> String {
    let mut text = format!("{}\n", printable(&advice.verdict.to_string()));
    for finding in &advice.findings {
        describe(&mut text, finding, now, coloured);
    }
    text
}

/// Returns the present time, in the time zone of the system.
pub(super) fn now() -> Zoned {
    let millis = i64::try_from(Clock::system().now().as_millis()).unwrap_or_default();
    Timestamp::from_millisecond(millis).unwrap_or_default().to_zoned(TimeZone::system())
}

/// Returns "14:05, 40 min ago (state_change in pg_stat_activity)".
fn since_when(since: &Since, now: &Zoned) -> String {
    let ago = since.ago();
    let form = if ago < DAY { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    let began = now.saturating_sub(ago);
    format!("{}, {} ago ({})", began.strftime(form), wording::duration(ago), since.source)
}

fn describe(text: &mut String, finding: &Finding, now: &Zoned, coloured: bool) {
    let Finding { rule, evidence, consequence, .. } = finding;
    let subject = printable(&finding.subject);
    let _ = write!(text, "\n{}  {subject}  [{rule}]\n", label(finding.severity, coloured));
    let mut line = |name: &str, words: &str| {
        let _ = writeln!(text, "  {name:<7} {}", printable(words));
    };
    line("seen", evidence);
    if let Some(since) = &finding.since {
        line("since", &since_when(since, now));
    }
    if let Some(caveat) = finding.confidence.caveat() {
        line("sure", caveat);
    }
    if !consequence.is_empty() {
        line("means", consequence);
    }
    for action in &finding.actions {
        match action {
            Action::SetLine(change) => {
                line("change", &format!("{}:", change.place));
                line("", &format!("  {}", change.line));
                if change.restart {
                    line("then", "restart the processes that read it");
                }
            }
            Action::Run { command: next } | Action::Advise { text: next } => line("next", next),
        }
    }
}

/// Returns the label, such as "CRITICAL": colour is never the only mark.
pub(super) fn label(severity: Severity, coloured: bool) -> String {
    let colour = match severity {
        Severity::Critical => "31",
        Severity::Warning => "33",
        Severity::Notice => "36",
        Severity::Unknown => "35",
    };
    let word = severity.name().to_uppercase();
    if coloured { format!("\u{1b}[{colour}m{word}\u{1b}[0m") } else { word }
}

#[cfg(test)]
mod tests {
    use weir_advisor::{Confidence, Observation, advise};

    use super::*;

    #[test]
    fn a_finding_says_since_when_and_how_sure_it_is() {
        let mut advice = advise(&Observation::default());
        let ago = Duration::from_secs(2_400);
        let finding = Finding::new("backlog", Severity::Warning, "queue push", "40 jobs wait");
        let finding = finding.with_confidence(Confidence::Likely).since(ago, "enqueued_at");
        advice.findings = vec![finding.next("weir plan")];
        let now = Timestamp::from_second(1_800_020_700).unwrap().to_zoned(TimeZone::UTC);
        let text_of = |advice: &Advice| text(advice, &now, false);
        let expected = "\nWARNING  queue push  [backlog]\n  seen    40 jobs wait\n  \
                        since   13:05, 40 min ago (enqueued_at)\n  \
                        sure    likely: inferred from figures that go together, or from a sample\n  \
                        next    weir plan\n";
        assert!(text_of(&advice).ends_with(expected), "{}", text_of(&advice));
        let long = Duration::from_secs(3 * 86_400);
        advice.findings[0] = advice.findings[0].clone().since(long, "enqueued_at");
        assert!(
            text_of(&advice).contains("since   2027-01-12 13:45, 3 days ago"),
            "{}",
            text_of(&advice)
        );
        let certain = Finding::new("backlog", Severity::Warning, "queue push", "40 jobs wait");
        advice.findings = vec![certain];
        assert!(text_of(&advice).ends_with("  seen    40 jobs wait\n"), "{}", text_of(&advice));
    }
}

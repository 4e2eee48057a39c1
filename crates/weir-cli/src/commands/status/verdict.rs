//! The verdict in `weir status`: what is wrong and what to do, worst first.

use weir_advisor::Verdict;

use crate::output;

/// Findings beyond these are counted: one per queue would fill the screen.
const FINDINGS_MAX: usize = 8;

pub(super) fn print(verdict: &Verdict) {
    lines(verdict).iter().for_each(|line| output::line(line));
}

fn lines(verdict: &Verdict) -> Vec<String> {
    let mut lines = Vec::new();
    if verdict.severity.is_none() {
        lines.push(format!("{:<12} {}", "all well", verdict.headline));
    }
    for found in verdict.findings.iter().take(FINDINGS_MAX) {
        let severity = found.finding.severity.name().to_uppercase();
        lines.push(format!("{severity:<12} {}", found.problem));
        lines.push(format!("{:<12} {}", "", found.remedy));
    }
    let more = verdict.findings.len().saturating_sub(FINDINGS_MAX);
    if more > 0 {
        lines.push(format!("{:<12} and {more} more: weir status --json lists them", ""));
    }
    lines
}

#[cfg(test)]
mod tests {
    use weir_advisor::{Finding, Severity, VerdictFinding};

    use super::*;

    fn verdict(severity: Option<Severity>, findings: usize) -> Verdict {
        let finding = |number| {
            let severity = severity.unwrap_or(Severity::Notice);
            let problem = format!("Queue q{number} is late");
            let finding = Finding::new("queue-late", severity, format!("queue q{number}"), problem);
            VerdictFinding::new(finding, "Add workers.", "/queues")
        };
        let findings = (0..findings).map(finding).collect();
        Verdict::new(findings, "All queues are empty".to_owned())
    }

    #[test]
    fn notices_follow_the_headline_and_more_than_a_screen_is_counted() {
        assert_eq!(
            lines(&verdict(None, 1)),
            [
                "all well     All queues are empty",
                "NOTICE       Queue q0 is late",
                "             Add workers."
            ]
        );
        let lines = lines(&verdict(Some(Severity::Critical), 10));
        assert_eq!((lines.len(), lines[0].as_str()), (17, "CRITICAL     Queue q0 is late"));
        assert_eq!(lines[16], "             and 2 more: weir status --json lists them");
    }
}

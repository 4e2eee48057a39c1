//! What doctor says about what is observed, among what else is wrong.

use weir_advisor::Severity;

use super::{Finding, Level};
use crate::observed::Reading;
use crate::visible::visible;

/// Its findings, with the line to change. What could not be seen is worth knowing.
pub(super) fn doctor_finds(observed: &Reading) -> Vec<Finding> {
    let Some(looked) = &observed.looked else { return Vec::new() };
    looked.advice.findings.iter().map(finding).collect()
}

fn finding(found: &weir_advisor::Finding) -> Finding {
    let level = match found.severity {
        Severity::Critical => Level::Critical,
        Severity::Warning => Level::Warning,
        Severity::Notice | Severity::Unknown => Level::Notice,
    };
    let change = found.change.as_ref().map(|it| format!("In {}: {}", it.place, it.line));
    let todo = change.or_else(|| found.next.clone()).unwrap_or_else(|| found.consequence.clone());
    Finding {
        level,
        what: visible(&format!("{}: {}", found.subject, found.evidence)).into_owned(),
        todo: visible(&todo).into_owned(),
        link: "/doctor".to_owned(),
        jobs: 0,
    }
}

//! Metrics of findings and of the sampling itself.

use std::collections::BTreeMap;

use super::{CollectedFigures, SampleSummary};
use crate::advice::Advice;
use crate::finding::Severity;

pub(super) fn add(figures: &mut CollectedFigures, advice: &Advice, look: SampleSummary<'_>) {
    for severity in Severity::ALL {
        let found = advice.findings.iter().filter(|finding| finding.severity == severity);
        figures.add("findings", &[severity.name()], found.count() as f64);
    }
    let mut by_rule: BTreeMap<(&str, Severity), u32> = BTreeMap::new();
    for finding in &advice.findings {
        *by_rule.entry((&*finding.rule, finding.severity)).or_default() += 1;
    }
    for ((rule, severity), count) in by_rule {
        figures.add("rule_findings", &[rule, severity.name()], f64::from(count));
    }
    figures.add("look_timestamp_seconds", &[], look.at.as_secs_f64());
    figures.add("look_seconds", &[], look.took.as_secs_f64());
    for source in look.sources {
        let labels = &[source.kind.name(), source.name.as_str()];
        let is_up = f64::from(u8::from(source.problem.is_none()));
        figures.add("source_up", labels, is_up);
        figures.add("source_looks", labels, source.looks as f64);
        figures.add("source_failures", labels, source.failures as f64);
        figures.add("source_questions", labels, source.questions as f64);
        figures.add("source_look_seconds", labels, source.took.as_secs_f64());
    }
}

//! Metrics of the verdict, read at each scrape; none before the first sample.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::status::CurrentVerdict;

const BY_SEVERITY: &str = "weir_findings";
const BY_RULE: &str = "weir_rule_findings";

/// Collects the metrics.
#[derive(Debug)]
pub struct VerdictMetrics(CurrentVerdict);

impl VerdictMetrics {
    pub fn new(verdict: CurrentVerdict) -> Self {
        Self(verdict)
    }
}

impl Collector for VerdictMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some(verdict) = self.0.get() else { return Ok(()) };
        let severities = verdict.by_severity();
        let severities = severities.iter().map(|(severity, count)| (severity.name(), *count));
        let help = "Findings of the verdict about Weir's parts and what it observes, by severity";
        encode(&mut encoder, BY_SEVERITY, help, "severity", severities)?;
        let rules = verdict.by_rule();
        let help = "Findings of the verdict, by rule. Only rules that have any";
        encode(&mut encoder, BY_RULE, help, "rule", rules.into_iter())
    }
}

fn encode<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl Iterator<Item = (&'a str, usize)>,
) -> Result<(), fmt::Error> {
    let kind = ConstGauge::new(0_i64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (value, count) in values {
        let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
        gauge.encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use weir_advisor::{Finding, Severity, Verdict, VerdictFinding};

    use super::*;

    fn scraped(verdict: Option<Verdict>) -> String {
        let mut registry = Registry::default();
        let current = CurrentVerdict::new(move || verdict.clone());
        registry.register_collector(Box::new(VerdictMetrics::new(current)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn findings_are_counted_by_severity_and_by_rule() {
        assert_eq!(scraped(None), "# EOF\n");
        let finding =
            |rule, severity| VerdictFinding::new(Finding::new(rule, severity, "", ""), "", "/");
        let findings = vec![
            finding("queue-late", Severity::Warning),
            finding("queue-late", Severity::Warning),
            finding("no-worker", Severity::Critical),
        ];
        let text = scraped(Some(Verdict::new(findings, String::new())));
        for line in [
            "weir_findings{severity=\"critical\"} 1\n",
            "weir_findings{severity=\"warning\"} 2\n",
            "weir_findings{severity=\"notice\"} 0\n",
            "weir_rule_findings{rule=\"queue-late\"} 2\n",
            "weir_rule_findings{rule=\"no-worker\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }
}

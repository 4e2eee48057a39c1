//! FAIL: reports that a job failed.

use serde::Deserialize;

use super::error::FaktoryError;
use super::payload;
use super::replies::FaktoryReply;
use crate::model::{FailureReport, Wid};
use crate::rules;
use crate::server::JobService;
use crate::store::Store;

/// What Faktory stores if a worker sends no type or message of the error.
const UNKNOWN: &str = "unknown";

#[derive(Deserialize)]
struct FailText {
    jid: String,
    errtype: Option<String>,
    message: Option<String>,
    backtrace: Option<Vec<String>>,
}

/// Runs `FAIL {jid,errtype,message,backtrace}`. Replies `+OK` once the outcome is stored.
pub(super) async fn fail<S: Store>(
    service: &JobService<S>,
    reporter: Option<&Wid>,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let mut report = parse(json)?;
    mark_cancelled(service, reporter, &mut report);
    let jid = report.jid.clone();
    service.traces.note_failure(&report);
    let outcome = service.store.fail_from(reporter, vec![report]).await.pop();
    outcome.expect("each report has an outcome")?;
    service.note_ended(reporter, &[&*jid]);
    Ok(FaktoryReply::Ok)
}

/// A cancelled job is not tried again.
pub(super) fn mark_cancelled<S: Store>(
    service: &JobService<S>,
    reporter: Option<&Wid>,
    report: &mut FailureReport,
) {
    let now = service.clock.now();
    report.is_final = service.cancellations.borrow().contains(&report.jid, reporter, now);
}

pub(super) fn parse(json: &[u8]) -> Result<FailureReport, FaktoryError> {
    let text: FailText = payload::parse("FAIL", json)?;
    let report = FailureReport {
        jid: text.jid.into_boxed_str(),
        errtype: text_or_unknown(text.errtype),
        message: text_or_unknown(text.message),
        backtrace: text.backtrace.unwrap_or_default(),
        is_final: false,
    };
    Ok(rules::cut(report, rules::BACKTRACE_LINES_MAX))
}

/// Returns the jid of a report that may be malformed otherwise, or an empty string.
pub(super) fn jid_of(json: &str) -> String {
    #[derive(Deserialize)]
    struct JidOnly {
        jid: String,
    }
    payload::parse("FAIL", json.as_bytes()).map_or_else(|_| String::new(), |only: JidOnly| only.jid)
}

fn text_or_unknown(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    let trimmed = text.trim();
    if trimmed.is_empty() { UNKNOWN.to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_truncated() {
        let json = serde_json::json!({
            "jid": "12345678",
            "errtype": "é".repeat(101),
            "message": "ü".repeat(1_001),
            "backtrace": vec!["line"; 51],
        });
        let report = parse(json.to_string().as_bytes()).unwrap();
        assert_eq!(report.errtype, "é".repeat(100));
        assert_eq!(report.message, "ü".repeat(1_000));
        assert_eq!(report.backtrace.len(), 50);
    }

    #[test]
    fn only_the_jid_is_required() {
        let report = parse(b"{\"jid\":\"12345678\",\"backtrace\":null}").unwrap();
        let unknown = FailureReport {
            jid: "12345678".into(),
            errtype: "unknown".to_owned(),
            message: "unknown".to_owned(),
            backtrace: Vec::new(),
            is_final: false,
        };
        assert_eq!(report, unknown);
        let blank =
            parse(b"{\"jid\":\"12345678\",\"errtype\":\" \",\"message\":\" m\\n\"}").unwrap();
        assert_eq!((blank.errtype.as_str(), blank.message.as_str()), ("unknown", "m"));
        assert!(parse(b"{}").is_err());
    }
}

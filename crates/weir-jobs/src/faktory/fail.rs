//! FAIL: a job failed.

use serde::Deserialize;

use super::refusal::Refusal;
use super::replies::Answer;
use crate::model::FailureReport;
use crate::server::Service;
use crate::store::Store;

/// The protocol's limits of a report; what is longer is cut.
const ERRTYPE_CHARACTERS_MAX: usize = 100;
const MESSAGE_CHARACTERS_MAX: usize = 1_000;
const BACKTRACE_LINES_MAX: usize = 50;

#[derive(Deserialize)]
struct FailText {
    jid: String,
    errtype: Option<String>,
    message: Option<String>,
    backtrace: Option<Vec<String>>,
}

/// `FAIL {jid,errtype,message,backtrace}`: `+OK` once the retry or the death is stored.
pub(super) async fn fail<S: Store>(service: &Service<S>, json: &[u8]) -> Result<Answer, Refusal> {
    service.store.fail(parse(json)?).await?;
    Ok(Answer::Ok)
}

fn parse(json: &[u8]) -> Result<FailureReport, Refusal> {
    let text: FailText =
        serde_json::from_slice(json).map_err(|error| Refusal::malformed("FAIL", error))?;
    let mut backtrace = text.backtrace.unwrap_or_default();
    backtrace.truncate(BACKTRACE_LINES_MAX);
    Ok(FailureReport {
        jid: text.jid.into_boxed_str(),
        errtype: cut(text.errtype.unwrap_or_default(), ERRTYPE_CHARACTERS_MAX),
        message: cut(text.message.unwrap_or_default(), MESSAGE_CHARACTERS_MAX),
        backtrace,
    })
}

fn cut(mut text: String, characters_max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(characters_max) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_by_characters_and_lines() {
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
    fn only_the_jid_is_needed() {
        let report = parse(b"{\"jid\":\"12345678\",\"backtrace\":null}").unwrap();
        assert_eq!(report, FailureReport { jid: "12345678".into(), ..FailureReport::default() });
        assert!(parse(b"{}").is_err());
    }
}

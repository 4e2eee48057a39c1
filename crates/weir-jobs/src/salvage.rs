//! Finds jobs in the bytes that were set aside from a damaged log.

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_log::SetAside;

use crate::engine;

/// A job that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The job's JSON, for `weir jobs import`.
    pub json: String,
    /// Whether a checksum confirms that the text is identical to what was stored.
    pub is_exact: bool,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "a job has both")]
struct SalvagedJob<'a> {
    #[serde(borrow)]
    jid: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    jobtype: std::borrow::Cow<'a, str>,
}

/// Returns the jobs in `aside`. If the record can be corrected by flipping one bit, that is its
/// exact job; otherwise every text that parses as a job.
#[must_use]
pub fn jobs_in(aside: &SetAside<'_>) -> Vec<Salvaged> {
    if let Some(record) = aside.corrected() {
        let json = engine::job_of_record(record.head(), record.body());
        let json = json.and_then(|json| String::from_utf8(json.to_vec()).ok());
        return json.map(|json| Salvaged { json, is_exact: true }).into_iter().collect();
    }
    let (mut found, mut rest) = (Vec::new(), aside.bytes);
    while let Some(start) = rest.iter().position(|byte| *byte == b'{') {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let json = match values.next() {
            Some(Ok(value)) if serde_json::from_str::<SalvagedJob<'_>>(value.get()).is_ok() => {
                value.get()
            }
            _ => {
                rest = &rest[1..];
                continue;
            }
        };
        found.push(Salvaged { json: json.to_owned(), is_exact: false });
        rest = &rest[json.len()..];
    }
    found
}

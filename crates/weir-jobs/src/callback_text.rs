//! The JSON of a batch's callback job: that of the client, with the batch's id in `custom._bid`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::custom::BatchId;

/// The member of `custom` by which the worker of a callback finds its batch.
const CALLBACK_BID: &str = "_bid";

type Members = BTreeMap<String, Box<RawValue>>;

/// Returns `json` with a jid, if it has none.
pub(crate) fn with_jid(json: &str, jid: &str) -> Result<Vec<u8>, serde_json::Error> {
    let mut members: Members = serde_json::from_str(json)?;
    let has_jid = members.get("jid").is_some_and(|raw| !matches!(raw.get(), "null" | "\"\""));
    if !has_jid {
        members.insert("jid".to_owned(), serde_json::value::to_raw_value(jid)?);
    }
    serde_json::to_vec(&members)
}

/// Returns `json` with the id of the batch in `custom`. All other values stay byte for byte.
pub(crate) fn with_batch(json: &[u8], id: BatchId) -> Result<Vec<u8>, serde_json::Error> {
    let mut members: Members = serde_json::from_slice(json)?;
    let custom = members.get("custom").filter(|raw| raw.get() != "null");
    let mut custom: Members =
        custom.map_or_else(|| Ok(Members::new()), |raw| serde_json::from_str(raw.get()))?;
    custom.insert(CALLBACK_BID.to_owned(), serde_json::value::to_raw_value(&id.to_string())?);
    members.insert("custom".to_owned(), serde_json::value::to_raw_value(&custom)?);
    serde_json::to_vec(&members)
}

/// Returns the batch that the `custom` of a job names as that whose callback it is.
#[must_use]
pub fn batch_of_callback(custom: &str) -> Option<BatchId> {
    let mut members: Members = serde_json::from_str(custom).ok()?;
    BatchId::parse(&serde_json::from_str::<String>(members.remove(CALLBACK_BID)?.get()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_names_its_batch() {
        let bid = BatchId(7);
        assert_eq!(batch_of_callback(&format!(r#"{{"x":1,"_bid":"{bid}"}}"#)), Some(bid));
        for custom in
            ["{}", r#"{"_bid":7}"#, r#"{"_bid":"x"}"#, "[]", r#"{"bid":"b-0000000000000007"}"#]
        {
            assert_eq!(batch_of_callback(custom), None, "{custom}");
        }
    }

    #[test]
    fn a_callback_gets_a_jid_and_its_batch_and_keeps_its_values() {
        let text = r#"{"jobtype":"T","args":[12345678901234567890, 1.0],"custom":{"track": 1}}"#;
        let with_jid = with_jid(text, "new-jid-1").unwrap();
        let json = with_batch(&with_jid, BatchId(7)).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"args":[12345678901234567890, 1.0],"custom":{"_bid":"b-0000000000000007","track":1},"jid":"new-jid-1","jobtype":"T"}"#
        );
    }

    #[test]
    fn a_jid_of_the_client_stays() {
        for (text, expected) in [
            (r#"{"jid":"mine-0001"}"#, r#"{"jid":"mine-0001"}"#),
            (r#"{"jid":""}"#, r#"{"jid":"new-jid-1"}"#),
            (r#"{"jid":null}"#, r#"{"jid":"new-jid-1"}"#),
        ] {
            assert_eq!(with_jid(text, "new-jid-1").unwrap(), expected.as_bytes());
        }
        assert!(with_jid("[]", "new-jid-1").is_err());
    }
}

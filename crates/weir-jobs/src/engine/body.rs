//! The body of a job's record: the fields that the server needs without parsing the JSON again,
//! followed by the JSON exactly as it is sent to a worker.

use super::varint::{self, FieldReader, Malformed};
use crate::model::NewJob;

/// A job as stored. The texts are borrowed from the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredBody<'a> {
    pub(crate) jid: &'a str,
    pub(crate) jobtype: &'a str,
    pub(crate) reserve_for_seconds: u32,
    pub(crate) retry: i32,
    pub(crate) backtrace: u32,
    /// See [`NewJob::base_bytes`].
    pub(crate) base_bytes: usize,
    pub(crate) json: &'a [u8],
}

impl<'a> StoredBody<'a> {
    /// Returns the body for a pushed job.
    pub(crate) const fn of(job: &NewJob<'a>) -> Self {
        Self {
            jid: job.jid,
            jobtype: job.jobtype,
            reserve_for_seconds: job.reserve_for_seconds,
            retry: job.retry,
            backtrace: job.backtrace,
            base_bytes: job.base_bytes,
            json: job.json,
        }
    }

    /// Appends all fields except the JSON, which the caller appends unchanged.
    pub(crate) fn write_facts(&self, into: &mut Vec<u8>) {
        varint::put_text(into, self.jid);
        varint::put_text(into, self.jobtype);
        varint::put(into, u64::from(self.reserve_for_seconds));
        varint::put_signed(into, i64::from(self.retry));
        varint::put(into, u64::from(self.backtrace));
        varint::put(into, self.base_bytes as u64);
    }

    /// Parses a body.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = FieldReader(bytes);
        let body = Self {
            jid: fields.text()?,
            jobtype: fields.text()?,
            reserve_for_seconds: fields.narrow()?,
            retry: i32::try_from(fields.signed()?).map_err(|_| Malformed)?,
            backtrace: fields.narrow()?,
            base_bytes: fields.narrow()?,
            json: fields.0,
        };
        if body.base_bytes <= body.json.len() { Ok(body) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_body_comes_back(
            jid: String, jobtype: String, numbers in (any::<u32>(), any::<i32>(), any::<u32>()),
            json: Vec<u8>,
        ) {
            let body = StoredBody {
                jid: &jid,
                jobtype: &jobtype,
                reserve_for_seconds: numbers.0,
                retry: numbers.1,
                backtrace: numbers.2,
                base_bytes: json.len() / 2,
                json: &json,
            };
            let mut bytes = Vec::new();
            body.write_facts(&mut bytes);
            bytes.extend_from_slice(&json);
            prop_assert_eq!(StoredBody::read(&bytes), Ok(body));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = StoredBody::read(&bytes);
        }
    }
}

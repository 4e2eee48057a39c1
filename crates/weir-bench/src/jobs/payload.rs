//! Jobs of an exact size that contain their number, by which a delivered job is recognized.
//!
//! A jid is a run's tag (8 hexadecimal digits) and the job's number (12 decimal digits): fixed width, so that
//! all jobs of a run have the same size.

use anyhow::{Result, ensure};

use super::reply::decimal;

const TAG_DIGITS: usize = 8;
const NUMBER_DIGITS: usize = 12;
const TENANT_DIGITS: usize = 6;
/// Most tenants, by the digits of their names.
pub(crate) const TENANTS_MAX: u32 = 10_u32.pow(6);
const JID_START: &[u8] = b"{\"jid\":\"";
/// Most jobs per run, by the digits of the number in the jid.
pub(crate) const JOBS_MAX: u64 = 10_u64.pow(12);

/// The JSON of every job of a run but for its number and its tenant.
#[derive(Debug, Clone)]
pub(crate) struct JobTemplate {
    json: Vec<u8>,
    jid_prefix: Vec<u8>,
    number_at: usize,
    tenants: Option<Tenants>,
}

#[derive(Debug, Clone, Copy)]
struct Tenants {
    count: u32,
    digits_at: usize,
}

impl JobTemplate {
    /// Jobs for `queue`, exactly `bytes` long. With `tenants`, their first argument is the name of a tenant. Fails
    /// if the smallest job is longer.
    pub(crate) fn new(tag: u32, queue: &str, tenants: Option<u32>, bytes: usize) -> Result<Self> {
        let jid_prefix = format!("{tag:08x}-");
        let head = format!("{{\"jid\":\"{jid_prefix}{:012}\",", 0);
        let mut head = format!("{head}\"jobtype\":\"BenchJob\",\"queue\":\"{queue}\",\"args\":[\"");
        let tenants = tenants.map(|count| {
            head += "tenant-";
            let digits_at = head.len();
            head += &format!("{:01$}\",\"", 0, TENANT_DIGITS);
            Tenants { count, digits_at }
        });
        let smallest = head.len() + "\"]}".len();
        ensure!(
            bytes >= smallest,
            "--payload-bytes {bytes}: the smallest job has {smallest} bytes"
        );
        let filler = "x".repeat(bytes - smallest);
        Ok(Self {
            json: format!("{head}{filler}\"]}}").into_bytes(),
            number_at: JID_START.len() + jid_prefix.len(),
            jid_prefix: jid_prefix.into_bytes(),
            tenants,
        })
    }

    /// Appends job `number`.
    pub(crate) fn append(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.json);
        let digits = &mut out[start + self.number_at..start + self.number_at + NUMBER_DIGITS];
        write_decimal(number, digits);
        if let Some(Tenants { count, digits_at }) = self.tenants {
            let at = start + digits_at;
            write_decimal(scatter(number) % u64::from(count), &mut out[at..at + TENANT_DIGITS]);
        }
    }

    /// Finds the number of a job that this template made, in whatever order its fields come back.
    /// `None` for anything else.
    pub(crate) fn number_of(&self, job: &[u8]) -> Option<u64> {
        let jid = jid_of(job)?;
        let digits = jid.strip_prefix(self.jid_prefix.as_slice())?;
        if digits.len() != NUMBER_DIGITS {
            return None;
        }
        decimal(digits).map(|number| number as u64)
    }

    /// The size of every job.
    pub(crate) fn bytes(&self) -> usize {
        self.json.len()
    }
}

/// Returns the jid of a received job. Spaces after the colon are accepted.
pub(crate) fn jid_of(job: &[u8]) -> Option<&[u8]> {
    let after_key = memchr::memmem::find(job, b"\"jid\":")? + b"\"jid\":".len();
    let value = job[after_key..].trim_ascii_start().strip_prefix(b"\"")?;
    Some(&value[..memchr::memchr(b'"', value)?])
}

/// Returns a random tag for a run.
pub(crate) fn random_tag() -> u32 {
    debug_assert_eq!(format!("{:08x}", u32::MAX).len(), TAG_DIGITS);
    fastrand::u32(..)
}

/// Returns a number without a visible order: the high bits of Knuth's multiplicative hash.
fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

fn write_decimal(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_has_the_requested_size_and_is_valid_json() {
        for bytes in [110, 250, 10_000] {
            let template = JobTemplate::new(7, "weir-bench", None, bytes).expect("large enough");
            let mut job = Vec::new();
            template.append(123_456, &mut job);
            assert_eq!(job.len(), bytes);
            let parsed: serde_json::Value = serde_json::from_slice(&job).expect("valid JSON");
            assert_eq!(parsed["jid"], "00000007-000000123456");
            assert_eq!(parsed["queue"], "weir-bench");
        }
    }

    #[test]
    fn tenants_take_turns_without_an_order() {
        let template = JobTemplate::new(7, "q", Some(3), 200).expect("large enough");
        let tenants: Vec<String> = (0..300)
            .map(|number| {
                let mut job = Vec::new();
                template.append(number, &mut job);
                assert_eq!(job.len(), 200);
                let parsed: serde_json::Value = serde_json::from_slice(&job).expect("valid JSON");
                parsed["args"][0].as_str().expect("a name").to_owned()
            })
            .collect();
        for name in ["tenant-000000", "tenant-000001", "tenant-000002"] {
            let jobs = tenants.iter().filter(|tenant| *tenant == name).count();
            assert!((80..120).contains(&jobs), "{name}: {jobs}");
        }
        assert!(tenants[..30] != tenants[30..60] && tenants[0..3] != tenants[3..6]);
    }

    #[test]
    fn too_small_a_size_is_rejected_with_the_minimum() {
        let error = JobTemplate::new(7, "q", None, 10).expect_err("too small").to_string();
        assert!(error.contains("the smallest job has"), "{error}");
    }

    #[test]
    fn job_number_is_found_in_reordered_json_of_this_run_only() {
        let template = JobTemplate::new(0xAB, "q", None, 200).expect("large enough");
        let reordered = br#"{"queue":"q","jid": "000000ab-000000000042","args":[]}"#;
        assert_eq!(template.number_of(reordered), Some(42));
        assert_eq!(template.number_of(br#"{"jid":"000000ac-000000000042"}"#), None);
        assert_eq!(template.number_of(br#"{"jid":"000000ab-42"}"#), None);
        assert_eq!(template.number_of(br#"{"args":[]}"#), None);
    }
}

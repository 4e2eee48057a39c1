//! Whatever is pushed, alone or in a batch: a clear error in one line, or a job whose text is valid
//! JSON, names nothing of the server's twice, and stays so through failure and requeue.
//!
//! Run with `cargo +nightly fuzz run job fuzz/corpus/job fuzz/seeds/job -- -dict=fuzz/protocol.dict`
//! in `crates/weir-jobs`.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use weir_base::clock::Timestamp;
use weir_jobs::job::{JobBatch, JobError};
use weir_jobs::job_text;
use weir_jobs::model::{FailureState, NewJob};
use weir_jobs::settings::JobServerLimits;

const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_123_456);

fuzz_target!(|bytes: &[u8]| {
    let limits = JobServerLimits { pushb_jobs_max: 16, ..JobServerLimits::default() };
    let mut batch = JobBatch::new();
    match batch.parse_one(bytes, NOW, &limits) {
        Ok(job) => check(&job),
        Err(error) => check_error(&error),
    }
    let alone = batch.parse_one(bytes, NOW, &limits).is_ok();
    let array = [b"[", bytes, b"]"].concat();
    let mut batch = JobBatch::new();
    match batch.parse_array(&array, NOW, &limits) {
        Ok(rejected) => {
            rejected.iter().for_each(|rejected| check_error(&rejected.error));
            let jobs = batch.jobs();
            assert!(jobs.len() + rejected.len() <= limits.pushb_jobs_max);
            assert!(!alone || jobs.len() == 1, "one job is a batch of one");
            jobs.iter().for_each(check);
        }
        Err(error) => {
            check_error(&error);
            assert!(batch.is_empty() && !alone);
        }
    }
});

fn check_error(error: &JobError) {
    let text = error.to_string();
    assert!(!text.contains(['\n', '\r']) && text.len() < 2_000, "{text:?}");
}

fn check(job: &NewJob<'_>) {
    check_text(job.json);
    check_text(&[&job.json[..job.base_bytes], b"}"].concat());
    let failure = FailureState { message: "\"}\n".to_owned(), ..FailureState::default() };
    let failed = job_text::failed(job.json, job.base_bytes, &failure);
    check_text(&failed);
    assert_eq!(job_text::failure(&failed, job.base_bytes), Some(failure.clone()));
    let again = job_text::enqueued(&failed, job.base_bytes, NOW);
    check_text(&again);
    assert_eq!(job_text::failure(&again, job.base_bytes), Some(failure));
    assert_eq!(job.json[..job.base_bytes], again[..job.base_bytes]);
}

fn check_text(json: &[u8]) {
    let names: Names = serde_json::from_slice(json).expect("a stored job is valid JSON");
    for name in ["jid", "jobtype", "args", "queue", "created_at", "retry"] {
        assert_eq!(names.0.get(name), Some(&1), "{name}");
    }
    for name in ["enqueued_at", "failure", "at", "custom", "reserve_for", "backtrace"] {
        assert!(names.0.get(name).is_none_or(|count| *count == 1), "{name}");
    }
}

/// The members of an object and how often each is there.
struct Names(BTreeMap<String, u32>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Names;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = BTreeMap::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    *names.entry(name).or_default() += 1;
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Counting)
    }
}

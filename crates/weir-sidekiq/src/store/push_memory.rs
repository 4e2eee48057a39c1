//! The push memory: the same job pushed again is stored once.
//!
//! A client whose connection broke, or whose push was not confirmed in time, does not know whether
//! its job is stored, and pushes it again. The memory is in Redis and is read and written in the
//! same script that stores the job, so it holds across nodes and reconnects, and it is lost or kept
//! together with the job.

use std::time::Duration;

use weir_jobs::model::NewJob;

use super::members;

/// How long and how many jobs Redis remembers, for each queue and set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PushMemory {
    /// Zero: nothing is remembered.
    duration: Duration,
    jobs_max: usize,
}

/// Members that differ between two pushes of one job: the server adds them if they are missing.
const VARIABLE_MEMBERS: [&str; 2] = ["created_at", "enqueued_at"];

impl PushMemory {
    pub(super) const OFF: Self = Self { duration: Duration::ZERO, jobs_max: 0 };

    pub(super) const fn new(duration: Duration, jobs_max: usize) -> Self {
        Self { duration, jobs_max }
    }

    pub(super) const fn is_on(self) -> bool {
        !self.duration.is_zero()
    }

    /// Returns the script's first arguments: milliseconds, and the marks of one of the two halves.
    pub(super) fn arguments(self) -> [Vec<u8>; 2] {
        let half = (self.jobs_max / 2).max(1);
        [self.duration.as_millis().to_string().into_bytes(), half.to_string().into_bytes()]
    }

    /// Returns what a client may do whose push may be stored.
    pub(super) fn advice(self) -> String {
        if !self.is_on() {
            return "a second push may run it twice (jobs.redis.push_memory is off)".to_owned();
        }
        let seconds = self.duration.as_secs();
        format!("the same job pushed again within {seconds} s is stored once")
    }
}

/// Returns what Redis remembers of a job: its jid and a hash of its members. Jobs with one jid and
/// different members are different jobs.
pub(super) fn mark(job: &NewJob<'_>) -> Vec<u8> {
    let json = std::str::from_utf8(job.json).unwrap_or_default();
    let members = members::split(json).unwrap_or_default();
    let counted = members.iter().filter(|it| !VARIABLE_MEMBERS.contains(&&*it.name));
    let hash = counted.fold(FNV_OFFSET, |hash, member| {
        let hash = fnv1a(hash, member.name.as_bytes());
        // A byte that JSON has nowhere separates texts.
        fnv1a(fnv1a(fnv1a(hash, &[0]), member.value.as_bytes()), &[0])
    });
    [job.jid.as_bytes(), &hash.to_be_bytes()].concat()
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a, which is the same in all versions of Weir.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Timestamp;
    use weir_jobs::job::JobBatch;
    use weir_jobs::settings::JobServerLimits;

    use super::*;

    fn mark_of(json: &str, second: u64) -> Vec<u8> {
        let now = Timestamp::from_micros(second * 1_000_000);
        let mut batch = JobBatch::new();
        mark(&batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).unwrap())
    }

    #[test]
    fn a_job_is_known_by_its_jid_and_its_members_whenever_it_is_pushed() {
        let json = |jid: &str, args: &str| {
            format!(r#"{{"jid":"{jid}","jobtype":"A","args":[{args}],"custom":{{"x":1}}}}"#)
        };
        let first = mark_of(&json("job-00001", "1"), 1_800_000_000);
        assert!(first.starts_with(b"job-00001"));
        assert_eq!(first.len(), 9 + 8);
        assert_eq!(mark_of(&json("job-00001", "1"), 1_800_000_007), first);
        assert_ne!(mark_of(&json("job-00001", "2"), 1_800_000_000), first);
        assert_ne!(mark_of(&json("job-00002", "1"), 1_800_000_000), first);
    }

    #[test]
    fn the_memory_is_halved() {
        let memory = PushMemory::new(Duration::from_secs(60), 1_001);
        assert_eq!(memory.arguments(), [b"60000".to_vec(), b"500".to_vec()]);
        assert!(memory.advice().contains("within 60 s"));
        assert!(!PushMemory::OFF.is_on());
        assert!(PushMemory::OFF.advice().contains("push_memory"));
    }
}

//! The load of jobs: producers, batches, worker processes, and the ledger that they report to.

mod batches;
mod ledger;
mod producer;
mod time_stamp;
mod worker;
mod workers;

pub(super) use self::batches::run as run_batches;
pub(super) use self::ledger::{JobCounts, Ledger};
pub(super) use self::producer::{Producer, ProducerKind};
pub(crate) use self::worker::{SoakWorkerFlags, run as run_worker};
pub(super) use self::workers::Workers;

/// Queue of jobs that one worker runs one after the other, so that their order can be checked.
const ORDERED_QUEUE: &str = "soak-ordered";
const BATCH_QUEUE: &str = "soak-batches";
const CALLBACK_QUEUE: &str = "soak-callbacks";
/// Job type of callbacks of batches. Their argument is the number of the batch.
const CALLBACK_TYPE: &str = "SoakCallback";
const JOB_TYPE: &str = "Soak";
/// Longer than any fault: what takes longer is an error.
const REPLY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

fn queue_of(producer: usize) -> String {
    format!("soak-{producer}")
}

/// The identity of a job: its producer and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobId {
    pub(super) producer: usize,
    pub(super) number: usize,
}

impl JobId {
    pub(super) fn jid(self) -> String {
        format!("soak-{:02}-{:09}", self.producer, self.number)
    }

    pub(super) fn parse(jid: &str) -> Option<Self> {
        let (producer, number) = jid.strip_prefix("soak-")?.split_once('-')?;
        Some(Self { producer: producer.parse().ok()?, number: number.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jids_name_producer_and_number() {
        let id = JobId { producer: 3, number: 70 };
        assert_eq!(id.jid(), "soak-03-000000070");
        assert_eq!(JobId::parse(&id.jid()), Some(id));
        assert_eq!(JobId::parse("it-job-0001"), None);
    }
}

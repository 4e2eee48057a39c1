//! Entries of queues and sets as operators see them.

use weir_base::clock::Timestamp;
use weir_jobs::model::{EntryKey, QueueName, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{ExportedFeatures, JobState, StoredJob};

use super::seconds;
use super::stored::StoredText;
use super::translate;

/// The jobtype that is shown for a payload that is no job.
const MALFORMED: &str = "(malformed)";

/// An entry of a list or a sorted set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawEntry {
    pub(super) payload: Vec<u8>,
    /// The score of an entry of a set.
    pub(super) at: Option<Timestamp>,
    /// Where an entry of a list was read, counted from the end that is served first. Not known: 0.
    pub(super) position: usize,
}

impl RawEntry {
    /// Pairs texts with their scores, as sorted sets return them.
    pub(super) fn with_scores(reply: Vec<(Vec<u8>, String)>) -> Vec<Self> {
        let entry = |(payload, score): (Vec<u8>, String)| {
            let at = seconds::of_value(&score).unwrap_or_default();
            Self { payload, at: Some(at), position: 0 }
        };
        reply.into_iter().map(entry).collect()
    }

    /// An entry of a list.
    pub(super) const fn listed(payload: Vec<u8>, position: usize) -> Self {
        Self { payload, at: None, position }
    }

    /// Returns whether a worker could run it.
    pub(super) fn is_job(&self, bytes_max: usize) -> bool {
        StoredText::parse(&self.payload, bytes_max).is_ok()
    }

    /// Returns the key that identifies the entry. In a queue, its order is when it was enqueued.
    pub(super) fn key(&self) -> EntryKey {
        let text = StoredText::parse(&self.payload, usize::MAX);
        let jid = match &text {
            Ok(text) => text.jid.as_str().into(),
            Err(_) => malformed_jid(&self.payload),
        };
        let enqueued = || text.as_ref().map(StoredText::enqueued_at).unwrap_or_default();
        EntryKey { order: self.at.unwrap_or_else(enqueued).as_micros(), jid }
    }

    /// Returns the job. `state` is where it is, `queue` the queue whose list it is in, if it is.
    pub(super) fn job(
        &self,
        state: JobState,
        queue: Option<&QueueName>,
        limits: &JobServerLimits,
    ) -> StoredJob {
        let key = self.key();
        let at = Timestamp::from_micros(key.order);
        let default = || QueueName::parse(QueueName::DEFAULT, limits).expect("it is a name");
        let Ok(text) = StoredText::parse(&self.payload, usize::MAX) else {
            let shown = String::from_utf8_lossy(&self.payload);
            let json = serde_json::json!({ "malformed": shown }).to_string().into_bytes();
            return StoredJob {
                key,
                state,
                jobtype: MALFORMED.into(),
                queue: queue.cloned().unwrap_or_else(default),
                at,
                retry: 0,
                reserve_for_seconds: 0,
                failure: None,
                json,
                features: ExportedFeatures::default(),
            };
        };
        let named = text.string("queue").and_then(|name| QueueName::parse(&name, limits).ok());
        let queue = queue.cloned().or(named).unwrap_or_else(default);
        let next_at = self.at.filter(|_| state == JobState::In(SetName::Retries));
        StoredJob {
            key,
            state,
            jobtype: text.jobtype.as_str().into(),
            at,
            retry: text.retry(),
            reserve_for_seconds: text.reserve_for_seconds(),
            failure: text.failure(next_at),
            json: translate::to_faktory(&text, queue.as_str(), next_at),
            queue,
            features: ExportedFeatures::default(),
        }
    }
}

fn malformed_jid(payload: &[u8]) -> Box<str> {
    super::stored::derived_jid(payload).into()
}

//! What Weir does for a stored job beside keeping it, as the job's text says: it drops the job when it
//! expires, holds its unique lock, and counts it in its batch.
//!
//! Jobs without features cost nothing here: they have no tag, and their scripts get no further keys.

use serde::Serialize;
use weir_base::clock::Timestamp;
use weir_jobs::batches::batch_of_callback;
use weir_jobs::custom::{BatchId, CustomMembers, UniqueKey, UniqueUntil};
use weir_jobs::job::read_custom;
use weir_jobs::model::QueueName;

use super::stored::StoredText;

/// Texts that only jobs with features have, unless they write names with escapes. For scripts, which do not parse
/// jobs that they delete.
pub(super) const FEATURE_TEXTS: [&str; 3] = ["\"unique_for\"", "\"bid\"", "\"_bid\""];

/// The features of a stored job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredFeatures {
    jid: Box<str>,
    custom: CustomMembers,
    /// The batch whose callback it may be.
    callback: Option<BatchId>,
    /// The lock that its start has freed.
    freed: Option<FreedLock>,
}

/// A lock that a job takes again if it was not delivered after all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FreedLock {
    pub(super) lock: String,
    pub(super) jid: Box<str>,
    pub(super) ends_at: Timestamp,
}

/// What happens to a job with features. `features.lua` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureEvent {
    Succeeded,
    Lost,
    Failed,
    FailedUnlocked,
    Freed,
}

impl FeatureEvent {
    /// Returns the name that the scripts use.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Lost => "lost",
            Self::Failed => "failed",
            Self::FailedUnlocked => "failed-unlocked",
            Self::Freed => "freed",
        }
    }
}

/// What scripts need to know of a job.
#[derive(Serialize)]
struct TagText<'a> {
    jid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    now: &'a str,
}

impl StoredFeatures {
    /// Returns the jid of a job that TRACK knows.
    pub(super) fn tracked_jid(&self) -> Option<&str> {
        self.custom.tracked.then_some(&*self.jid)
    }

    /// Returns the features of a job. `queue` is that of its list, for a text without one.
    pub(super) fn of(text: &StoredText<'_>, queue: &str) -> Option<Box<Self>> {
        let custom = text.value("custom").filter(|custom| custom.starts_with('{'))?;
        let callback = custom.contains("_bid").then(|| batch_of_callback(custom)).flatten();
        let key = || {
            let own = text.string("queue");
            let queue = own.as_deref().unwrap_or(queue);
            UniqueKey::of(&text.jobtype, queue, text.value("args").unwrap_or("[]"))
        };
        // What Weir's own clients push can be read.
        let custom = read_custom(custom, key).ok()?;
        let jid = text.jid.as_str().into();
        let is_empty = custom.is_empty() && callback.is_none();
        (!is_empty).then(|| Box::new(Self { jid, custom, callback, freed: None }))
    }

    /// Like [`StoredFeatures::of`], of a job's text that was not parsed.
    pub(super) fn of_payload(payload: &[u8]) -> Option<Box<Self>> {
        let name = b"\"custom\"";
        payload.windows(name.len()).any(|window| window == name).then_some(())?;
        Self::of(&StoredText::parse(payload, usize::MAX).ok()?, QueueName::DEFAULT)
    }

    /// Returns what scripts need to know, if anything is kept in Redis for the job. `now` is the time in microseconds, or
    /// an empty text for Redis' clock.
    pub(super) fn tag(&self, now: &str) -> Option<String> {
        let (lock, batch) = (self.lock(), self.batch().map(|id| id.to_string()));
        let callback = self.callback.map(|id| id.to_string());
        if lock.is_none() && batch.is_none() && callback.is_none() {
            return None;
        }
        serde_json::to_string(&TagText { jid: &self.jid, lock, batch, callback, now }).ok()
    }

    /// Returns the batch that it belongs to.
    pub(super) fn batch(&self) -> Option<BatchId> {
        self.custom.batch.filter(|id| *id != BatchId::NONE)
    }

    /// Returns the batch whose callback it may be.
    pub(super) const fn callback(&self) -> Option<BatchId> {
        self.callback
    }

    /// Returns the lock that it may hold.
    pub(super) fn lock(&self) -> Option<String> {
        self.custom.unique.map(|rule| rule.key.to_string())
    }

    /// Returns whether its start frees its lock.
    pub(super) fn ends_at_start(&self) -> bool {
        self.custom.unique.is_some_and(|rule| rule.until == UniqueUntil::Start)
    }

    /// Returns whether a fetch drops the job.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.custom.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    /// Notes that its start has freed its lock, which it held until `ends_at`.
    pub(super) fn note_start(&mut self, ends_at: Option<Timestamp>) {
        let (lock, jid) = (self.lock(), self.jid.clone());
        let freed = lock.zip(ends_at);
        self.freed = freed.map(|(lock, ends_at)| FreedLock { lock, jid, ends_at });
        self.custom.unique = None;
    }

    /// Returns the lock that it takes again if it was not delivered.
    pub(super) fn freed_lock(self) -> Option<FreedLock> {
        self.freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(json: &str) -> Option<Box<StoredFeatures>> {
        StoredFeatures::of_payload(json.as_bytes())
    }

    #[test]
    fn only_members_that_weir_obeys_are_features() {
        for json in [
            r#"{"class":"T","jid":"job-00001","args":[]}"#,
            r#"{"class":"T","jid":"job-00001","args":[{"custom":{"unique_for":60}}]}"#,
            r#"{"class":"T","jid":"job-00001","args":[],"custom":{"unique_for":"x"}}"#,
            r#"{"class":"T","jid":"job-00001","args":[],"custom":[{"unique_for":60}]}"#,
            r#"{"args":[],"custom":{"unique_for":60}}"#,
        ] {
            assert_eq!(features(json), None, "{json}");
        }
    }

    #[test]
    fn a_stored_job_has_the_lock_that_its_push_took() {
        let stored = r#"{"class":"T","jid":"job-00001","args":[1, "a"],"queue":"q","custom":{"unique_for":60}}"#;
        let expected = UniqueKey::of("T", "q", "[1,\"a\"]").to_string();
        let features = features(stored).unwrap();
        assert_eq!(features.lock(), Some(expected.clone()));
        let tag = format!(r#"{{"jid":"job-00001","lock":"{expected}"}}"#);
        assert_eq!(features.tag(""), Some(tag));
        assert!(!features.ends_at_start());
    }

    #[test]
    fn a_tag_names_the_batch_of_a_job_and_that_of_a_callback() {
        let bid = "b-0000000000000007";
        let tag = |custom: &str| {
            let json = format!(r#"{{"class":"T","jid":"job-00001","args":[],"custom":{custom}}}"#);
            features(&json).and_then(|features| features.tag("5"))
        };
        let expected = format!(r#"{{"jid":"job-00001","batch":"{bid}","now":"5"}}"#);
        assert_eq!(tag(&format!(r#"{{"bid":"{bid}"}}"#)), Some(expected));
        let expected = format!(r#"{{"jid":"job-00001","callback":"{bid}","now":"5"}}"#);
        assert_eq!(tag(&format!(r#"{{"_bid":"{bid}"}}"#)), Some(expected));
        assert_eq!(tag(r#"{"bid":"check-check"}"#), None, "no batch has this id");
    }

    #[test]
    fn a_job_that_only_expires_has_no_tag() {
        let json = r#"{"class":"T","jid":"job-00001","args":[],"custom":{"expires_at":"2026-11-20T00:00:00Z"}}"#;
        let features = features(json).unwrap();
        assert_eq!(features.tag("7"), None);
        assert!(features.has_expired(Timestamp::from_millis(1_800_000_000_000)));
    }
}

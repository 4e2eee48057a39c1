//! Exposes the parsers of what Redis returns to the fuzz targets. Any client may have written it.

use redis::Value;
use weir_base::clock::Timestamp;
use weir_jobs::model::{FailureState, QueueName};
use weir_jobs::settings::JobServerLimits;

use super::entries::RawEntry;
use super::foreign::StoredReservation;
use super::names;
use super::replies::{QueueReading, popped_jobs};
use super::stored::StoredText;
use super::translate;

/// Members that a step may change. All others pass it as they are.
const CHANGED: [&str; 6] = ["jid", "at", "enqueued_at", "created_at", "queue", "failure"];

/// A stored job in all its forms.
#[derive(Clone, Debug)]
pub struct ParsedPayload {
    /// What a worker receives.
    pub delivered: Vec<u8>,
    /// What is stored when it enters its queue again.
    pub enqueued: Vec<u8>,
    /// What is stored when it has failed.
    pub failed: Vec<u8>,
}

/// Parses a payload and translates it. `None`: it is no job.
#[must_use]
pub fn payload(bytes: &[u8]) -> Option<ParsedPayload> {
    let text = StoredText::parse(bytes, usize::MAX).ok()?;
    let now = Timestamp::from_micros(1_795_202_902_000_001);
    let failure = FailureState { failed_at: now, ..FailureState::default() };
    Some(ParsedPayload {
        delivered: translate::to_faktory(&text, "q", Some(now)),
        enqueued: translate::enqueued(&text, now),
        failed: translate::failed(&text, &failure),
    })
}

/// Returns the members without a meaning to Weir, as they are written and in their order.
#[must_use]
pub fn unknown_members(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let text = StoredText::parse(bytes, usize::MAX).ok()?;
    let is_unknown = |name: &str| {
        !CHANGED.contains(&name)
            && !names::OF_SIDEKIQ.contains(&name)
            && names::to_sidekiq(name).is_none()
            && names::to_faktory(name).is_none()
    };
    let members = text.members.iter().filter(|member| is_unknown(&member.name));
    Some(members.map(|it| (it.name.to_string(), it.value.to_owned())).collect())
}

/// Parses an entry of a list or a set as the console shows it. Returns the JSON that is shown.
#[must_use]
pub fn shown(bytes: &[u8]) -> Vec<u8> {
    let entry = RawEntry::listed(bytes.to_vec(), 0);
    let limits = JobServerLimits::default();
    let queue = QueueName::parse("q", &limits).ok();
    entry.job(weir_jobs::store::JobState::Enqueued, queue.as_ref(), &limits).json
}

/// Parses a field of a queue's reservations and its value. Returns the payload.
#[must_use]
pub fn reservation(field: &str, value: &[u8]) -> Option<Vec<u8>> {
    let queue = QueueName::parse("q", &JobServerLimits::default()).ok()?;
    StoredReservation::parse(field, value, &queue).map(|it| it.job.payload)
}

/// Parses bytes as Redis sends them, as the replies to all scripts. Returns the number of jobs.
#[must_use]
pub fn reply(bytes: &[u8]) -> Option<usize> {
    let Ok(Value::Array(values)) = redis::parse_redis_value(bytes) else { return None };
    drop(QueueReading::all_of(&values, values.len()));
    drop(QueueReading::rates_of(&values, 0));
    Some(popped_jobs(values).jobs.len())
}

//! Changes a job's text between Faktory's form, which producers and workers use, and Sidekiq's,
//! which is stored.
//!
//! Members without a meaning to either pass unchanged, byte for byte and in their order.

#[cfg(test)]
mod tests;

use weir_base::clock::Timestamp;
use weir_jobs::job_text;
use weir_jobs::model::{FailureState, NewJob};

use super::backtrace;
use super::members::{self, MemberEdit, RawMember};
use super::names;
use super::seconds;
use super::stored::StoredText;

/// Retries that Sidekiq writes as `true`.
const RETRY_DEFAULT: i32 = 25;

/// Returns the text to store for a pushed job. `enqueued_at` is `None` for a job in a set.
pub(super) fn to_sidekiq(job: &NewJob<'_>, enqueued_at: Option<Timestamp>) -> Vec<u8> {
    let json = std::str::from_utf8(job.json).unwrap_or_default();
    // The server has parsed the same text before.
    let members = members::split(json).unwrap_or_default();
    let edit = |member: &RawMember<'_>| match &*member.name {
        "jobtype" => MemberEdit::Rename("class".to_owned()),
        "at" | "failure" | "enqueued_at" => MemberEdit::Drop,
        "created_at" => time_edit(member.value, seconds::text),
        "retry" => MemberEdit::Replace(retry_value(job.retry)),
        name => names::to_sidekiq(name).map_or(MemberEdit::Keep, MemberEdit::Rename),
    };
    let failure = members.iter().find(|member| member.name == "failure");
    let failure = failure.and_then(|member| job_text::parse_failure(member.value));
    let mut added = failure.map(|failure| failure_members(&failure, None)).unwrap_or_default();
    added.extend(enqueued_at.map(enqueued_at_member));
    members::write(json, &members, edit, &added)
}

/// Returns the text of a stored job that enters its queue now.
pub(super) fn enqueued(job: &StoredText<'_>, now: Timestamp) -> Vec<u8> {
    let edit = |member: &RawMember<'_>| match &*member.name {
        "at" | "enqueued_at" => MemberEdit::Drop,
        _ => MemberEdit::Keep,
    };
    members::write(job.text, &job.members, edit, &[enqueued_at_member(now)])
}

/// Returns the text of a stored job that enters another queue now.
pub(super) fn in_queue(job: &StoredText<'_>, queue: &str, now: Timestamp) -> Vec<u8> {
    let edit = |member: &RawMember<'_>| match &*member.name {
        "at" | "enqueued_at" | "queue" => MemberEdit::Drop,
        _ => MemberEdit::Keep,
    };
    let added = [format!("\"queue\":\"{queue}\""), enqueued_at_member(now)];
    members::write(job.text, &job.members, edit, &added)
}

/// Returns the text of a stored job that failed, as Sidekiq writes it to the retry set.
pub(super) fn failed(job: &StoredText<'_>, failure: &FailureState) -> Vec<u8> {
    let first = job.value(names::FAILED_AT).filter(|_| failure.retry_count > 0);
    let retry_queue = job.string("retry_queue").and_then(|_| job.value("retry_queue"));
    let edit = |member: &RawMember<'_>| match &*member.name {
        name if name != "class" && names::OF_SIDEKIQ.contains(&name) => MemberEdit::Drop,
        "queue" => {
            retry_queue.map_or(MemberEdit::Keep, |queue| MemberEdit::Replace(queue.to_owned()))
        }
        _ => MemberEdit::Keep,
    };
    members::write(job.text, &job.members, edit, &failure_members(failure, first))
}

/// Returns the text that a worker of `queue` receives.
pub(super) fn to_faktory(job: &StoredText<'_>, queue: &str, next_at: Option<Timestamp>) -> Vec<u8> {
    let edit = |member: &RawMember<'_>| match &*member.name {
        "class" => MemberEdit::Rename("jobtype".to_owned()),
        "at" => MemberEdit::Drop,
        "jid" if !job.has_jid => MemberEdit::Drop,
        "queue" if job.string("queue").as_deref() != Some(queue) => {
            MemberEdit::Replace(format!("\"{queue}\""))
        }
        "created_at" | "enqueued_at" => {
            time_edit(member.value, |time| format!("\"{}\"", weir_jobs::stamp::rfc3339(time)))
        }
        "retry" => MemberEdit::Replace(job.retry().to_string()),
        "backtrace" if member.value.parse::<u32>().is_err() => {
            MemberEdit::Replace(job.backtrace_lines().to_string())
        }
        name if names::OF_SIDEKIQ.contains(&name) => MemberEdit::Drop,
        name => names::to_faktory(name).map_or(MemberEdit::Keep, MemberEdit::Rename),
    };
    let mut text = members::write(job.text, &job.members, edit, &missing_members(job, queue));
    if let Some(failure) = job.failure(next_at) {
        // A closing brace is the whole tail.
        let base_bytes = text.len() - 1;
        text = job_text::failed(&text, base_bytes, &failure);
    }
    text
}

/// Members that every Faktory job has.
fn missing_members(job: &StoredText<'_>, queue: &str) -> Vec<String> {
    let is_missing = |name: &str| job.members.iter().all(|member| member.name != name);
    let mut added = Vec::new();
    if !job.has_jid {
        added.push(format!("\"jid\":\"{}\"", job.jid));
    }
    if is_missing("args") {
        added.push("\"args\":[]".to_owned());
    }
    if is_missing("queue") {
        added.push(format!("\"queue\":\"{queue}\""));
    }
    added
}

/// Replaces a time by its other form. Keeps a value that is no time: the owner may know it.
fn time_edit(value: &str, write: impl Fn(Timestamp) -> String) -> MemberEdit {
    let time = seconds::of_value(value);
    time.map_or(MemberEdit::Keep, |time| MemberEdit::Replace(write(time)))
}

/// Faktory discards a failed job with 0 retries and sends it to the dead set with a negative
/// number; Sidekiq writes these as `false` and 0.
fn retry_value(retry: i32) -> String {
    match retry {
        RETRY_DEFAULT => "true".to_owned(),
        0 => "false".to_owned(),
        ..0 => "0".to_owned(),
        retries => retries.to_string(),
    }
}

fn enqueued_at_member(time: Timestamp) -> String {
    format!("\"enqueued_at\":{}", seconds::text(time))
}

/// Returns the members in which Sidekiq stores a failure. `first_failed_at` is the raw time of the
/// job's first failure.
fn failure_members(failure: &FailureState, first_failed_at: Option<&str>) -> Vec<String> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let now = seconds::text(failure.failed_at);
    let member = |name: &str, value: &str| format!("\"{name}\":{value}");
    let mut added = vec![
        member(names::RETRY_COUNT, &failure.retry_count.to_string()),
        member(names::FAILED_AT, first_failed_at.unwrap_or(&now)),
        member(names::ERROR_CLASS, &text(&failure.errtype)),
        member(names::ERROR_MESSAGE, &text(&failure.message)),
    ];
    if failure.retry_count > 0 {
        added.push(member(names::RETRIED_AT, &now));
    }
    if !failure.backtrace.is_empty() {
        let packed = text(&backtrace::pack(&failure.backtrace));
        added.push(member(names::ERROR_BACKTRACE, &packed));
    }
    added
}

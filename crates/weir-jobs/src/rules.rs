//! Decides how a failure ends. Pure functions: the caller supplies time and randomness, so normal
//! operation, recovery and tests reach the same decisions.
//!
//! The constants are those of the Faktory protocol. Clients rely on them, so they are not settings.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::model::{FailureCause, FailureReport, FailureState, Wid, WorkerEnd, WorkerKills};
use crate::store::FailOutcome;

/// Maximum length of a failure's type, in characters.
pub const ERRTYPE_CHARACTERS_MAX: usize = 100;
/// Maximum length of a failure's message, in characters.
pub const MESSAGE_CHARACTERS_MAX: usize = 1_000;
/// Maximum number of lines of a backtrace, however many a job requests.
pub const BACKTRACE_LINES_MAX: u32 = 50;
/// Maximum length of one line of a backtrace, in characters. The protocol has no such limit, but
/// without one a failure could make a job longer than any line that a client reads.
pub const BACKTRACE_LINE_CHARACTERS_MAX: usize = 1_000;

/// Delay of the first retry without jitter, in seconds.
const RETRY_SECONDS_MIN: u64 = 15;
/// Upper limit (exclusive) of the jitter, in seconds per retry.
const RETRY_JITTER_SECONDS: u64 = 30;

/// The data of a failed job that the rules need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedJob {
    /// As in [`crate::model::NewJob::retry`].
    pub retry: i32,
    /// Lines of backtrace that the job requests.
    pub backtrace: u32,
    /// The failure before this one.
    pub previous: Option<FailureState>,
    pub cause: FailureCause,
}

/// Decides the outcome of a job that failed `now`. Returns it with the failure to store in its
/// JSON.
pub fn fail(
    job: &FailedJob,
    report: FailureReport,
    now: Timestamp,
    random: &mut fastrand::Rng,
) -> (FailOutcome, FailureState) {
    let retry_count = job.previous.as_ref().map_or(0, |last| last.retry_count.saturating_add(1));
    let outcome = match u32::try_from(job.retry) {
        _ if job.cause == FailureCause::WorkerKilled => FailOutcome::Dead,
        Ok(0) => FailOutcome::Discarded,
        _ if report.is_final => FailOutcome::Dead,
        Ok(retries) if retry_count < retries => {
            FailOutcome::Retry { next_at: now + retry_delay(retry_count, random) }
        }
        // No retries left, or any negative number, which Faktory treats like -1: dead set.
        _ => FailOutcome::Dead,
    };
    let next_at = match outcome {
        FailOutcome::Retry { next_at } => Some(next_at),
        FailOutcome::Dead | FailOutcome::Discarded => None,
    };
    let retries = match job.cause {
        FailureCause::Run => u32::try_from(job.retry).unwrap_or(0),
        FailureCause::WorkerKilled => 0,
    };
    let remaining = retries.saturating_sub(retry_count);
    let FailureReport { errtype, message, backtrace, .. } = cut(report, job.backtrace);
    let failure = FailureState {
        retry_count,
        remaining,
        failed_at: now,
        next_at,
        message,
        errtype,
        backtrace,
    };
    (outcome, failure)
}

/// Returns the delay of a retry: n^4 + 15 + rand(30) * (n + 1) seconds, where n is `retry_count`.
pub fn retry_delay(retry_count: u32, random: &mut fastrand::Rng) -> Duration {
    let n = u64::from(retry_count);
    let jitter = random.u64(..RETRY_JITTER_SECONDS) * (n + 1);
    Duration::from_secs(n.saturating_pow(4).saturating_add(RETRY_SECONDS_MIN + jitter))
}

/// Truncates a report to the limits above; `backtrace_lines` is the number that the job requests.
#[must_use]
pub fn cut(mut report: FailureReport, backtrace_lines: u32) -> FailureReport {
    cut_text(&mut report.errtype, ERRTYPE_CHARACTERS_MAX);
    cut_text(&mut report.message, MESSAGE_CHARACTERS_MAX);
    report.backtrace.truncate(backtrace_lines.min(BACKTRACE_LINES_MAX) as usize);
    for line in &mut report.backtrace {
        cut_text(line, BACKTRACE_LINE_CHARACTERS_MAX);
    }
    report
}

fn cut_text(text: &mut String, characters_max: usize) {
    if let Some((end, _)) = text.char_indices().nth(characters_max) {
        text.truncate(end);
    }
}

/// Returns the failure of a job whose reservation expired.
#[must_use]
pub fn reservation_expired(jid: Box<str>) -> FailureReport {
    FailureReport {
        jid,
        errtype: "ReservationExpired".to_owned(),
        message: "not acknowledged within its reserve_for".to_owned(),
        backtrace: Vec::new(),
        is_final: false,
    }
}

/// Returns whether a report of `reporter` ends the reservation of `holder`. A worker that was given up
/// may report after the same job was delivered to another one, whose run goes on. `None`: a connection
/// that named no worker.
#[must_use]
pub fn may_end(holder: Option<&Wid>, reporter: Option<&Wid>) -> bool {
    holder.is_none() || reporter.is_none() || holder == reporter
}

/// Kills count together within this time. A job that lost its workers further apart is not suspected to be the cause.
pub const KILLS_AGE_MAX: Duration = Duration::from_secs(72 * 3_600);

/// What happens to a job whose worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The job returns to its position in its queue. `Some`: with one more kill.
    Waits(Option<WorkerKills>),
    /// The job has killed too many workers and is dead, by [`worker_killed`].
    Dies { times: u8 },
}

/// Decides by how often the job has killed its worker before. `returns_max` = 0: no job dies of it.
#[must_use]
pub fn after_worker_end(
    end: WorkerEnd,
    before: Option<WorkerKills>,
    returns_max: u8,
    now: Timestamp,
) -> Return {
    if end == WorkerEnd::Stopped {
        return Return::Waits(before);
    }
    let recent = before.filter(|kills| now.since(kills.since) <= KILLS_AGE_MAX);
    let kills = WorkerKills {
        times: recent.map_or(1, |kills| kills.times.saturating_add(1)),
        since: recent.map_or(now, |kills| kills.since),
    };
    if returns_max > 0 && kills.times >= returns_max {
        return Return::Dies { times: kills.times };
    }
    Return::Waits(Some(kills))
}

/// Returns the failure of a job that has killed its worker too often.
#[must_use]
pub fn worker_killed(jid: Box<str>, times: u8) -> FailureReport {
    let workers = if times == 1 { "worker" } else { "workers" };
    FailureReport {
        jid,
        errtype: "WorkerKilled".to_owned(),
        message: format!(
            "{times} {workers} died while running it (jobs.limits.advanced.returns_max)"
        ),
        backtrace: Vec::new(),
        is_final: false,
    }
}

/// Jobs that are rescheduled to one time are spread over so many microseconds.
pub const SPREAD_MICROS: u64 = 1_000_000;

/// Returns when a job is due that is rescheduled to `at`: within the second from then on, by its jid, so that jobs that
/// are rescheduled together are not all due at one moment, and that a second time changes nothing.
#[must_use]
pub fn spread(at: Timestamp, jid: &str) -> Timestamp {
    // FNV-1a: the same in every process.
    let hash = jid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Timestamp::from_micros(at.as_micros().saturating_add(hash % SPREAD_MICROS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn report() -> FailureReport {
        FailureReport {
            jid: Box::from("12345678"),
            errtype: "E".to_owned(),
            message: "m".to_owned(),
            backtrace: vec!["a".to_owned(), "b".to_owned()],
            is_final: false,
        }
    }

    fn after(previous_count: Option<u32>, retry: i32) -> (FailOutcome, FailureState) {
        let previous = previous_count
            .map(|retry_count| FailureState { retry_count, ..FailureState::default() });
        let job = FailedJob { retry, backtrace: 50, previous, cause: FailureCause::Run };
        fail(&job, report(), NOW, &mut fastrand::Rng::with_seed(1))
    }

    #[derive(Debug, PartialEq)]
    enum Kind {
        Retry,
        Dead,
        Discarded,
    }

    #[test]
    fn retries_decrease_one_by_one() {
        let check = |previous: Option<u32>, retry: i32, kind: Kind, count: u32, remaining: u32| {
            let (outcome, failure) = after(previous, retry);
            let found = match outcome {
                FailOutcome::Retry { next_at } => {
                    assert_eq!(failure.next_at, Some(next_at));
                    Kind::Retry
                }
                FailOutcome::Dead => Kind::Dead,
                FailOutcome::Discarded => Kind::Discarded,
            };
            assert_eq!((found, failure.retry_count, failure.remaining), (kind, count, remaining));
            assert_eq!(failure.next_at.is_some(), matches!(outcome, FailOutcome::Retry { .. }));
            assert_eq!(failure.failed_at, NOW);
        };
        check(None, 25, Kind::Retry, 0, 25);
        check(Some(0), 25, Kind::Retry, 1, 24);
        check(Some(23), 25, Kind::Retry, 24, 1);
        check(Some(24), 25, Kind::Dead, 25, 0);
        check(Some(99), 25, Kind::Dead, 100, 0);
        check(None, 1, Kind::Retry, 0, 1);
        check(Some(0), 1, Kind::Dead, 1, 0);
        check(None, 0, Kind::Discarded, 0, 0);
        check(Some(3), 0, Kind::Discarded, 4, 0);
        check(None, -1, Kind::Dead, 0, 0);
        check(None, i32::MIN, Kind::Dead, 0, 0);
        check(Some(u32::MAX), i32::MAX, Kind::Dead, u32::MAX, 0);
    }

    #[test]
    fn retry_delay_follows_the_formula() {
        let check = |count: u32, base: u64| {
            let mut random = fastrand::Rng::with_seed(u64::from(count));
            let step = u64::from(count) + 1;
            let delays: std::collections::BTreeSet<u64> =
                (0..2_000).map(|_| retry_delay(count, &mut random).as_secs()).collect();
            let all: std::collections::BTreeSet<u64> = (0..30).map(|j| base + j * step).collect();
            assert_eq!(delays, all, "after {count} retries");
        };
        check(0, 15);
        check(1, 16);
        check(2, 31);
        check(24, 331_791);
    }

    #[test]
    fn retry_delay_does_not_overflow() {
        let delay = retry_delay(u32::MAX, &mut fastrand::Rng::with_seed(1));
        assert!(NOW + delay > NOW);
    }

    #[test]
    fn reports_are_truncated_by_characters() {
        let long = FailureReport {
            errtype: "ä".repeat(101),
            message: "\u{1F600}".repeat(1_001),
            backtrace: vec!["ß".repeat(1_001); 60],
            ..report()
        };
        let check = |lines: u32, kept: usize| {
            let cut = cut(long.clone(), lines);
            assert_eq!(cut.errtype, "ä".repeat(100));
            assert_eq!(cut.message, "\u{1F600}".repeat(1_000));
            assert_eq!(cut.backtrace, vec!["ß".repeat(1_000); kept]);
        };
        check(50, 50);
        check(51, 50);
        check(3, 3);
        assert_eq!(cut(report(), 50), report());
    }

    #[test]
    fn failure_contains_the_report() {
        let (_, failure) = after(None, 25);
        assert_eq!((failure.errtype.as_str(), failure.message.as_str()), ("E", "m"));
        assert_eq!(failure.backtrace, ["a", "b"]);
    }

    #[test]
    fn the_last_kill_is_the_death() {
        let at = |hours: u64| NOW + Duration::from_secs(hours * 3_600);
        let kills = |times, since| Some(WorkerKills { times, since });
        let check = |before, max: u8, now, expected: Return| {
            assert_eq!(after_worker_end(WorkerEnd::Killed, before, max, now), expected);
        };
        check(None, 3, at(0), Return::Waits(kills(1, at(0))));
        check(kills(1, at(0)), 3, at(72), Return::Waits(kills(2, at(0))));
        check(kills(2, at(0)), 3, at(72), Return::Dies { times: 3 });
        check(kills(2, at(0)), 3, at(73), Return::Waits(kills(1, at(73))));
        check(None, 1, at(0), Return::Dies { times: 1 });
        check(kills(u8::MAX, at(0)), 0, at(1), Return::Waits(kills(u8::MAX, at(0))));
        let stopped = after_worker_end(WorkerEnd::Stopped, kills(2, at(0)), 3, at(1));
        assert_eq!(stopped, Return::Waits(kills(2, at(0))), "a stop counts for nothing");
    }

    #[test]
    fn a_job_that_killed_its_workers_is_dead_whatever_its_retries() {
        for retry in [25, 0, -1] {
            let cause = FailureCause::WorkerKilled;
            let job = FailedJob { retry, backtrace: 50, previous: None, cause };
            let report = worker_killed("12345678".into(), 3);
            let (outcome, failure) = fail(&job, report, NOW, &mut fastrand::Rng::with_seed(1));
            assert_eq!((outcome, failure.remaining, failure.next_at), (FailOutcome::Dead, 0, None));
            assert_eq!(failure.errtype, "WorkerKilled");
            assert!(failure.message.starts_with("3 workers died"), "{}", failure.message);
        }
    }
}

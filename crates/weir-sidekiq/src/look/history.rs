//! Reads Sidekiq's counts of earlier days and minutes.

use std::time::Duration;

use weir_advisor::observation::{ClassHistory, ClassRuns, DayCounts};
use weir_base::clock::Timestamp;

use crate::error::SidekiqError;
use crate::history::{self, DAYS, EARLIER_BEFORE, PERIOD_MINUTES};
use crate::keys;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::{ProcessSample, Read};

use super::SnapshotReader;

const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);
/// The first version of Sidekiq that counts runs by class.
const VERSION_WITH_CLASSES: u32 = 7;

impl SnapshotReader<'_> {
    /// Returns the counts of the last days, today first.
    pub(super) async fn days(
        &mut self,
        now: Timestamp,
    ) -> Result<Read<Vec<DayCounts>>, SidekiqError> {
        let dates: Vec<String> = (0..DAYS).filter_map(|back| date(now, back)).collect();
        let of = |count| dates.iter().map(move |date| keys::of_day(count, date));
        let keys: Vec<String> = of(keys::PROCESSED).chain(of(keys::FAILED)).collect();
        let words: Vec<&str> = keys.iter().map(String::as_str).collect();
        let answer = self.query_one(Question::new(ReadCommand::Values, &words)).await?;
        let counts = answer.and_then(RedisReply::read::<Vec<Option<String>>>);
        Ok(counts.map(|counts| {
            let number = |at: usize| counts.get(at)?.as_ref()?.parse::<u64>().ok();
            let days = dates.iter().enumerate().map(|(at, date)| DayCounts {
                date: date.clone(),
                passed: if at == 0 { passed_of_day(now) } else { DAY },
                processed: number(at).unwrap_or_default(),
                failed: number(dates.len() + at).unwrap_or_default(),
            });
            days.collect()
        }))
    }

    /// Returns the runs by class, if a process has a version that counts them.
    pub(super) async fn classes(
        &mut self,
        now: Timestamp,
        processes: &Read<Vec<ProcessSample>>,
    ) -> Result<Option<Read<ClassHistory>>, SidekiqError> {
        if !processes.iter().flatten().any(counts_classes) {
            return Ok(None);
        }
        let recent = self.period(now, Duration::ZERO).await?;
        let earlier = self.period(now, EARLIER_BEFORE).await?;
        let period = MINUTE * u32::try_from(PERIOD_MINUTES).unwrap_or(u32::MAX);
        Ok(Some(recent.and_then(|recent| {
            Ok(ClassHistory {
                period,
                earlier_ended_before: EARLIER_BEFORE,
                recent,
                earlier: earlier?,
            })
        })))
    }

    /// Returns the runs of the minutes that ended `before` the sample.
    async fn period(
        &mut self,
        now: Timestamp,
        before: Duration,
    ) -> Result<Read<ClassRuns>, SidekiqError> {
        let keys = (0..PERIOD_MINUTES).flat_map(|minute| {
            let back = before.saturating_add(MINUTE * u32::try_from(minute).unwrap_or(u32::MAX));
            minute_keys(earlier(now, back))
        });
        let questions: Vec<_> = keys.map(|key| Question::new(ReadCommand::Hash, &[&key])).collect();
        Ok(history::runs(self.query(&questions).await?))
    }
}

/// Version 6 reports none, and does not count runs by class.
fn counts_classes(process: &ProcessSample) -> bool {
    let major = process.version.as_deref().and_then(|it| it.split('.').next());
    major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|it| it >= VERSION_WITH_CLASSES)
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(micros))
}

/// Returns the day in UTC, so many days before `now`.
fn date(now: Timestamp, days_back: u64) -> Option<String> {
    let by = DAY * u32::try_from(days_back).ok()?;
    weir_jobs::stamp::rfc3339(earlier(now, by)).get(..10).map(str::to_owned)
}

fn passed_of_day(now: Timestamp) -> Duration {
    Duration::from_millis(now.as_millis() % 86_400_000)
}

/// Returns the keys of a minute: version 7 has no leading zero where version 8 has one.
fn minute_keys(time: Timestamp) -> Vec<String> {
    let text = weir_jobs::stamp::rfc3339(time);
    let digits = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let (year, month, day) = (digits(0, 4), digits(5, 7), digits(8, 10));
    let plain = |from, to| digits(from, to).strip_prefix('0').unwrap_or(digits(from, to));
    let (hour, minute) = (plain(11, 13), digits(14, 16));
    let mut minutes = vec![plain(14, 16)];
    if minutes[0] != minute {
        minutes.push(minute);
    }
    minutes.into_iter().map(|minute| format!("j|{year}{month}{day}|{hour}:{minute}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_both_layouts() {
        // 2025-11-22T07:05:00Z.
        let time = Timestamp::from_millis(1_763_795_100_000);
        assert_eq!(minute_keys(time), ["j|20251122|7:5", "j|20251122|7:05"]);
        assert_eq!(minute_keys(earlier(time, MINUTE * 10)), ["j|20251122|6:55"]);
        let days: Vec<_> = (0..2).filter_map(|back| date(time, back)).collect();
        assert_eq!(days, ["2025-11-22", "2025-11-21"]);
        assert_eq!(passed_of_day(time), Duration::from_secs(7 * 3_600 + 300));
    }

    #[test]
    fn only_versions_that_count_classes_are_asked() {
        let process = |version: Option<&str>| ProcessSample {
            version: version.map(str::to_owned),
            ..ProcessSample::default()
        };
        for (version, expected) in
            [(None, false), (Some("6.5.12"), false), (Some("7.0.0"), true), (Some("8.1.7"), true)]
        {
            assert_eq!(counts_classes(&process(version)), expected, "{version:?}");
        }
    }
}

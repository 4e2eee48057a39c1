//! A schedule in the five fields of cron, in a time zone.
//!
//! A local time that does not exist because clocks are set forward counts as the first moment after
//! the change. A local time that exists twice because clocks are set back counts once, the first
//! time; in a schedule of every hour (`*`) it counts both times.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp as Instant, ToSpan as _};
use weir_base::clock::Timestamp;

/// Days that are searched for the next time: a 29 February may be eight years away.
const DAYS_SEARCHED: i64 = 8 * 366 + 31;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When a cron job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    text: String,
    minutes: FieldSet,
    hours: FieldSet,
    days: FieldSet,
    months: FieldSet,
    weekdays: FieldSet,
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("a schedule has five fields: minute, hour, day of month, month, day of week")]
    Fields,
    #[error(
        "{field}: {text:?} is not {range}, *, a range or a list of these, with an optional step"
    )]
    Field { field: &'static str, text: String, range: String },
    #[error("it never comes: no such day in these months")]
    Never,
}

/// The values of one field, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldSet {
    bits: u64,
    /// Whether the field begins with `*`.
    is_any: bool,
}

impl FieldSet {
    const fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }

    fn values(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |value| self.has(*value))
    }
}

/// What a field may contain.
struct FieldRule {
    name: &'static str,
    range: RangeInclusive<u32>,
    /// Names of the values from the first of the range on.
    names: &'static [&'static str],
}

const MINUTE: FieldRule = FieldRule { name: "minute", range: 0..=59, names: &[] };
const HOUR: FieldRule = FieldRule { name: "hour", range: 0..=23, names: &[] };
const DAY: FieldRule = FieldRule { name: "day of month", range: 1..=31, names: &[] };
const MONTH: FieldRule = FieldRule { name: "month", range: 1..=12, names: &MONTHS };
/// 7 is Sunday as well.
const WEEKDAY: FieldRule = FieldRule { name: "day of week", range: 0..=7, names: &WEEKDAYS };

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(ScheduleError::Fields);
        };
        let mut weekdays = parse_field(weekday, &WEEKDAY)?;
        weekdays.bits |= weekdays.bits >> 7 & 1;
        let schedule = Self {
            text: fields.join(" "),
            minutes: parse_field(minute, &MINUTE)?,
            hours: parse_field(hour, &HOUR)?,
            days: parse_field(day, &DAY)?,
            months: parse_field(month, &MONTH)?,
            weekdays,
        };
        let comes = schedule.next_after(Timestamp::default(), &TimeZone::UTC).is_some();
        if comes { Ok(schedule) } else { Err(ScheduleError::Never) }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn parse_field(text: &str, rule: &FieldRule) -> Result<FieldSet, ScheduleError> {
    let mut bits = text.split(',').map(|part| parse_part(part, rule));
    let bits = bits.try_fold(0, |bits, part| Some(bits | part?));
    let wrong = || ScheduleError::Field {
        field: rule.name,
        text: text.to_owned(),
        range: format!("{} to {}", rule.range.start(), rule.range.end()),
    };
    bits.map(|bits| FieldSet { bits, is_any: text.starts_with('*') }).ok_or_else(wrong)
}

fn parse_part(text: &str, rule: &FieldRule) -> Option<u64> {
    let (values, step) = match text.split_once('/') {
        Some((values, step)) => (values, Some(parse_number(step).filter(|step| *step > 0)?)),
        None => (text, None),
    };
    let (first, last) = match values.split_once('-') {
        _ if values == "*" => (*rule.range.start(), *rule.range.end()),
        Some((first, last)) => (parse_value(first, rule)?, parse_value(last, rule)?),
        // As in `5/15`: from 5 on.
        None if step.is_some() => (parse_value(values, rule)?, *rule.range.end()),
        None => {
            let value = parse_value(values, rule)?;
            (value, value)
        }
    };
    let step = usize::try_from(step.unwrap_or(1)).ok()?;
    (first <= last).then(|| (first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value))
}

fn parse_value(text: &str, rule: &FieldRule) -> Option<u32> {
    let named = rule.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + rule.range.start());
    named.or_else(|| parse_number(text)).filter(|value| rule.range.contains(value))
}

fn parse_number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

impl Schedule {
    /// Returns the first time after `after` that the schedule names in `zone`. `None`: there is none
    /// in eight years.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let after = to_instant(after)?;
        let today = zone.to_datetime(after).date();
        // A day of a zone that changes its date may overlap with the next one.
        let mut found: Option<Instant> = None;
        for offset in -1..DAYS_SEARCHED {
            let date = today.checked_add(offset.days()).ok()?;
            let is_last = found.is_some();
            let first = self.first_of_day(date, after, zone);
            found = [found, first].into_iter().flatten().min();
            if is_last {
                break;
            }
        }
        to_timestamp(found?)
    }

    /// Returns the last time up to `until` but after `after`.
    #[must_use]
    pub fn last_between(
        &self,
        after: Timestamp,
        until: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        let mut from = self.shortly_before(after, until, zone);
        let mut last = None;
        while let Some(next) = self.next_after(from, zone).filter(|next| *next <= until) {
            last = Some(next);
            from = next;
        }
        last
    }

    /// Returns a time from `after` on, after which only the last times up to `until` are left, so that
    /// years of missed minutes need no walk.
    fn shortly_before(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Timestamp {
        let mut span = Duration::from_secs(60);
        while until.since(after) > span {
            let from = until - span;
            if self.next_after(from, zone).is_some_and(|next| next <= until) {
                return from;
            }
            span *= 2;
        }
        after
    }

    fn first_of_day(&self, date: Date, after: Instant, zone: &TimeZone) -> Option<Instant> {
        if !self.has_day(date) {
            return None;
        }
        let times = self
            .hours
            .values()
            .flat_map(|hour| self.minutes.values().map(move |minute| (hour, minute)));
        let mut first: Option<Instant> = None;
        for (hour, minute) in times {
            let (hour, minute) = (i8::try_from(hour).ok()?, i8::try_from(minute).ok()?);
            let instants = self.instants(date.at(hour, minute, 0, 0), zone);
            let next = instants.into_iter().flatten().filter(|instant| *instant > after).min();
            if next.is_some() {
                first = [first, next].into_iter().flatten().min();
                // Later local times are at most as early as the second occurrence of this one.
                if instants[1].is_none() {
                    break;
                }
            }
        }
        first
    }

    /// If both the day of the month and that of the week are restricted, either is enough.
    fn has_day(&self, date: Date) -> bool {
        let number = |value: i8| u32::from(value.unsigned_abs());
        let by_day = self.days.has(number(date.day()));
        let by_weekday = self.weekdays.has(number(date.weekday().to_sunday_zero_offset()));
        let is_either = !self.days.is_any && !self.weekdays.is_any;
        self.months.has(number(date.month()))
            && if is_either { by_day || by_weekday } else { by_day && by_weekday }
    }

    fn instants(&self, time: DateTime, zone: &TimeZone) -> [Option<Instant>; 2] {
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(time).ok();
        match zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => [at(offset), None],
            AmbiguousOffset::Gap { before, .. } => {
                [at(before).map(|at| end_of_gap(at, zone)), None]
            }
            AmbiguousOffset::Fold { before, after } => {
                let is_hourly = self.hours.values().count() == 24;
                [at(before), at(after).filter(|_| is_hourly)]
            }
        }
    }
}

/// Returns the change of clocks at or before `at`.
fn end_of_gap(at: Instant, zone: &TimeZone) -> Instant {
    let behind = at.checked_add(SignedDuration::from_secs(1)).unwrap_or(at);
    zone.preceding(behind).next().map_or(at, |change| change.timestamp())
}

fn to_instant(time: Timestamp) -> Option<Instant> {
    i64::try_from(time.as_micros()).ok().and_then(|micros| Instant::from_microsecond(micros).ok())
}

fn to_timestamp(instant: Instant) -> Option<Timestamp> {
    u64::try_from(instant.as_microsecond()).ok().map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp;
    use proptest::prelude::*;

    fn schedule(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    /// The rules of a time zone, so that the tests need no database.
    fn zone(name: &str) -> TimeZone {
        let rules = match name {
            "UTC" => return TimeZone::UTC,
            "Europe/Berlin" => "CET-1CEST,M3.5.0,M10.5.0/3",
            "America/New_York" => "EST5EDT,M3.2.0,M11.1.0",
            "Australia/Lord_Howe" => "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
            "Asia/Kolkata" => "IST-5:30",
            "America/Santiago" => "<-04>4<-03>,M9.1.6/24,M4.1.6/24",
            other => panic!("{other}"),
        };
        TimeZone::posix(rules).expect("valid rules")
    }

    /// The times after `from`, in UTC without seconds.
    fn times(text: &str, zone_name: &str, from: &str, count: usize) -> Vec<String> {
        let (schedule, zone) = (schedule(text), zone(zone_name));
        let mut after = stamp::parse(from).unwrap();
        let next = |_| {
            after = schedule.next_after(after, &zone).unwrap();
            stamp::rfc3339(after)[..16].to_owned()
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn fields_choose_times() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(
                times(text, "UTC", "2026-11-28T10:07:00Z", expected.len()),
                expected,
                "{text}"
            );
        };
        check("* * * * *", &["2026-11-28T10:08", "2026-11-28T10:09"]);
        check(
            "*/15 * * * *",
            &["2026-11-28T10:15", "2026-11-28T10:30", "2026-11-28T10:45", "2026-11-28T11:00"],
        );
        check("7 10 * * *", &["2026-11-29T10:07"]);
        check(
            "5/20 3-4 * * *",
            &["2026-11-29T03:05", "2026-11-29T03:25", "2026-11-29T03:45", "2026-11-29T04:05"],
        );
        check("0 0 1 jan,JUL *", &["2027-01-01T00:00", "2027-07-01T00:00"]);
        check("0 9 * * mon-fri", &["2026-11-30T09:00", "2026-12-01T09:00"]);
        check("0 9 * * 7", &["2026-11-29T09:00"]);
        check("0 9 * * 0", &["2026-11-29T09:00"]);
        check("0 0 13 * fri", &["2026-12-04T00:00", "2026-12-11T00:00", "2026-12-13T00:00"]);
        check("0 0 */2 * fri", &["2026-12-11T00:00"]);
        check("0 0 29 2 *", &["2028-02-29T00:00", "2032-02-29T00:00"]);
    }

    #[test]
    fn clocks_that_are_set_forward_skip_to_the_change() {
        // In Berlin, 02:00 is 03:00 on 2026-03-29, at 01:00 UTC.
        let berlin = |text, count| times(text, "Europe/Berlin", "2026-03-28T23:30:00Z", count);
        assert_eq!(berlin("30 2 * * *", 2), ["2026-03-29T01:00", "2026-03-30T00:30"]);
        assert_eq!(
            berlin("*/30 * * * *", 4),
            ["2026-03-29T00:00", "2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"]
        );
        assert_eq!(berlin("0 3 * * *", 1), ["2026-03-29T01:00"]);
    }

    #[test]
    fn clocks_that_are_set_back_repeat_only_every_hour() {
        // In Berlin, 03:00 is 02:00 on 2026-10-25, at 01:00 UTC.
        let berlin = |text, count| times(text, "Europe/Berlin", "2026-10-24T23:00:00Z", count);
        assert_eq!(berlin("30 2 * * *", 2), ["2026-10-25T00:30", "2026-10-26T01:30"]);
        assert_eq!(
            berlin("30 * * * *", 4),
            ["2026-10-24T23:30", "2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]
        );
        assert_eq!(berlin("0 3 * * *", 1), ["2026-10-25T02:00"]);
    }

    #[test]
    fn the_last_missed_time_is_found_without_a_walk() {
        let at = |text: &str| stamp::parse(text).unwrap();
        let last = |text: &str, after: &str, until: &str| {
            let found = schedule(text).last_between(at(after), at(until), &TimeZone::UTC);
            found.map(|last| stamp::rfc3339(last)[..16].to_owned())
        };
        let day = "2026-11-28T00:00:00Z";
        assert_eq!(last("0 5 * * *", day, "2026-11-28T04:59:59Z"), None);
        let found = last("0 5 * * *", day, "2026-11-30T05:00:00Z");
        assert_eq!(found.as_deref(), Some("2026-11-30T05:00"));
        let found = last("* * * * *", day, "2127-11-28T00:00:30Z");
        assert_eq!(found.as_deref(), Some("2127-11-28T00:00"));
        assert_eq!(last("0 0 1 1 *", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z"), None);
    }

    #[test]
    fn other_texts_are_no_schedules() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "1,,2 * * * *",
            "+1 * * * *",
            "a * * * *",
            "* * * * frid",
            "0 0 30 2 *",
            "1-2-3 * * * *",
            "@daily",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
        let error = "0 25 * * *".parse::<Schedule>().unwrap_err().to_string();
        assert!(error.starts_with("hour: \"25\" is not 0 to 23"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-*/, 0-9a-z]{0,24}") {
            let _ = text.parse::<Schedule>();
        }

        #[test]
        fn times_increase_and_match(
            minute in 0..60_u32, step in 1..60_u32, hour in 0..24_u32, weekday in 0..8_u32,
            seconds in 1_600_000_000..1_900_000_000_u64,
            name in prop::sample::select(vec![
                "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
                "America/Santiago",
            ]),
        ) {
            let zone = zone(name);
            for text in [
                format!("{minute} {hour} * * *"),
                format!("*/{step} * * * {weekday}"),
                format!("{minute} * {} * *", 1 + hour),
            ] {
                let schedule = schedule(&text);
                let mut after = Timestamp::from_millis(seconds * 1_000);
                for _ in 0..6 {
                    let next = schedule.next_after(after, &zone).unwrap();
                    prop_assert!(next > after, "{} {}", text, name);
                    let earlier = schedule.next_after(after, &zone);
                    prop_assert_eq!(earlier, Some(next));
                    let local = zone.to_datetime(to_instant(next).unwrap());
                    prop_assert_eq!(local.second(), 0);
                    after = next;
                }
            }
        }
    }
}

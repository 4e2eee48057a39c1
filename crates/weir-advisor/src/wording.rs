//! Formats figures for people.

use std::time::Duration;

use crate::forecast::Between;

const SECOND: Duration = Duration::from_secs(1);
const MIB: f64 = 1024.0 * 1024.0;

/// Formats a duration with at most two units: "14 h 3 min", "39 s", "400 ms".
#[must_use]
pub fn duration(duration: Duration) -> String {
    let (millis, seconds) = (duration.as_millis(), duration.as_secs());
    let two = |large: u64, unit: &str, small: u64, rest: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {rest}"),
    };
    match seconds {
        0 if millis == 0 => format!("{} µs", duration.as_micros()),
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..172_800 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "days", seconds % 86_400 / 3_600, "h"),
    }
}

/// Formats a duration with its range if that is wider than a tenth: "30 min", "30 min (25 min to 41
/// min)". The range is rounded outwards, so that it contains the duration.
#[must_use]
pub fn about(left: Duration, between: Option<Between>) -> String {
    let shown = duration(left);
    // A range is too coarse for less than a second.
    let is_shown = |between: &Between| left >= SECOND && !is_narrow(left, *between);
    let Some(Between { shortest, longest }) = between.filter(is_shown) else {
        return shown;
    };
    let shortest = one_unit(shortest.min(left), |seconds, length| seconds / length);
    let longest = longest.map(|it| {
        let whole = it.max(left).saturating_add(Duration::from_nanos(999_999_999));
        one_unit(Duration::from_secs(whole.as_secs()), u64::div_ceil)
    });
    match longest {
        // A range that rounds to a single value is left out.
        Some(longest) if shortest == longest => shown,
        Some(longest) => format!("{shown} ({shortest} to {longest})"),
        None => format!("{shown} (at least {shortest})"),
    }
}

/// Reports whether the whole range is within a tenth of the duration.
fn is_narrow(left: Duration, between: Between) -> bool {
    let tenth = left / 10;
    between.shortest >= left.saturating_sub(tenth)
        && between.longest.is_some_and(|longest| longest <= left.saturating_add(tenth))
}

/// Rounds a duration to one unit, of which there are at least two: "43 min", "3 h". `divided` divides
/// seconds by the length of the unit.
fn one_unit(duration: Duration, divided: fn(u64, u64) -> u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "h"), (60, "min")];
    let seconds = duration.as_secs();
    let unit = UNITS.into_iter().find(|(length, _)| seconds >= 2 * length);
    match unit {
        Some((length, unit)) => format!("{} {unit}", divided(seconds, length)),
        None if seconds == 0 => self::duration(duration),
        None => self::duration(Duration::from_secs(seconds)),
    }
}

/// Formats a count with thousands separators: "194,000".
#[must_use]
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: "1 slow command", "1,234 slow commands".
#[must_use]
pub fn number(of: impl Into<u64>, one: &str, several: &str) -> String {
    let of = of.into();
    format!("{} {}", count(of), if of == 1 { one } else { several })
}

/// Formats a sentence: "1 job waits", "1,234 jobs wait".
pub(crate) fn jobs_wait(jobs: u64) -> String {
    number(jobs, "job waits", "jobs wait")
}

/// Formats the same with the age of the oldest job, if known.
pub(crate) fn jobs_wait_since(jobs: u64, oldest: Duration) -> String {
    let wait = jobs_wait(jobs);
    match (oldest.is_zero(), jobs) {
        (true, _) => wait,
        (false, 1) => format!("{wait}, for {}", duration(oldest)),
        (false, _) => format!("{wait}, the oldest for {}", duration(oldest)),
    }
}

/// Formats a size in powers of 1,024, as Postgres and Redis do: "128 MB", "2 GB".
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / MIB;
    if mebibytes >= 1024.0 {
        let gibibytes = format!("{:.1}", mebibytes / 1024.0);
        format!("{} GB", gibibytes.strip_suffix(".0").unwrap_or(&gibibytes))
    } else if mebibytes >= 1.0 {
        format!("{mebibytes:.0} MB")
    } else {
        format!("{} kB", bytes / 1024)
    }
}

/// Formats a rate with the unit that fits its size: "3.9/s", "2.4/min".
#[must_use]
pub fn rate(per_second: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1.0, "s"), (60.0, "min"), (3_600.0, "h")];
    if per_second >= 100.0 {
        return format!("{per_second:.0}/s");
    }
    let shown = UNITS.into_iter().find(|(seconds, _)| per_second * seconds >= 0.1);
    match shown {
        Some((seconds, unit)) => format!("{:.1}/{unit}", per_second * seconds),
        None => "0/s".to_owned(),
    }
}

/// Formats a rate that was counted over `window`: "3.9/s", or "< 1 in 10 s" for a count of zero,
/// because jobs that arrive every minute are rarely seen within ten seconds.
#[must_use]
pub fn counted_rate(per_second: f64, window: Duration) -> String {
    // Compares with one half because counts are whole, but the product is not exact.
    match per_second * window.as_secs_f64() < 0.5 {
        true => format!("< 1 in {}", duration(window)),
        false => rate(per_second),
    }
}

/// Formats a share from 0 to 1: "61 %".
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a list: "a, b and c".
#[must_use]
pub fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_is_one_and_an_age_that_nobody_knows_is_not_told() {
        let (age, unknown) = (Duration::from_secs(120), Duration::ZERO);
        assert_eq!(jobs_wait_since(1, age), "1 job waits, for 2 min");
        assert_eq!(jobs_wait_since(1, unknown), "1 job waits");
        assert_eq!(jobs_wait_since(2_000, age), "2,000 jobs wait, the oldest for 2 min");
        assert_eq!(jobs_wait_since(2_000, unknown), "2,000 jobs wait");
    }

    #[test]
    fn one_is_one_and_all_else_is_several() {
        let keys = |of: u32| number(of, "key was evicted", "keys were evicted");
        assert_eq!(keys(0), "0 keys were evicted");
        assert_eq!(keys(1), "1 key was evicted");
        assert_eq!(keys(1_234), "1,234 keys were evicted");
    }

    #[test]
    fn a_range_contains_what_it_is_about() {
        let range = |left: u64, shortest: u64, longest: Option<u64>| {
            let (shortest, longest) =
                (Duration::from_secs(shortest), longest.map(Duration::from_secs));
            about(Duration::from_secs(left), Some(Between { shortest, longest }))
        };
        // Rounded to the nearest hour, this was "2 h 40 min (3 h to 3 h)".
        assert_eq!(range(9_600, 8_000, Some(10_700)), "2 h 40 min (2 h to 3 h)");
        assert_eq!(range(9_600, 8_000, None), "2 h 40 min (at least 2 h)");
        assert_eq!(range(150, 110, Some(169)), "2 min 30 s (1 min 50 s to 3 min)");
        assert_eq!(range(420_000, 350_000, Some(480_000)), "4 days 20 h (4 days to 6 days)");
        assert_eq!(range(7_200, 7_200, Some(7_200)), "2 h");
        assert_eq!(range(7_200, 6_480, Some(7_920)), "2 h", "within a tenth");
        assert_eq!(range(7_200, 6_470, Some(7_920)), "2 h (107 min to 3 h)");
        assert_eq!(range(60, 70, Some(50)), "1 min", "whatever was estimated");
        let millis = |left: u64, shortest: u64, longest: u64| {
            let of = Duration::from_millis;
            about(of(left), Some(Between { shortest: of(shortest), longest: Some(of(longest)) }))
        };
        assert_eq!(millis(1_900, 900, 2_100), "1 s (900 ms to 3 s)");
    }

    #[test]
    fn figures_read_well() {
        let seconds = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(duration(Duration::from_micros(7)), "7 µs");
        assert_eq!(duration(Duration::from_millis(400)), "400 ms");
        assert_eq!(seconds(39), "39 s");
        assert_eq!(seconds(60), "1 min");
        assert_eq!(seconds(50_580), "14 h 3 min");
        assert_eq!(seconds(200_000), "2 days 7 h");
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let between = |longest| Some(Between { shortest: minutes(25), longest });
        assert_eq!(about(minutes(30), None), "30 min");
        assert_eq!(about(minutes(30), between(Some(minutes(41)))), "30 min (25 min to 41 min)");
        assert_eq!(about(minutes(30), between(None)), "30 min (at least 25 min)");
        let soon = Duration::from_millis(520);
        let now = Between { shortest: soon, longest: Some(2 * soon) };
        assert_eq!(about(soon, Some(now)), "520 ms");
        assert_eq!((count(7), count(194_000)), ("7".to_owned(), "194,000".to_owned()));
        assert_eq!(bytes(128 << 20), "128 MB");
        assert_eq!(bytes(2 << 30), "2 GB");
        assert_eq!(bytes(4096), "4 kB");
        assert_eq!(rate(3.85), "3.9/s");
        assert_eq!([rate(240.0), rate(0.1), rate(0.04)], ["240/s", "0.1/s", "2.4/min"]);
        assert_eq!([rate(0.001), rate(0.0)], ["3.6/h", "0/s"]);
        let counted =
            |count: f64, seconds| counted_rate(count / 10.0, Duration::from_secs(seconds));
        assert_eq!([counted(0.0, 10), counted(0.999_9, 10)], ["< 1 in 10 s", "6.0/min"]);
        assert_eq!(counted(39.0, 10), "3.9/s");
        assert_eq!(percent(0.614), "61 %");
        assert_eq!(list(["a", "b", "c"]), "a, b and c");
        assert_eq!(list(["a"]), "a");
    }

    #[test]
    fn the_longest_time_that_there_is_does_not_overflow() {
        let longest = Some(Duration::MAX);
        let between = Some(Between { shortest: SECOND, longest });
        assert!(about(Duration::from_secs(5), between).starts_with("5 s (1 s to "));
    }
}

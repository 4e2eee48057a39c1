//! Times as Sidekiq 6 and 7 write them: seconds with a fraction. Sidekiq 8 reads them as well.

use weir_base::clock::Timestamp;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// Formats a time as a JSON number. It serves as the score of a sorted set too: Redis' numbers hold
/// microseconds until the year 2106.
pub(super) fn text(time: Timestamp) -> String {
    let micros = time.as_micros();
    format!("{}.{:06}", micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND)
}

/// Parses a raw JSON value: a number of seconds or milliseconds, or an RFC 3339 text.
pub(super) fn of_value(value: &str) -> Option<Timestamp> {
    match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => weir_jobs::stamp::parse(text),
        None => crate::time::from_text(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_forms_are_read() {
        let time = Timestamp::from_micros(1_795_202_902_000_001);
        assert_eq!(text(time), "1795202902.000001");
        assert_eq!(of_value("1795202902.000001"), Some(time));
        assert_eq!(of_value("\"2026-11-20T19:28:22.000001Z\""), Some(time));
        let milliseconds = Timestamp::from_micros(1_795_202_902_007_000);
        assert_eq!(of_value("1795202902007"), Some(milliseconds));
        for odd in ["null", "\"soon\"", "-1", "1e300", "[]", ""] {
            assert_eq!(of_value(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn microseconds_survive(micros in 0..4_000_000_000_000_000_u64) {
            let time = Timestamp::from_micros(micros);
            prop_assert_eq!(of_value(&text(time)), Some(time));
        }
    }
}

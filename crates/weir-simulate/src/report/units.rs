//! Figures for people.

/// Formats a duration: `0 s`, `40 ms`, `2.5 s`, `14 min`, `6.1 h`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.001 => "0 s".to_owned(),
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1_000.0),
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        let found = [0.0, 0.04, 2.46, 42.0, 840.0, 22_000.0].map(duration);
        assert_eq!(found, ["0 s", "40 ms", "2.5 s", "42 s", "14 min", "6.1 h"]);
    }
}

//! A forecast, and what became of it.

/// What Weir said of a queue. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Forecast {
    pub(super) expected: Option<f64>,
    pub(super) range: Option<(f64, f64)>,
    /// It said that the queue never drains.
    pub(super) says_never: bool,
    /// What it said.
    pub(super) state: String,
    /// The depth divided by the rate at which it became less in the last minute: the forecast without a range.
    pub(super) by_last_minute: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ForecastRecord {
    pub(super) scenario: &'static str,
    pub(super) forecast: Forecast,
    /// The time until the queue was empty.
    pub(super) actual: f64,
}

/// Figures of several forecasts.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Tally {
    pub(super) forecasts: usize,
    /// Of these, those that said there is not enough data.
    pub(super) withheld: usize,
    /// Those that said never: they were wrong, because every queue drained.
    pub(super) never: usize,
    pub(super) ranges: usize,
    pub(super) within: usize,
    /// Times shorter than their range.
    pub(super) shorter: usize,
    /// The end of the range, divided by its start.
    pub(super) median_ratio: f64,
    /// The width of the range, divided by the actual time.
    pub(super) median_width: f64,
    pub(super) expected: PointTally,
    pub(super) by_last_minute: PointTally,
}

/// Figures of times without their range.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct PointTally {
    pub(super) given: usize,
    /// Those that were right to a quarter.
    pub(super) near: usize,
}

/// A time is near the actual one if it differs by at most this share.
const NEAR_SHARE: f64 = 0.25;

impl PointTally {
    fn add(&mut self, time: Option<f64>, actual: f64) {
        let Some(time) = time else { return };
        self.given += 1;
        self.near += usize::from((time - actual).abs() <= NEAR_SHARE * actual);
    }
}

impl Tally {
    pub(super) fn of<'a>(records: impl Iterator<Item = &'a ForecastRecord>) -> Self {
        let mut tally = Self::default();
        let (mut ratios, mut widths) = (Vec::new(), Vec::new());
        for ForecastRecord { forecast, actual, .. } in records {
            tally.forecasts += 1;
            tally.expected.add(forecast.expected, *actual);
            tally.by_last_minute.add(forecast.by_last_minute, *actual);
            let Some((shortest, longest)) = forecast.range else {
                tally.never += usize::from(forecast.says_never);
                tally.withheld += usize::from(!forecast.says_never);
                continue;
            };
            tally.ranges += 1;
            tally.within += usize::from((shortest..=longest).contains(actual));
            tally.shorter += usize::from(*actual < shortest);
            ratios.push(longest / shortest);
            widths.push((longest - shortest) / actual);
        }
        (tally.median_ratio, tally.median_width) = (median(ratios), median(widths));
        tally
    }

    /// Returns the number of forecasts that said something: a range, or never.
    pub(super) const fn given(&self) -> usize {
        self.ranges + self.never
    }

    /// Returns the share of these that were right.
    pub(super) fn within_share(&self) -> f64 {
        as_f64(self.within) / as_f64(self.given().max(1))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "some hundred forecasts")]
pub(super) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_compared_with_what_became_of_them() {
        let record = |expected, range, says_never, actual| ForecastRecord {
            scenario: "steady",
            forecast: Forecast {
                expected,
                range,
                says_never,
                by_last_minute: Some(9.0),
                ..Forecast::default()
            },
            actual,
        };
        let records = [
            record(Some(10.0), Some((8.0, 12.0)), false, 9.0),
            record(Some(10.0), Some((8.0, 16.0)), false, 7.0),
            record(Some(10.0), Some((8.0, 24.0)), false, 30.0),
            record(None, None, true, 10.0),
            record(None, None, false, 10.0),
        ];
        let tally = Tally::of(records.iter());
        assert_eq!((tally.forecasts, tally.withheld, tally.never), (5, 1, 1));
        assert_eq!((tally.ranges, tally.within, tally.shorter, tally.given()), (3, 1, 1, 4));
        assert_eq!((tally.expected, tally.median_ratio), (PointTally { given: 3, near: 1 }, 2.0));
        assert_eq!(tally.by_last_minute, PointTally { given: 5, near: 3 });
        assert_eq!(tally.within_share(), 0.25);
        assert_eq!(Tally::of([].iter()).within_share(), 0.0);
    }
}

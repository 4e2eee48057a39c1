//! A time span of a series as one point: minimum, mean and maximum; and a table of such points.

use std::time::Duration;

use crate::clock::Timestamp;

/// The values of a series within one time span. All NaN: unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

impl Band {
    /// The band without known values.
    pub const NONE: Self = Self { min: f64::NAN, mean: f64::NAN, max: f64::NAN };

    /// Creates the band of a single value.
    #[must_use]
    pub const fn of(value: f64) -> Self {
        Self { min: value, mean: value, max: value }
    }

    /// Returns whether the values are known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !self.mean.is_nan()
    }
}

/// Several series over evenly spaced points.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The start of each point.
    pub times: Vec<Timestamp>,
    /// One list of points per requested series; None: a gap.
    pub columns: Vec<Vec<Option<Band>>>,
}

/// Aggregates rows into evenly spaced points.
#[derive(Debug)]
pub(super) struct Buckets {
    from: Timestamp,
    width: Duration,
    count: usize,
    columns: Vec<Vec<Sum>>,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    min: f64,
    max: f64,
    total: f64,
    rows: f64,
}

impl Sum {
    const EMPTY: Self = Self { min: f64::INFINITY, max: f64::NEG_INFINITY, total: 0.0, rows: 0.0 };

    fn add(&mut self, band: &Band) {
        if band.is_known() {
            self.min = self.min.min(band.min);
            self.max = self.max.max(band.max);
            self.total += band.mean;
            self.rows += 1.0;
        }
    }

    fn band(&self) -> Option<Band> {
        let known = self.rows > 0.0;
        known.then(|| Band { min: self.min, mean: self.total / self.rows, max: self.max })
    }
}

impl Buckets {
    /// Creates at most `points_max` points (at least one) of whole seconds over `[from, to)`.
    pub(super) fn new(from: Timestamp, to: Timestamp, points_max: usize, columns: usize) -> Self {
        let seconds = to.since(from).as_secs().max(1);
        let points_max = u64::try_from(points_max.max(1)).unwrap_or(u64::MAX);
        let width_seconds = seconds.div_ceil(points_max);
        let count = usize::try_from(seconds.div_ceil(width_seconds)).unwrap_or(usize::MAX);
        Self {
            from,
            width: Duration::from_secs(width_seconds),
            count,
            columns: vec![vec![Sum::EMPTY; count]; columns],
        }
    }

    /// Adds one row; `bands` has one entry per column.
    pub(super) fn add(&mut self, at: Timestamp, bands: &[Band]) {
        let Some(index) = self.index(at) else { return };
        for (sums, band) in self.columns.iter_mut().zip(bands) {
            sums[index].add(band);
        }
    }

    fn index(&self, at: Timestamp) -> Option<usize> {
        let index = at.since(self.from).as_micros() / self.width.as_micros();
        usize::try_from(index).ok().filter(|index| *index < self.count)
    }

    /// Returns the table of all points.
    pub(super) fn finish(&self) -> Table {
        let start = |index| self.from + self.width * u32::try_from(index).unwrap_or(u32::MAX);
        Table {
            times: (0..self.count).map(start).collect(),
            columns: self.columns.iter().map(|sums| sums.iter().map(Sum::band).collect()).collect(),
        }
    }
}

//! When a backlog will be empty: the one forecast of the time to drain.
//!
//! - [`BacklogSample`]: what is sampled of a backlog.
//! - [`Trend`]: what was measured with samples: how fast the depth changes, by how much that rate varies, and what
//!   failed and will come back.
//! - [`DrainForecast`]: a range that contains the time to drain in nine of ten cases, as long as nothing changes that was
//!   constant while it was measured, or why there is not enough data.
//!
//! Nothing here reads a clock. The tests in `simulated.rs` check that the ranges keep that promise.

mod forecast;
#[cfg(test)]
mod simulated;
mod trend;

pub use self::forecast::{
    DrainForecast, DrainRange, LEVEL_PERCENT, NORMAL_QUANTILE, RANGE_RATIO_MAX, Retries, Trend,
};
pub use self::trend::{BacklogSample, RETRY_DELAY_SECONDS, since_it_was_empty, student_quantile};

//! Ranges that many settings share.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::units::{DAY, MILLISECOND};

/// How long a connection, a request or a job may be made to wait.
pub const WAIT: RangeInclusive<Duration> = MILLISECOND..=DAY;

/// Up to more of anything than a machine holds.
pub const COUNT: RangeInclusive<u64> = 1..=100_000_000;

//! What the jobs of a queue or set consist of: counts and shares by jobtype, queue, key, error, age and
//! size, from samples or from all of them.
//!
//! - `features`: the values of one job. `buckets`: ranges of ages and sizes.
//! - `tally`: counts them in bounded memory. `interval`: what samples say about the whole.

mod buckets;
mod features;
mod interval;
mod tally;

pub(crate) use tally::{Coverage, Tally};

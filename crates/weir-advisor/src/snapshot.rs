//! A sample of all sources together with its findings, as stored, displayed and exported as
//! metrics.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::advice::Advice;
use crate::observation::{Observation, SourceState};

/// The values of all sources at one time, with the findings about them.
#[derive(Debug)]
pub struct ObservedSnapshot {
    /// When sampling ended.
    pub at: Timestamp,
    /// How long sampling took.
    pub took: Duration,
    pub observation: Observation,
    pub advice: Advice,
    /// The state of each source.
    pub sources: Vec<SourceState>,
}

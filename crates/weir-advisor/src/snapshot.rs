//! One look at all sources, with what is said about it: what is kept, shown and measured.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::advice::Advice;
use crate::observation::{Observation, SourceState};

/// What the sources said at one time, with the findings.
#[derive(Debug)]
pub struct ObservedSnapshot {
    /// When it ended.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    pub observation: Observation,
    pub advice: Advice,
    /// The state of each source.
    pub sources: Vec<SourceState>,
}

//! The demand of a queue, formatted.

use weir_advisor::plan::{DemandSource, QueueDemand};

use super::super::displayable;
use crate::figures;

/// Follows a value that was not observed.
const ASSUMED: &str = ", assumed";
/// Replaces a value that no sample shows.
const UNKNOWN: &str = "unknown";

/// Precedes an upper bound.
const AT_MOST: &str = "at most ";

pub(super) struct DemandRow {
    pub(super) name: String,
    pub(super) rate: String,
    pub(super) seconds: String,
    pub(super) threads: String,
}

impl DemandRow {
    pub(super) fn new(demand: &QueueDemand) -> Self {
        let QueueDemand { known, arrivals_per_second: rate, service_seconds: seconds, .. } =
            *demand;
        let figure = |is_known: bool, figure: String| match known {
            _ if is_known => figure,
            DemandSource::Nothing => UNKNOWN.to_owned(),
            _ => figure + ASSUMED,
        };
        let assumed = if known.knows_seconds() { "" } else { ASSUMED };
        let at_most = if known.is_most() { AT_MOST } else { "" };
        Self {
            name: displayable(&demand.name),
            rate: match known.knows_rate() {
                true => figures::rate(rate),
                false => UNKNOWN.to_owned(),
            },
            seconds: format!("{at_most}{}{assumed}", figures::duration(seconds)),
            threads: figure(known.knows_load(), format!("{at_most}{:.1}", rate * seconds)),
        }
    }
}

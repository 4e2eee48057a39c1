//! An app has far more workers than were ever busy at once within a day.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, RequestPath};
use crate::wording::number;

pub(crate) const NAME: &str = "idle-workers";

/// Share of the slots that were in use at most, below which the app has far too many.
const BUSY_SHARE: f64 = 0.25;
/// Workers that are kept above the peak: twice as many slots as were needed.
const KEPT: u32 = 2;
/// Fewer workers save little.
const WORKERS_MIN: u32 = 4;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let requests = observation.requests.known().map(Vec::as_slice).unwrap_or_default();
    requests.iter().filter_map(found).collect()
}

fn found(path: &RequestPath) -> Option<Finding> {
    let peak = path.busy_peak_of_day?;
    let is_idle = f64::from(peak) <= BUSY_SHARE * f64::from(path.slots);
    if path.workers < WORKERS_MIN || path.slots == 0 || !is_idle {
        return None;
    }
    let slots_each = (path.slots / path.workers).max(1);
    let enough = peak.saturating_mul(KEPT).div_ceil(slots_each).max(KEPT);
    let evidence = format!(
        "within a day, {} in progress at once at most; its {} can have {}",
        number(peak, "request was", "requests were"),
        number(path.workers, "worker", "workers"),
        path.slots
    );
    let finding = Finding::new(NAME, Severity::Notice, format!("app {}", path.app), evidence);
    (enough < path.workers).then(|| {
        finding
            .leads_to(format!(
                "The others only take memory and connections. The line leaves twice as many as were needed: {} \
                 fewer.",
                number(path.workers - enough, "worker", "workers")
            ))
            .change(format!("weir.toml, [[front.apps]] {}", path.app), format!("workers = {enough}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn with(workers: u32, slots: u32, peak: Option<u32>) -> Option<Finding> {
        let mut observation = healthy::observation();
        let path = &mut observation.requests.known_mut()[0];
        (path.workers, path.slots, path.busy_peak_of_day) = (workers, slots, peak);
        check(&observation).pop()
    }

    #[test]
    fn workers_that_nobody_needed_for_a_day_are_found() {
        let finding = with(16, 16, Some(2)).unwrap();
        let expected =
            "within a day, 2 requests were in progress at once at most; its 16 workers can have 16";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.line_change().unwrap().line, "workers = 4");
        assert_eq!(with(16, 80, Some(9)).unwrap().line_change().unwrap().line, "workers = 4");
        assert_eq!(with(16, 16, Some(5)), None, "a third was busy");
        assert_eq!(with(16, 16, None), None, "not seen for a day");
        assert_eq!(with(3, 3, Some(0)), None);
        assert_eq!(with(4, 4, Some(1)).unwrap().line_change().unwrap().line, "workers = 2");
    }
}

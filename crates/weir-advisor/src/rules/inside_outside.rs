//! Requests take much longer for clients than inside the app.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, RequestPath};
use crate::wording::duration;

pub(crate) const NAME: &str = "time-outside-app";

/// Smaller differences are not noticeable.
const DIFFERENCE_MIN: Duration = Duration::from_millis(100);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let requests = observation.requests.known().map(Vec::as_slice).unwrap_or_default();
    let apart = |path: &&RequestPath| {
        path.outside >= path.inside * 2
            && path.outside.saturating_sub(path.inside) >= DIFFERENCE_MIN
    };
    requests.iter().filter(apart).map(found).collect()
}

fn found(path: &RequestPath) -> Finding {
    let outside_of_app = path.outside.saturating_sub(path.inside);
    let elsewhere = outside_of_app.saturating_sub(path.waiting);
    let busy = match path.slots {
        slots if slots > 0 && path.busy_peak >= slots => {
            format!("; all {slots} slots of its workers were busy at once")
        }
        _ => String::new(),
    };
    // The slowest requests in the app need not be those that waited longest.
    let rest = match elsewhere {
        Duration::ZERO => {
            " (95th percentiles of different requests, which do not add up)".to_owned()
        }
        elsewhere => format!(", {} elsewhere (95th percentiles)", duration(elsewhere)),
    };
    let evidence = format!(
        "the app says {}, clients wait {}: {} for a free worker{rest}{busy}",
        duration(path.inside),
        duration(path.outside),
        duration(path.waiting),
    );
    let finding = Finding::new(NAME, Severity::Warning, format!("app {}", path.app), evidence);
    if path.waiting >= elsewhere {
        let line = format!("workers = {}", path.workers + path.workers.div_ceil(2));
        finding
            .leads_to(
                "All workers are busy when requests arrive; the app's own figures do not show \
                 this. More workers help if the machine has idle cores and memory for them, and the \
                 database connections.",
            )
            .change(format!("weir.toml, [[front.apps]] {}", path.app), line)
    } else {
        finding.leads_to(
            "Neither the app nor its queue is the cause: check the network, TLS, a \
                          proxy in front of it, or large responses.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn with(inside: u64, waiting: u64, outside: u64) -> Vec<Finding> {
        let mut observation = healthy::observation();
        let path = &mut observation.requests.known_mut()[0];
        path.inside = Duration::from_millis(inside);
        path.waiting = Duration::from_millis(waiting);
        path.outside = Duration::from_millis(outside);
        check(&observation)
    }

    #[test]
    fn a_wait_for_workers_asks_for_workers() {
        let finding = with(20, 350, 400).remove(0);
        let expected = "the app says 20 ms, clients wait 400 ms: 350 ms for a free worker, 30 ms elsewhere (95th percentiles)";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.line_change().unwrap().line, "workers = 3");
        let apart = with(409, 557, 819).remove(0).evidence;
        let expected = "the app says 409 ms, clients wait 819 ms: 557 ms for a free worker (95th percentiles of different requests, which do not add up)";
        assert_eq!(apart, expected);
    }

    #[test]
    fn time_that_is_lost_elsewhere_is_not_blamed_on_workers() {
        assert_eq!(with(20, 5, 400)[0].line_change(), None);
        assert_eq!(with(200, 20, 390), []);
        assert_eq!(with(5, 20, 100), []);
    }
}

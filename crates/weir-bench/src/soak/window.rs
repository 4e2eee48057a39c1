//! The times in which errors are expected: from the beginning of a fault until all parts responded again.

use std::time::Duration;

use super::fault::Fault;

/// Effects that a client notices a little later: a connection that was accepted before the end, a reconnection.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) fault: Fault,
    /// What was done to whom.
    pub(super) detail: String,
    pub(super) began: Duration,
    /// When the fault was undone: for a kill, when the process was started again.
    pub(super) undone: Duration,
    /// When all parts of all nodes responded; `None`: not within the time limit.
    pub(super) recovered: Option<Duration>,
}

impl Window {
    /// Returns how long it took after the fault was undone.
    pub(super) fn recovery(&self) -> Option<Duration> {
        self.recovered.map(|recovered| recovered.saturating_sub(self.undone))
    }

    fn overlaps(&self, from: Duration, to: Duration) -> bool {
        let end = self.recovered.unwrap_or(self.undone) + GRACE;
        from <= end && to >= self.began
    }
}

/// All faults of a run.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Window>);

impl Windows {
    pub(super) fn push(&mut self, window: Window) {
        self.0.push(window);
    }

    pub(super) fn all(&self) -> &[Window] {
        &self.0
    }

    /// Returns whether something that began at `from` and ended at `to` may be the effect of a fault.
    pub(super) fn explain(&self, from: Duration, to: Duration) -> bool {
        self.0.iter().any(|window| window.overlaps(from, to))
    }

    /// Likewise, of one of these faults.
    pub(super) fn explain_by(&self, faults: &[Fault], from: Duration, to: Duration) -> bool {
        let of_kind = |window: &&Window| faults.contains(&window.fault);
        self.0.iter().filter(of_kind).any(|window| window.overlaps(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_what_overlaps_with_a_fault_is_explained() {
        let mut windows = Windows::default();
        windows.push(Window {
            fault: Fault::WeirKill,
            detail: String::new(),
            began: seconds(100),
            undone: seconds(102),
            recovered: Some(seconds(110)),
        });
        for (from, to, is_explained) in [
            (90, 99, false),
            (90, 100, true),
            (105, 106, true),
            (115, 120, true),
            (116, 120, false),
        ] {
            assert_eq!(windows.explain(seconds(from), seconds(to)), is_explained, "{from} {to}");
        }
        assert!(windows.explain_by(&[Fault::WeirKill], seconds(101), seconds(101)));
        assert!(!windows.explain_by(&[Fault::ClockStep], seconds(101), seconds(101)));
    }
}

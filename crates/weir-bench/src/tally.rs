//! Counters of one thread: operations, latencies and errors.

use crate::latency::Latencies;

#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) latencies: Latencies,
    pub(crate) faults: Faults,
}

/// Errors of a run: how many, and the text of the first, which usually explains the rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub(crate) count: u64,
    pub(crate) first: Option<String>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { operations: 0, latencies: Latencies::new(), faults: Faults::default() }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.latencies.merge(&other.latencies);
        self.faults.merge(&other.faults);
    }
}

impl Faults {
    pub(crate) fn add(&mut self, count: u64, text: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        self.count += count;
        if self.first.is_none() {
            self.first = Some(text());
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.add(other.count, || other.first.clone().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_text_is_kept_and_counts_are_summed() {
        let mut faults = Faults::default();
        faults.add(0, || "nothing".to_owned());
        faults.add(2, || "first".to_owned());
        faults.add(1, || "second".to_owned());
        assert_eq!((faults.count, faults.first.as_deref()), (3, Some("first")));
    }
}

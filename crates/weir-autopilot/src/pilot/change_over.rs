//! The last change that replaces processes, which may still be under way.

use weir_control::Change;

/// The last change.
#[derive(Debug, Default)]
pub(super) struct ChangeOver {
    /// When it began, or was still under way.
    last_seconds: Option<f64>,
    is_under_way: bool,
    /// Why it has stopped half-way, as the journal has it.
    pub(super) failed: Option<String>,
}

impl ChangeOver {
    pub(super) fn begin(&mut self, change: &Change, now_seconds: f64) {
        if matches!(change, Change::Threads { .. } | Change::Cap { .. }) {
            self.last_seconds = Some(now_seconds);
        }
    }

    /// Notes whether it is still under way.
    pub(super) fn note(&mut self, is_under_way: bool, now_seconds: f64) {
        self.is_under_way = is_under_way;
        if is_under_way {
            self.last_seconds = Some(now_seconds);
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Returns whether the next change may begin, `interval_seconds` after this one has ended.
    pub(super) fn may_begin(&self, now_seconds: f64, interval_seconds: f64) -> bool {
        let is_over = |last: f64| now_seconds - last >= interval_seconds;
        !self.is_under_way && self.last_seconds.is_none_or(is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_change_waits_for_the_end_of_this_one_and_then_for_the_interval() {
        let mut change_over = ChangeOver::default();
        assert!(change_over.may_begin(0.0, 60.0));
        change_over.begin(&Change::Threads { from: 20, to: 10 }, 5.0);
        assert!(!change_over.may_begin(64.0, 60.0) && change_over.may_begin(65.0, 60.0));
        change_over.note(true, 100.0);
        assert!(!change_over.may_begin(1_000.0, 60.0));
        change_over.note(false, 110.0);
        assert!(!change_over.may_begin(159.0, 60.0) && change_over.may_begin(160.0, 60.0));
    }
}

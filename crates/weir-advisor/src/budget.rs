//! Removes changes that would let more connections be opened than the database has free.

use crate::action::{Action, LineChange};
use crate::finding::Finding;
use crate::guard;
use crate::observation::Observation;
use crate::wording;

/// Connections that no change has used so far.
pub(crate) struct Budget {
    /// `None`: unknown, so that nothing can be checked.
    free: Option<u32>,
    /// Whether additional processes of Sidekiq connect to the database itself.
    sidekiq_needs_slots: bool,
}

impl Budget {
    pub(crate) fn of(observation: &Observation) -> Self {
        let sidekiq_needs_slots = observation.sidekiq_needs_slots();
        Self { free: observation.free_slots(), sidekiq_needs_slots }
    }

    /// Returns the finding, without its change if the connections that it adds are not free, or are
    /// used by the changes of earlier findings.
    pub(crate) fn pass(&mut self, finding: Finding) -> Finding {
        let (Some(free), added) = (self.free, self.added(&finding)) else { return finding };
        match free.checked_sub(added) {
            Some(left) => {
                self.free = Some(left);
                finding
            }
            None => {
                let why = format!(
                    "it needs {}, and the database has {free} free beside those of earlier findings",
                    wording::number(added, "more connection", "more connections"),
                );
                guard::without_line(finding, &why, "weir plan")
            }
        }
    }

    fn added(&self, finding: &Finding) -> u32 {
        let lines = finding.actions.iter().filter_map(Action::line_change);
        let counts =
            lines.filter(|it: &&LineChange| it.serves.is_empty() || self.sidekiq_needs_slots);
        counts.map(|it| it.connections_added).fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::healthy;

    fn adding(connections: u32) -> Finding {
        let finding = Finding::new("rule", Severity::Warning, "a", "b").change("c", "d");
        finding.adds_connections(connections)
    }

    #[test]
    fn changes_that_fit_alone_do_not_exceed_the_free_connections_together() {
        let observation = healthy::observation();
        let free = observation.free_slots().unwrap();
        let mut budget = Budget::of(&observation);
        assert!(budget.pass(adding(free - 1)).line_change().is_some());
        let second = budget.pass(adding(2));
        assert_eq!((second.line_change(), second.next_step()), (None, Some("weir plan")));
        assert!(second.consequence.contains("2 more connections"), "{second:?}");
        assert!(budget.pass(adding(1)).line_change().is_some());
    }

    #[test]
    fn nothing_is_checked_where_the_limit_is_unknown() {
        let mut budget = Budget::of(&Observation::default());
        assert!(budget.pass(adding(1_000)).line_change().is_some());
    }
}

//! Carrying out decisions, or advising them; limits and their leases.

use tokio::time::timeout;
use weir_control::{Change, Decision, Outcome, step_back};

use super::Autopilot;
use super::begin::what;
use crate::journal::{EntryKind, JournalEntry};
use crate::mode::Mode;
use crate::thread_groups::describe;
use crate::wording;

/// The same advice is not given again for this long ..
const ADVICE_SECONDS: f64 = 600.0;
/// .. unless its value is off by this share.
const ADVICE_CHANGE: f64 = 0.25;

impl Autopilot {
    /// Carries a decision out. What cannot be written to the journal is not done, unless it ends or raises a limit.
    pub(super) async fn carry_out(&mut self, decision: Decision) {
        let (workers, now) = (self.sampler.workers(), self.now());
        let entry = self.entry(EntryKind::Decision, &decision);
        let is_tighter = tightens(&decision.change);
        let id = self.log.write(entry);
        if id.is_none() && is_tighter {
            return;
        }
        // Writing to the journal may have taken long.
        if is_tighter && !self.lease.may_act(self.now_seconds()) {
            let text = "was not carried out: the lease may be over by now";
            self.note(EntryKind::Failure, text.to_owned());
            return;
        }
        let before = self.in_force.clone();
        let mut controls = before.controls.clone();
        decision.change.apply(&mut controls);
        self.in_force.set(controls, workers, now);
        self.change_over.begin(&decision.change, self.now_seconds());
        if let Err(error) = self.apply().await {
            self.in_force = before;
            let text = format!("could not be carried out: {error}");
            self.note(EntryKind::Failure, text);
            return;
        }
        self.supersede();
        self.awaited = id.filter(|_| decision.forecast.is_some()).map(|id| (id, decision.clone()));
        self.history.note(decision);
        self.save_or_log();
    }

    /// While another autopilot may act, nothing changes for `hold_for`, and then the limits end step by step.
    pub(super) async fn stand_by(&mut self, decision: Option<Decision>) {
        let now_seconds = self.now_seconds();
        let hold_for = self.settings.hold_for.as_secs_f64();
        if self.history.age_seconds(now_seconds) >= hold_for {
            // Without data, only a step back is decided. It needs no lease.
            if let Some(step) = decision {
                self.carry_out(step).await;
            }
            return;
        }
        let idle = self.lease.idle_seconds(now_seconds);
        if idle >= hold_for {
            let because = format!("this autopilot has not held the lease for {idle:.0} s");
            let step = self.with_state(|state| step_back(state, &because));
            if let Some(step) = step.filter(|step| self.may_change_now(step)) {
                return self.carry_out(step).await;
            }
        }
        if let Some(decision) = decision {
            self.advise(&decision);
        }
    }

    /// Says which autopilot acts, if that has changed.
    pub(super) fn note_lease(&mut self) {
        let now_seconds = self.now_seconds();
        // Counted also while it acts.
        self.lease.idle_seconds(now_seconds);
        if let Some(text) = self.lease.changed(now_seconds) {
            self.note(EntryKind::Lease, text);
        }
    }

    /// Says what would be done.
    pub(super) fn advise(&mut self, decision: &Decision) {
        let now = self.now_seconds();
        let (class, to) = match decision.change {
            Change::Threads { to, .. } => (None, Some(to)),
            Change::Cap { class, to, .. } => (Some(class), to),
            Change::Allocation { .. } | Change::FreshLane { .. } => return,
        };
        let key = (class, tightens(&decision.change));
        let is_same = self.advised.get(&key).is_some_and(|(at, value)| {
            let is_near = match (value, to) {
                (Some(value), Some(to)) => {
                    f64::from(value.abs_diff(to)) <= ADVICE_CHANGE * f64::from(*value)
                }
                (value, to) => *value == to,
            };
            is_near && now - at < ADVICE_SECONDS
        });
        if !is_same {
            self.advised.insert(key, (now, to));
            let entry = self.entry(EntryKind::Advice, decision);
            self.log.write(entry);
        }
    }

    fn entry(&self, kind: EntryKind, decision: &Decision) -> JournalEntry {
        let roster = &self.sampler.roster;
        let how = match decision.change {
            Change::Threads { to, .. } => {
                describe(&self.sampler.groups, to, kind == EntryKind::Advice)
            }
            // Of advice that names no means, there is nothing to describe.
            Change::Cap { class, to, .. } if self.can_be_limited(class) => {
                let actuator = self.actuator.as_ref().ok();
                let queue = roster.queue_of(class).unwrap_or_default();
                actuator.and_then(|it| it.describe_limit(roster.class_name(class), queue, to))
            }
            _ => None,
        };
        let how = how.map(|how| format!("; {how}")).unwrap_or_default();
        JournalEntry {
            kind,
            mode: self.mode,
            text: wording::decision(roster, decision) + &how,
            change: wording::change(roster, &decision.change, self.sampler.workers()),
            forecast: decision.forecast.map(|forecast| wording::forecast(roster, forecast)),
            ..JournalEntry::default()
        }
    }

    fn can_be_limited(&self, class: usize) -> bool {
        let classes = &self.sampler.roster.roster().classes;
        classes.get(class).is_some_and(|it| it.can_be_limited)
    }

    /// Writes the outcome of the awaited decision, once it is judged.
    pub(super) fn note_outcome(&mut self) {
        let is_pending = |decision: &Decision| {
            self.history.pending.as_ref().is_some_and(|it| it.at_seconds == decision.at_seconds)
        };
        let Some((id, decision)) = self.awaited.take_if(|(_, it)| !is_pending(it)) else { return };
        let judged = self.history.judged.iter().rev();
        let mut judged = judged.filter(|(it, _)| it.at_seconds == decision.at_seconds);
        let outcome = judged.next().map_or(Outcome::Unclear, |(_, outcome)| *outcome);
        self.write_outcome(id, &decision, outcome);
    }

    /// A decision that was awaited when a more urgent one was made is never judged.
    fn supersede(&mut self) {
        if let Some((id, decision)) = self.awaited.take() {
            self.write_outcome(id, &decision, Outcome::Unclear);
        }
    }

    fn write_outcome(&mut self, id: u64, decision: &Decision, outcome: Outcome) {
        let now = decision.forecast.map_or(0.0, |forecast| self.history.value(forecast.measure));
        let text = wording::outcome(&self.sampler.roster, id, decision, outcome, now);
        self.log.write(JournalEntry {
            kind: EntryKind::Outcome,
            mode: self.mode,
            text,
            of: Some(id),
            outcome: Some(wording::entry_outcome(outcome)),
            ..JournalEntry::default()
        });
    }

    /// Renews the limits in force.
    pub(super) async fn renew(&mut self) {
        if self.in_force.is_empty() {
            return self.end_what_must_end().await;
        }
        if let Err(error) = self.apply().await {
            self.problem = Some(format!("the limits could not be renewed: {error}"));
            return;
        }
        // The file is synced, so it is not written each time.
        let until = self.now() + self.lifetime().as_secs_f64();
        if until - self.kept.limits_until > 0.25 * self.lifetime().as_secs_f64() {
            self.save_or_log();
        }
    }

    /// Ends limits that could not be ended before.
    pub(super) async fn end_what_must_end(&mut self) {
        if self.must_end && self.in_force.is_empty() {
            // They end by themselves otherwise.
            let _ = self.apply().await;
        }
    }

    /// Carries out what is in force.
    pub(super) async fn apply(&mut self) -> Result<(), String> {
        let limits = self.in_force.carried(&self.sampler.roster);
        let (lifetime, within) = (self.lifetime(), self.settings.limits.sample_timeout);
        self.must_end = true;
        let actuator = self.actuator.as_mut().map_err(|reason| reason.clone())?;
        let applied = timeout(within, actuator.apply(&limits, lifetime)).await;
        applied.unwrap_or_else(|_| Err(format!("no reply within {within:?}")))?;
        self.must_end = !self.in_force.is_empty();
        Ok(())
    }

    /// Ends the limits of the rules, and says why.
    pub(super) async fn end_decided(&mut self, because: &str) {
        if !self.in_force.has_decided(&self.sampler.roster) {
            return;
        }
        self.in_force.end_decided(&self.sampler.roster);
        self.supersede();
        let ended = self.apply().await;
        let text = match ended {
            Ok(()) => format!("ended all limits: {because}"),
            Err(error) => format!(
                "ended all limits: {because}. That is not confirmed ({error}); they end by themselves within {:.0} s",
                self.lifetime().as_secs_f64()
            ),
        };
        self.note(EntryKind::End, text);
        self.save_or_log();
    }

    /// Ends limits where the rules would not: without a single sample since the start, they decide nothing, and their steps
    /// back wait until processes are replaced, which may need the server that is away.
    pub(super) async fn end_without_data(&mut self) {
        let (now_seconds, hold_for) = (self.now_seconds(), self.settings.hold_for.as_secs_f64());
        let age = self.history.age_seconds(now_seconds);
        if self.history.last.is_none() && now_seconds > hold_for {
            self.end_decided("there have been no data since the start").await;
        } else if age >= hold_for && self.change_over.is_under_way() {
            let because = format!("no data for {age:.0} s, and processes are still being replaced");
            self.end_decided(&because).await;
        }
    }

    pub(super) async fn end_expired_overrides(&mut self) {
        let (now, now_seconds) = (self.now(), self.now_seconds());
        let expired: Vec<_> =
            self.in_force.overrides.extract_if(.., |set| set.until <= now).collect();
        for set in &expired {
            let class = set.class.as_deref().and_then(|name| self.sampler.roster.find_class(name));
            if class.is_some() || set.class.is_none() {
                self.in_force.set_limit(class, None, now);
            }
            let text = format!("the value of {} for {} has expired", set.by, what(&set.class));
            self.note(EntryKind::Override, text);
        }
        if !expired.is_empty() {
            let _ = self.apply().await;
            self.save_or_log();
        }
        self.in_force.note_overrides(&self.sampler.roster, now, now_seconds);
    }

    /// Stores what survives a restart.
    pub(super) fn save(&mut self) -> std::io::Result<()> {
        self.note_normal_values();
        let roster = &self.sampler.roster;
        self.kept.limits = match self.mode {
            Mode::On => self.in_force.kept(roster),
            Mode::Advise | Mode::Off => Vec::new(),
        };
        self.kept.limits_until = self.now() + self.lifetime().as_secs_f64();
        self.kept.overrides.clone_from(&self.in_force.overrides);
        let written = self.state_file.write(&self.kept);
        if let Err(error) = &written {
            tracing::error!(%error, "autopilot: state.json cannot be written");
            self.metrics.journal_error();
        }
        written
    }

    /// The same at the end. A folder that is gone was removed with all that it could be read from again.
    pub(super) fn save_at_the_end(&mut self) {
        if self.state_file.has_folder() {
            self.save_or_log();
        } else {
            tracing::debug!("autopilot: its folder is gone, and nothing is stored");
        }
    }

    /// The same where nobody waits for it: an error is in the log and in the metrics.
    pub(super) fn save_or_log(&mut self) {
        drop(self.save());
    }
}

/// Returns whether a change permits fewer jobs than before.
fn tightens(change: &Change) -> bool {
    match change {
        Change::Threads { from, to } => to < from,
        Change::Cap { from, to, .. } => to.is_some_and(|to| from.is_none_or(|from| to < from)),
        Change::Allocation { .. } | Change::FreshLane { .. } => false,
    }
}

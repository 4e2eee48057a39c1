//! The start: what was in force before a restart goes on, or is known to have ended.

use weir_control::{Change, Decision, Outcome};

use super::{Autopilot, CLOCK_STEP_MIN};
use crate::journal::{EntryKind, JournalEntry};
use crate::mode::Mode;
use crate::state_file::KeptLimit;

impl Autopilot {
    pub(super) async fn begin(&mut self) {
        self.check_mode();
        self.window.set_wanted(self.mode != Mode::Off);
        self.lease.set_wanted(self.mode == Mode::On);
        let limits = std::mem::take(&mut self.kept.limits);
        let now = self.now();
        let overrides = std::mem::take(&mut self.kept.overrides);
        for set in overrides {
            if self.mode == Mode::Off || set.until <= now || !self.can_go_on(&set.class) {
                let text = format!("the value of {} for {} has ended", set.by, what(&set.class));
                self.note(EntryKind::Restart, text);
                continue;
            }
            let class = set.class.as_deref().map(|name| self.sampler.roster.class(name));
            let Some(class) = class.map_or(Some(None), |class| class.map(Some)) else { continue };
            self.in_force.set_limit(class, Some(set.jobs), set.at);
            self.in_force.overrides.push(set);
        }
        if !limits.is_empty() {
            self.continue_or_end(&limits, now);
        }
        if !self.in_force.is_empty() {
            self.renew().await;
        }
        self.save_or_log();
        self.publish();
    }

    /// A mode that the settings or the store do not permit is not in force.
    fn check_mode(&mut self) {
        let reason = match self.mode {
            Mode::Off => None,
            Mode::Advise => self.cannot_read().map(str::to_owned),
            Mode::On => self.cannot_act(),
        };
        if let Some(reason) = reason {
            let text = format!("the mode {} is not possible, so it is off: {reason}", self.mode);
            self.mode = Mode::Off;
            self.note(EntryKind::Failure, text);
        }
    }

    fn continue_or_end(&mut self, limits: &[KeptLimit], now: f64) {
        let shown: Vec<String> =
            limits.iter().map(|it| format!("{} at {}", what(&it.class), it.jobs)).collect();
        let shown = shown.join(", ");
        let left = self.kept.limits_until - now;
        let because = if self.mode != Mode::On {
            Some(format!("the mode is {}", self.mode))
        } else if left <= 0.0 {
            Some(format!("they were not renewed for {:.0} s", -left))
        } else {
            let is_later = left > self.lifetime().as_secs_f64() + CLOCK_STEP_MIN;
            is_later.then(|| "the clock was set back meanwhile".to_owned())
        };
        if let Some(because) = because {
            let text = format!("limits from before the restart have ended ({shown}): {because}");
            self.note(EntryKind::Restart, text);
            return;
        }
        for limit in limits {
            if !self.can_go_on(&limit.class) {
                continue;
            }
            let class = limit.class.as_deref().map(|name| self.sampler.roster.class(name));
            let Some(class) = class.map_or(Some(None), |class| class.map(Some)) else { continue };
            self.in_force.set_limit(class, Some(limit.jobs), limit.since);
            self.remember_limit(class, limit, now);
        }
        let text = format!("limits from before the restart go on ({shown})");
        self.note(EntryKind::Restart, text);
    }

    /// Returns whether such a limit can still be carried out: the settings may have changed.
    fn can_go_on(&mut self, class: &Option<String>) -> bool {
        match (&mut self.actuator, class) {
            (Ok(actuator), Some(class)) => actuator.can_limit(class, true).is_ok(),
            (actuator, _) => actuator.is_ok(),
        }
    }

    /// Lets the rules know since when a class is limited: a paused one is not tried again because of a restart.
    fn remember_limit(&mut self, class: Option<usize>, limit: &KeptLimit, now: f64) {
        let Some(class) = class else { return };
        let decision = Decision {
            at_seconds: self.now_seconds() - (now - limit.since).max(0.0),
            change: Change::Cap { class, from: None, to: Some(limit.jobs) },
            reason: String::new(),
            forecast: None,
        };
        self.history.judged.push_back((decision, Outcome::Unclear));
    }

    pub(super) fn note(&mut self, kind: EntryKind, text: String) -> Option<u64> {
        self.log.write(JournalEntry { kind, mode: self.mode, text, ..JournalEntry::default() })
    }
}

/// Returns what is limited, for people.
pub(super) fn what(class: &Option<String>) -> &str {
    class.as_deref().unwrap_or("all queues")
}

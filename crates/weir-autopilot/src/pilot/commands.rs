//! What operators change at run time.

use super::Autopilot;
use super::begin::what;
use crate::handle::{Command, CommandError};
use crate::journal::{EntryChange, EntryKind, JournalEntry};
use crate::mode::Mode;
use crate::state_file::{KeptMode, KeptOverride};
use crate::view::{ModeChange, OverrideChange};

/// How long a value that was set by hand holds, unless the operator says.
const OVERRIDE_SECONDS: u64 = 3_600;
/// The longest time.
const OVERRIDE_SECONDS_MAX: u64 = 7 * 24 * 3_600;
/// Bytes of the name of an operator.
const BY_BYTES_MAX: usize = 100;

impl Autopilot {
    pub(crate) async fn execute(&mut self, command: Command) {
        // The operator may be gone.
        match command {
            Command::Mode(change, reply) => {
                let changed = self.change_mode(change).await;
                self.publish();
                let _ = reply.send(changed);
            }
            Command::Note(by, text) => {
                let (kind, mode, by) = (EntryKind::Override, self.mode, Some(operator(&by)));
                self.log.write(JournalEntry { kind, mode, text, by, ..JournalEntry::default() });
                self.publish();
            }
            Command::Override(change, reply) => {
                let changed = self.change_override(change).await;
                self.publish();
                let _ = reply.send(changed);
            }
        }
    }

    async fn change_mode(&mut self, change: ModeChange) -> Result<(), CommandError> {
        let (mode, by) = (change.mode, operator(&change.by));
        let reason = match mode {
            Mode::Off => None,
            Mode::Advise => self.cannot_read().map(str::to_owned),
            Mode::On => self.cannot_act(),
        };
        if let Some(reason) = reason {
            return Err(CommandError::NotPossible(reason));
        }
        let before = std::mem::replace(&mut self.mode, mode);
        self.window.set_wanted(mode != Mode::Off);
        self.lease.set_wanted(mode == Mode::On);
        self.advised.clear();
        if before == Mode::Off {
            self.sampler.begin_anew();
        }
        let text = match before == mode {
            true => format!("{by} set the mode to {mode}, as before"),
            false => format!("{by} changed the mode from {before} to {mode}"),
        };
        self.log.write(JournalEntry {
            kind: EntryKind::Mode,
            mode,
            text,
            by: Some(by.clone()),
            ..JournalEntry::default()
        });
        let (settings, at) = (self.settings.mode, self.now());
        self.kept.mode = Some(KeptMode { mode, settings, by: by.clone(), at });
        if mode == Mode::Off {
            self.end_overrides(&by);
        }
        if mode != Mode::On {
            self.end_decided(&format!("{by} changed the mode to {mode}")).await;
        }
        self.end_what_must_end().await;
        self.save().map_err(|error| {
            CommandError::Failed(format!("the mode is {mode} until the next restart: {error}"))
        })
    }

    /// Ends what operators have set, because nothing holds while the autopilot is off.
    fn end_overrides(&mut self, by: &str) {
        for set in std::mem::take(&mut self.in_force.overrides) {
            let text = format!("{by} ended the value of {} for {}", set.by, what(&set.class));
            self.note(EntryKind::Override, text);
        }
    }

    async fn change_override(&mut self, change: OverrideChange) -> Result<(), CommandError> {
        let by = operator(&change.by);
        if self.mode == Mode::Off {
            let reason = "the autopilot is off; a value holds while it is on or advises";
            return Err(CommandError::NotPossible(reason.to_owned()));
        }
        if let Err(reason) = &self.actuator {
            return Err(CommandError::NotPossible(reason.clone()));
        }
        let can_limit = match (&change.class, &mut self.actuator) {
            (Some(class), Ok(actuator)) if change.jobs.is_some() => actuator.can_limit(class, true),
            _ => Ok(()),
        };
        if let Err(why) = can_limit {
            let text = format!(
                "{} has no limit for a job type, and the autopilot can't limit it here: {why}; without a type, the value is one \
                 for the threads of autopilot.manage",
                self.system.name()
            );
            return Err(CommandError::NotPossible(text));
        }
        let class = match &change.class {
            None => None,
            Some(name) => Some(self.sampler.roster.class(name).ok_or_else(|| {
                let text = format!("there are too many job types (autopilot.limits.advanced.classes_max); {name:?} is not among them");
                CommandError::NotPossible(text)
            })?),
        };
        let set = match change.jobs {
            Some(jobs) => Some(self.checked_override(&change, jobs, &by)?),
            None => None,
        };
        self.carry_out_override(class, change, set, by).await
    }

    fn checked_override(
        &self,
        change: &OverrideChange,
        jobs: u32,
        by: &str,
    ) -> Result<KeptOverride, CommandError> {
        let seconds = change.for_seconds.unwrap_or(OVERRIDE_SECONDS);
        if !(1..=OVERRIDE_SECONDS_MAX).contains(&seconds) {
            let text = format!("a value holds for 1 s to {OVERRIDE_SECONDS_MAX} s");
            return Err(CommandError::Invalid(text));
        }
        if jobs == 0 && change.class.is_none() {
            let text =
                "0 for all queues would stop all jobs; pause the queues instead (weir jobs pause)";
            return Err(CommandError::Invalid(text.to_owned()));
        }
        let at = self.now();
        let until = at + seconds as f64;
        Ok(KeptOverride { class: change.class.clone(), jobs, at, until, by: by.to_owned() })
    }

    async fn carry_out_override(
        &mut self,
        class: Option<usize>,
        change: OverrideChange,
        set: Option<KeptOverride>,
        by: String,
    ) -> Result<(), CommandError> {
        let before = self.in_force.clone();
        let others = before.overrides.iter().filter(|it| it.class != change.class).count();
        let had_one = others < before.overrides.len();
        if set.is_some() && others >= self.settings.limits.overrides_max {
            let text = format!(
                "{others} values are set by hand, and no more may be (autopilot.limits.advanced.overrides_max)"
            );
            return Err(CommandError::NotPossible(text));
        }
        if set.is_none() && !had_one {
            let text = format!("nothing is set by hand for {}", what(&change.class));
            return Err(CommandError::NotPossible(text));
        }
        let now = self.now();
        self.in_force.overrides.retain(|it| it.class != change.class);
        self.in_force.overrides.extend(set.clone());
        self.in_force.set_limit(class, change.jobs, now);
        if let Err(error) = self.apply().await {
            self.in_force = before;
            return Err(CommandError::Failed(format!("{}: {error}", self.system.name())));
        }
        let of = what(&change.class);
        let text = match &set {
            Some(set) => {
                let seconds = set.until - set.at;
                format!("{by} limited {of} to {} at once for {seconds:.0} s", set.jobs)
            }
            None => format!("{by} ended the value for {of}"),
        };
        let from = before.views(&self.sampler.roster, 0.0).into_iter();
        let from = from.filter(|it| it.class == change.class).map(|it| it.jobs).next();
        self.log.write(JournalEntry {
            kind: EntryKind::Override,
            mode: self.mode,
            text,
            change: Some(EntryChange { class: change.class, from, to: change.jobs }),
            by: Some(by),
            ..JournalEntry::default()
        });
        let now_seconds = self.now_seconds();
        self.in_force.note_overrides(&self.sampler.roster, now, now_seconds);
        self.save().map_err(|error| {
            CommandError::Failed(format!("the value holds until the next restart: {error}"))
        })
    }
}

/// Returns the name of an operator for the journal, without control characters.
fn operator(by: &str) -> String {
    let name: String = by.chars().filter(|it| !it.is_control()).collect();
    let end = name.floor_char_boundary(BY_BYTES_MAX);
    match name[..end].trim() {
        "" => "an operator".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_operators_are_short_and_printable() {
        assert_eq!(operator(" ann\n"), "ann");
        assert_eq!(operator("\u{1b}"), "an operator");
        assert_eq!(operator(&"é".repeat(80)).len(), 100);
    }
}

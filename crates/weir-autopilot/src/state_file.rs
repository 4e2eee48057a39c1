//! What survives a restart: the mode that was set at run time, what is in force, and what operators have set.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_base::kept;

use crate::mode::Mode;

const FILE: &str = "state.json";

/// The content of the file. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptState {
    /// The mode that was set at run time.
    #[serde(default)]
    pub mode: Option<KeptMode>,
    /// Limits of the autopilot.
    #[serde(default)]
    pub limits: Vec<KeptLimit>,
    /// When they end unless they are renewed.
    #[serde(default)]
    pub limits_until: f64,
    /// Values that operators have set.
    #[serde(default)]
    pub overrides: Vec<KeptOverride>,
    /// Normal values by job type.
    #[serde(default)]
    pub normal: BTreeMap<String, KeptNormal>,
    /// The most database sessions that were served at full speed.
    #[serde(default)]
    pub fast_sessions: f64,
}

/// Normal values of a job type: sums over about the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptNormal {
    /// Seconds of a job in the database.
    pub base_seconds: f64,
    /// Seconds of database sessions.
    pub session_seconds: f64,
    /// Seconds of those that were idle in a transaction for long.
    #[serde(default)]
    pub idle_seconds: f64,
    /// Jobs that ended.
    pub finished: f64,
    /// Seconds that they ran.
    pub run_seconds: f64,
    /// The time.
    pub span_seconds: f64,
}

/// A mode that was set at run time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptMode {
    /// The mode.
    pub mode: Mode,
    /// The mode of the settings at that time: once it is another one, the settings are newer.
    pub settings: Mode,
    /// Who set it.
    pub by: String,
    /// When.
    pub at: f64,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptLimit {
    /// The job type. `None`: all queues together.
    pub class: Option<String>,
    /// The most jobs in progress.
    pub jobs: u32,
    /// Since when.
    pub since: f64,
}

/// A value that an operator has set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptOverride {
    /// The job type. `None`: all queues together.
    pub class: Option<String>,
    /// The most jobs in progress.
    pub jobs: u32,
    /// When it was set.
    pub at: f64,
    /// When it ends.
    pub until: f64,
    /// Who set it.
    pub by: String,
}

/// The file.
#[derive(Debug)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// The file in a folder, which exists.
    #[must_use]
    pub fn within(directory: &Path) -> Self {
        Self(directory.join(FILE))
    }

    /// Returns whether the folder still exists.
    #[must_use]
    pub fn has_folder(&self) -> bool {
        self.0.parent().is_some_and(Path::is_dir)
    }

    /// Reads the file; a missing one is empty.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self) -> io::Result<KeptState> {
        kept::read(&self.0)
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// It cannot be written; the old one stays.
    pub fn write(&self, state: &KeptState) -> io::Result<()> {
        kept::write(&self.0, state)
    }
}

impl KeptState {
    /// Returns the mode in force: the one that was set at run time, unless the settings have changed since.
    #[must_use]
    pub fn mode_in_force(&self, settings: Mode) -> Mode {
        let by_hand = self.mode.as_ref().filter(|kept| kept.settings == settings);
        by_hand.map_or(settings, |kept| kept.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_was_set_by_hand_holds_until_the_settings_change() {
        let mode = KeptMode { mode: Mode::Off, settings: Mode::On, by: "me".to_owned(), at: 1.0 };
        let state = KeptState { mode: Some(mode), ..KeptState::default() };
        assert_eq!(state.mode_in_force(Mode::On), Mode::Off);
        assert_eq!(state.mode_in_force(Mode::Advise), Mode::Advise);
        assert_eq!(KeptState::default().mode_in_force(Mode::On), Mode::On);
    }
}

//! A setting that a plan changes.

use serde::Serialize;

/// A line of a settings file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedSetting {
    /// Its name.
    pub name: &'static str,
    /// The value as written in the file.
    pub value: String,
    /// Why this value was chosen.
    pub reason: &'static str,
    /// Whether it requires a restart.
    pub restart: bool,
}

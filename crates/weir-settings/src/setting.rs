//! The definition of one setting.

use std::fmt;

use crate::change::Change;

/// A setting, by its key in its table. Its type is that of the field it is read into.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    /// Its table: `realtime.limits`. Empty for tables that are in several places.
    pub section: &'static str,
    /// What it does, for the reference.
    pub doc: &'static str,
    /// What a change requires.
    pub change: Change,
    /// It is read from the table `advanced` of its table, and left out of `weir init`.
    pub is_advanced: bool,
    /// Its old name in its table, or outside of the table `advanced`.
    pub(crate) formerly: Option<&'static str>,
}

impl Setting {
    pub const fn new(name: &'static str, doc: &'static str, change: Change) -> Self {
        Self { name, section: "", doc, change, is_advanced: false, formerly: None }
    }

    #[must_use]
    pub const fn within(self, section: &'static str) -> Self {
        Self { section, ..self }
    }

    #[must_use]
    pub const fn advanced(self) -> Self {
        Self { is_advanced: true, formerly: Some(self.name), ..self }
    }

    #[must_use]
    pub const fn formerly(self, name: &'static str) -> Self {
        Self { formerly: Some(name), ..self }
    }

    /// Returns whether `path` is its full name.
    pub fn is(&self, path: &str) -> bool {
        path == self.to_string()
    }
}

/// The whole name, for messages and metrics.
impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, name, .. } = self;
        if !section.is_empty() {
            write!(formatter, "{section}.")?;
        }
        if self.is_advanced {
            formatter.write_str("advanced.")?;
        }
        formatter.write_str(name)
    }
}

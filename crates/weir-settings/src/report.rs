//! What reading a settings file brings to light: every value in effect, every error.

use std::ops::Range;

use crate::change::Change;
use crate::error::SettingError;
use crate::renamed::{Removed, Renamed};
use crate::setting::Setting;

/// The value of one setting, as it is in effect.
#[derive(Clone, Debug)]
pub struct SettingValue {
    /// `jobs.limits.advanced.fetch_wait`.
    pub path: String,
    /// As written in the file; secrets are not shown.
    pub shown: String,
    pub default: String,
    /// `duration`, `size`, `number` ..
    pub kind: &'static str,
    pub allowed: Allowed,
    pub setting: Setting,
    /// In the file or in the environment.
    pub is_set: bool,
    /// The environment variable that it is from.
    pub variable: Option<String>,
}

/// Which values of its kind a setting takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    Any,
    /// From the first to the second, both as one writes them.
    Range(String, String),
    /// One of several words.
    Words(Vec<&'static str>),
}

impl SettingValue {
    /// Returns what a change of the setting requires.
    pub fn change(&self) -> Change {
        self.setting.change
    }
}

/// The results of reading a file.
#[derive(Debug, Default)]
pub struct Report {
    text: String,
    pub errors: Vec<SettingError>,
    pub values: Vec<SettingValue>,
    /// Settings under old names.
    pub renamed: Vec<Renamed>,
    /// Settings that no longer have an effect.
    pub removed: Vec<Removed>,
    /// The positions of the keys and tables in the file.
    pub(crate) places: Vec<(String, Range<usize>)>,
    /// Keys whose values could not be read: their fields hold defaults.
    unread: Vec<String>,
    /// All keys have been read.
    is_read: bool,
}

impl Report {
    /// Creates the report of a file with this text.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Begins the checks of several settings, after all keys have been read.
    pub fn begin_checks(&mut self) {
        self.is_read = true;
    }

    /// An error at `path`, or at the nearest table around it that is in the file. Nothing about a
    /// value that could not be read: it would be about the default.
    pub fn error_at(&mut self, path: &str, message: String) {
        if self.is_read && self.unread.iter().any(|unread| unread == path) {
            return;
        }
        let mut path = path;
        let span = loop {
            let place = self.places.iter().find(|(known, _)| known == path);
            match (place, path.rsplit_once('.')) {
                (Some((_, span)), _) => break span.clone(),
                (None, Some((around, _))) => path = around,
                (None, None) => break 0..0,
            }
        };
        self.error(&span, message);
    }

    /// The setting `new` is in the file under its old name, at `span`.
    pub(crate) fn renamed(
        &mut self,
        old: String,
        new: String,
        span: Range<usize>,
        replacement: String,
    ) {
        let line = SettingError::at(&self.text, &span, String::new()).line;
        self.renamed.push(Renamed { line, old, new, span, replacement });
    }

    /// The file has a setting, at `span`, that no longer has an effect.
    pub(crate) fn removed(&mut self, name: String, span: &Range<usize>) {
        let line = SettingError::at(&self.text, span, String::new()).line;
        self.removed.push(Removed { line, name });
    }

    /// The value of the key at `path` can't be read.
    pub(crate) fn unreadable(&mut self, path: String, span: &Range<usize>, message: &str) {
        self.error(span, format!("{path}: {message}"));
        self.unread.push(path);
    }

    pub fn error(&mut self, span: &Range<usize>, message: String) {
        self.errors.push(SettingError::at(&self.text, span, message));
    }
}

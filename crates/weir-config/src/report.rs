//! What reading a settings file brings to light: every value in effect, every mistake.

use std::ops::Range;

use super::change::Change;
use super::mistakes::Mistake;

/// The value of one setting, as it is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// `jobs.limits.fetch_wait`.
    pub path: String,
    /// As one writes it in the file; secrets are not shown.
    pub shown: String,
    pub default: String,
    /// `duration`, `size`, `number` ..
    pub kind: &'static str,
    pub doc: &'static str,
    /// A reload takes it.
    pub live: bool,
    pub is_set: bool,
}

impl Value {
    /// What a change of it takes.
    pub fn change(&self) -> Change {
        if self.live { Change::Reload } else { Change::without_reload(&self.path) }
    }
}

/// What reading a file brought to light.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub text: String,
    pub mistakes: Vec<Mistake>,
    pub values: Vec<Value>,
    /// Where each key and table stands.
    pub(super) places: Vec<(String, Range<usize>)>,
    /// Keys whose values could not be read: their fields hold defaults.
    unread: Vec<String>,
    /// All keys have been read.
    is_read: bool,
}

impl Report {
    /// Nothing has come to light about `text` yet.
    pub(crate) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// All keys have been read; what is found from now on is about their values together.
    pub(super) fn begin_checks(&mut self) {
        self.is_read = true;
    }

    /// A mistake at `path`, or at the nearest table around it that is in the file. A check of a value
    /// that could not be read finds nothing: it would be about the default.
    pub(crate) fn mistake_at(&mut self, path: &str, message: String) {
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
        self.mistake(&span, message);
    }

    /// A value of the key at `path` that can't be read.
    pub(super) fn unreadable(&mut self, path: String, span: &Range<usize>, message: &str) {
        self.mistake(span, format!("{path}: {message}"));
        self.unread.push(path);
    }

    pub(crate) fn mistake(&mut self, span: &Range<usize>, message: String) {
        self.mistakes.push(Mistake::at(&self.text, span, message));
    }
}

//! Old names of settings, which work for one release, and settings that were removed: both are warnings.

use std::fmt;
use std::ops::Range;

/// A setting that the file has under an old name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Counted from 1.
    pub line: usize,
    /// The whole name in the file.
    pub old: String,
    /// The whole name now.
    pub new: String,
    /// The key in the text of the file, in bytes.
    pub(crate) span: Range<usize>,
    /// The new value.
    pub(crate) replacement: String,
}

impl fmt::Display for Renamed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, old, new, .. } = self;
        write!(
            formatter,
            "line {line}: {old} is called {new} now; `weir check --fix` rewrites the file"
        )
    }
}

/// A setting in the file that no longer has an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Counted from 1.
    pub line: usize,
    /// The whole name in the file.
    pub name: String,
}

impl fmt::Display for Removed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, name } = self;
        write!(formatter, "line {line}: {name} no longer has an effect; remove the line")
    }
}

/// Returns `text` with the current names.
pub fn rewrite(text: &str, renamed: &[Renamed]) -> String {
    let mut renamed: Vec<_> = renamed.iter().collect();
    renamed.sort_by_key(|it| it.span.start);
    let mut fresh = String::with_capacity(text.len() + 64);
    let mut done = 0;
    for Renamed { span, replacement, .. } in renamed {
        fresh.push_str(&text[done..span.start]);
        fresh.push_str(replacement);
        done = span.end;
    }
    fresh.push_str(&text[done..]);
    fresh
}

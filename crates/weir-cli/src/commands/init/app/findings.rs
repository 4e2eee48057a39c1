//! What was read, what was assumed instead, and what Weir will not run.

use crate::output;

/// Remarks on the files of an application, by kind.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Files that were read, with what they say.
    pub(super) read: Vec<String>,
    /// Files that could not be read or used, with the reason and what is assumed instead.
    pub(super) not_read: Vec<String>,
    /// Values that no file sets.
    pub(super) assumed: Vec<String>,
    /// Parts of the application that the written files do not cover.
    pub(super) not_managed: Vec<String>,
}

impl Findings {
    /// Returns a line for each remark, which begins with its kind.
    pub(super) fn text(&self) -> String {
        let kinds = [
            ("read", &self.read),
            ("not read", &self.not_read),
            ("assumed", &self.assumed),
            ("not managed", &self.not_managed),
        ];
        let line =
            |kind: &str, remark: &String| format!("{kind:<11}  {}\n", output::printable(remark));
        kinds.iter().flat_map(|(kind, all)| all.iter().map(move |it| line(kind, it))).collect()
    }
}

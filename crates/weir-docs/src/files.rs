//! The files of docs/ that the site has: pages in Markdown, and pictures.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::summary;

/// Files by their paths in docs/.
#[derive(Debug)]
pub(crate) struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    pub(crate) fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self(files.into_iter().collect())
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Returns the text of a page, or of the summary.
    pub(crate) fn markdown(&self, path: &str) -> Option<Cow<'_, str>> {
        let text = self.0.get(path).filter(|_| path.ends_with(".md"))?;
        Some(String::from_utf8_lossy(text))
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = &str> {
        let pages = self.0.keys().map(String::as_str);
        pages.filter(|path| path.ends_with(".md") && *path != summary::FILE)
    }

    pub(crate) fn pictures(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.0.iter().map(|(path, content)| (&**path, &**content));
        files.filter(|(path, _)| !path.ends_with(".md"))
    }
}

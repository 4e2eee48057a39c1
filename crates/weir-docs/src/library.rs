//! The whole documentation.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use crate::files::Files;
use crate::markdown;
use crate::pack;
use crate::page::{self, Page};
use crate::search::{SearchIndex, SearchResults};
use crate::site::{self, Site};
use crate::summary::{self, Section};

const PACK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/docs.pack"));

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::new(pack::unpack(PACK)));

/// Returns the documentation of this version of Weir. It is unpacked at the first use.
pub fn library() -> &'static Library {
    &LIBRARY
}

/// Pages, pictures, and the order of the pages.
#[derive(Debug)]
pub struct Library {
    files: Files,
    sections: Vec<Section>,
    index: OnceLock<SearchIndex>,
}

impl Library {
    /// Returns the documentation in these files, by their paths in docs/.
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let files = Files::new(files);
        let sections = summary::parse(&files.markdown(summary::FILE).unwrap_or_default());
        Self { files, sections, index: OnceLock::new() }
    }

    /// Returns the pages by section, in the order of reading. The first page (README.md) is in none.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the files of all pages.
    pub fn pages(&self) -> impl Iterator<Item = &str> {
        self.files.pages()
    }

    /// Returns the files of all pictures, with their content.
    pub fn pictures(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.pictures()
    }

    /// Returns the file of the page with a name such as `reference/settings`; the name may end with `.md`.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.pages().find(|path| site::name(path) == name || *path == name)
    }

    /// Returns the text of the page in a file of [`Self::pages`], without HTML comments.
    pub fn markdown(&self, path: &str) -> Option<Cow<'_, str>> {
        Some(markdown::without_comments(&self.files.markdown(path)?).into())
    }

    /// Renders the page in a file of [`Self::pages`].
    pub fn page(&self, path: &str, site: Site) -> Option<Page> {
        let markdown = self.markdown(path)?;
        Some(page::render(&self.files, path, &markdown, site))
    }

    /// Returns the sections of pages that contain all words of the query, the best first.
    pub fn search(&self, query: &str) -> SearchResults {
        let pages =
            || self.pages().filter_map(|path| Some((path, self.page(path, Site::Console)?)));
        self.index.get_or_init(|| SearchIndex::new(pages())).search(query)
    }
}

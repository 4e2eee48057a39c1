//! The documentation: its first page, the others, and the search.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use weir_docs::page::{Heading, Page};
use weir_docs::search::{HITS_MAX, QUERY_CHARS_MAX, SearchResults};
use weir_docs::site::Site;
use weir_docs::summary;

use super::frame::{PageFrame, Section, html};
use super::request::{PageRequest, PageResult};
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Deserialize)]
struct DocsQuery {
    /// The words to search for.
    #[serde(default)]
    q: String,
}

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage {
    frame: PageFrame,
    page: Page,
    sections: Vec<DocsSection>,
    is_start: bool,
    search: SearchForm,
}

#[derive(Template)]
#[template(path = "docs_search.html")]
struct DocsSearchPage {
    frame: PageFrame,
    /// What was not found, if an address was wrong.
    missing: Option<String>,
    results: SearchResults,
    search: SearchForm,
}

/// The search form of all pages of the documentation.
struct SearchForm {
    query: String,
    query_chars_max: usize,
}

struct DocsSection {
    title: &'static str,
    entries: Vec<DocsEntry>,
}

struct DocsEntry {
    entry: &'static summary::Entry,
    address: String,
    is_current: bool,
}

/// `GET /docs`, `GET /docs?q=..`
pub(crate) async fn start(request: PageRequest) -> PageResult {
    let DocsQuery { q } = request.query()?;
    if q.trim().is_empty() {
        return show(&request, "README.md");
    }
    Ok(html(&DocsSearchPage::new(&request, "Search the documentation", &q)))
}

/// `GET /docs/{*page}`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let library = weir_docs::library();
    let name = request.path().trim_start_matches("/docs/");
    if let Some(path) = library.find(name) {
        return show(&request, path);
    }
    let picture = library.pictures().find(|(path, _)| *path == name);
    Ok(picture.map_or_else(
        || no_such_page(&request, name),
        |(path, content)| picture_response(path, content),
    ))
}

fn show(request: &PageRequest, path: &str) -> PageResult {
    let page = weir_docs::library().page(path, Site::Console);
    let page = page.ok_or_else(|| PageError::NotFound("there is no such page".to_owned()))?;
    Ok(html(&DocsPage {
        frame: request.frame(Section::Docs, page.title.clone()),
        page,
        sections: sections(path),
        is_start: path == "README.md",
        search: SearchForm::new(""),
    }))
}

fn picture_response(path: &str, content: &'static [u8]) -> Response {
    let is_svg = path.ends_with(".svg");
    let content_type = if is_svg { "image/svg+xml" } else { "image/png" };
    ([(CONTENT_TYPE, content_type)], content).into_response()
}

/// Responds with the search form and with what the words of the address find.
fn no_such_page(request: &PageRequest, name: &str) -> Response {
    let words = name.replace(|letter: char| !letter.is_alphanumeric(), " ");
    let page = DocsSearchPage {
        missing: Some(visible(name).into_owned()),
        ..DocsSearchPage::new(request, "No such page", words.trim())
    };
    (StatusCode::NOT_FOUND, html(&page)).into_response()
}

fn sections(current: &str) -> Vec<DocsSection> {
    let entry = |entry: &'static summary::Entry| DocsEntry {
        entry,
        address: Site::Console.address("", &entry.path),
        is_current: entry.path == current,
    };
    let sections = weir_docs::library().sections().iter();
    let shown = sections.map(|section| DocsSection {
        title: &section.title,
        entries: section.entries.iter().map(entry).collect(),
    });
    shown.collect()
}

impl DocsPage {
    /// Returns the headings that are listed: sections, and their parts where they are few.
    fn contents(&self) -> impl Iterator<Item = &Heading> {
        const HEADINGS_MAX: usize = 40;
        let after_title = || self.page.headings.iter().skip(1);
        let below = |level: u8| after_title().filter(move |heading| heading.level <= level);
        let level = if below(3).count() > HEADINGS_MAX { 2 } else { 3 };
        below(level)
    }
}

impl DocsSearchPage {
    fn new(request: &PageRequest, title: &str, query: &str) -> Self {
        Self {
            frame: request.frame(Section::Docs, title),
            missing: None,
            results: weir_docs::library().search(query),
            search: SearchForm::new(query),
        }
    }

    fn count(&self) -> String {
        let total = self.results.total;
        match total {
            0 => "Nothing contains all of these words.".to_owned(),
            1..=HITS_MAX => format!("{}.", figures::counted(total as u64, "section")),
            _ => format!("The best {HITS_MAX} of {} sections.", figures::count(total as u64)),
        }
    }
}

impl SearchForm {
    fn new(query: &str) -> Self {
        let query = query.chars().take(QUERY_CHARS_MAX).collect::<String>();
        Self { query: visible(&query).into_owned(), query_chars_max: QUERY_CHARS_MAX }
    }
}

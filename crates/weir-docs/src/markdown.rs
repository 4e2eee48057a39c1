//! Markdown, as far as pages use it.

use pulldown_cmark::{Event, Options, Parser};

pub(crate) fn events(markdown: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES)
}

//! Error pages.

use askama::Template;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;

use super::frame::{PageFrame, Section, html};
use crate::console::Console;
use crate::guard::visitor::{Access, Visitor};
use crate::metrics::ConsoleLimit;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: PageFrame,
    status: u16,
    message: String,
}

/// Replaces the text of an error by a page.
pub(crate) fn with_error_pages(
    console: &Console,
    visitor: &Visitor,
    mut response: Response,
) -> Response {
    let Some(error) = response.extensions_mut().remove::<PageError>() else {
        return response;
    };
    if matches!(error, PageError::FormRejected(_)) {
        console.metrics().limit_hit(ConsoleLimit::BodyBytesMax);
    }
    let section = match visitor.access {
        Access::Stranger => Section::Login,
        Access::Person | Access::Program => Section::None,
    };
    let page = html(&ErrorPage {
        frame: PageFrame::new(console, visitor, section, "The request failed".to_owned()),
        status: response.status().as_u16(),
        // The error may quote the address.
        message: visible(&capitalised(&error.to_string())).into_owned(),
    });
    let (mut parts, _) = response.into_parts();
    let (page, body) = page.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.extend(page.headers);
    Response::from_parts(parts, body)
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Responds to all unknown paths.
pub(crate) async fn no_such_page() -> PageError {
    PageError::NotFound("there is no such page".to_owned())
}

//! Pages with a live section: the part that the browser fetches again every second, while the rest of
//! the page stays.
//!
//! One handler serves both. At the page's own path it returns the whole page with the section in
//! it, at `/live` plus that path the section alone.

use std::sync::Arc;

use axum::Router;
use axum::response::{Html, IntoResponse};

use super::request::{PageFuture, PageRequest, PageResult, get_page};
use crate::address::address;
use crate::console::Console;
use crate::page_error::PageError;

/// A rendered live section, for `live_section.html`.
pub(crate) struct LiveSection {
    /// The address from which the browser updates it.
    pub(crate) address: String,
    pub(crate) html: String,
}

/// The requested part of a live page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedPart {
    /// A visitor opened the page: it must show the effect of their last action.
    WholePage,
    /// The script updates the section: a recent snapshot is sufficient.
    SectionOnly,
}

/// Returns the routes of a live page.
pub(crate) fn live_page(
    path: &str,
    handler: fn(PageRequest) -> PageFuture,
) -> Router<Arc<Console>> {
    Router::new().route(path, get_page(handler)).route(&section_path(path), get_page(handler))
}

fn section_path(path: &str) -> String {
    match path {
        "/" => "/live/overview".to_owned(),
        path => format!("/live{path}"),
    }
}

impl PageRequest {
    pub(crate) fn requested_part(&self) -> RequestedPart {
        match self.path().starts_with("/live/") {
            true => RequestedPart::SectionOnly,
            false => RequestedPart::WholePage,
        }
    }

    /// Returns a rendered section; `fields` are the query of its address.
    pub(crate) fn live_section(
        &self,
        rendered: askama::Result<String>,
        fields: &[(&str, &str)],
    ) -> Result<LiveSection, PageError> {
        let html = rendered.map_err(|error| PageError::Unavailable(error.to_string()))?;
        Ok(LiveSection { address: address(&section_path(self.path()), fields), html })
    }

    /// Responds with the rendered section, alone or within the page, as requested.
    pub(crate) fn live_response(
        &self,
        rendered: askama::Result<String>,
        fields: &[(&str, &str)],
        page: impl FnOnce(LiveSection) -> PageResult,
    ) -> PageResult {
        let section = self.live_section(rendered, fields)?;
        match self.requested_part() {
            RequestedPart::WholePage => page(section),
            RequestedPart::SectionOnly => Ok(Html(section.html).into_response()),
        }
    }
}

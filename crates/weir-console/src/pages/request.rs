//! The requests that page handlers receive, and their routes.
//!
//! A handler is a function from a request to a boxed future, so that the code of extraction,
//! routing and errors is compiled once and not once per page.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header::REFERER;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use serde::de::DeserializeOwned;

use super::frame::{PageFrame, Section};
use crate::console::Console;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;
use crate::page_error::PageError;

pub(crate) type PageResult = Result<Response, PageError>;
pub(crate) type PageFuture = Pin<Box<dyn Future<Output = PageResult> + Send>>;

/// A GET request of a visitor who is logged in.
pub(crate) struct PageRequest {
    pub(crate) console: Arc<Console>,
    pub(crate) visitor: Visitor,
    uri: Uri,
}

/// A POST request with the form of one of the console's own pages.
pub(crate) struct FormRequest {
    pub(crate) console: Arc<Console>,
    pub(crate) visitor: Visitor,
    pub(crate) form: CheckedForm,
    /// The address of the page with the form; empty if the browser does not send it.
    pub(crate) referer: String,
}

/// Returns the route of a page.
pub(crate) fn get_page(handler: fn(PageRequest) -> PageFuture) -> MethodRouter<Arc<Console>> {
    get(move |State(console): State<Arc<Console>>, visitor: Visitor, uri: Uri| {
        handler(PageRequest { console, visitor, uri })
    })
}

/// Returns the route of a form.
pub(crate) fn post_form(handler: fn(FormRequest) -> PageFuture) -> MethodRouter<Arc<Console>> {
    post(
        move |State(console): State<Arc<Console>>,
              visitor: Visitor,
              headers: HeaderMap,
              form: CheckedForm| {
            let referer = headers.get(REFERER).and_then(|value| value.to_str().ok());
            let referer = referer.unwrap_or_default().to_owned();
            handler(FormRequest { console, visitor, form, referer })
        },
    )
}

impl PageRequest {
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Parses the query fields that `T` names.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, PageError> {
        match Query::try_from_uri(&self.uri) {
            Ok(Query(query)) => Ok(query),
            Err(rejection) => Err(PageError::Invalid(rejection.body_text())),
        }
    }

    /// Returns the frame of the page for this request.
    pub(crate) fn frame(&self, section: Section, title: impl Into<String>) -> PageFrame {
        PageFrame::new(&self.console, &self.visitor, section, title.into())
    }
}

//! What a page answers when it can't.

use askama::Template;
use axum::http::header::{CONTENT_LENGTH, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use weir_jobs::handle::HandleError;
use weir_jobs::store::StoreError;

use super::shell::{Section, Shell};
use super::theme::Theme;
use crate::console::Console;
use crate::guard::visitor::{Access, Visitor};
use crate::metrics::Limit;
use crate::visible::visible;

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PageError {
    #[error("{0}")]
    JobServer(#[from] HandleError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error(
        "the form is from before a restart or a new login; go back, reload the page and try again"
    )]
    StaleForm,
    #[error("the form could not be read: {0} (console.limits.body_bytes_max)")]
    FormRefused(String),
    #[error("log in first")]
    NotLoggedIn,
    #[error("{0}")]
    Unavailable(String),
    #[error("too many live streams are open (console.limits.streams_max); close a tab or wait")]
    TooManyStreams,
}

impl PageError {
    /// On a page of jobs.
    pub(crate) fn no_jobs() -> Self {
        let why = "jobs are not served by this Weir: it was started with --only, without jobs";
        Self::NotFound(why.to_owned())
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::JobServer(HandleError::Gone | HandleError::Busy)
            | Self::Unavailable(_)
            | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::JobServer(HandleError::Store(StoreError::DiskFull)) => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            Self::JobServer(HandleError::Store(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::JobServer(HandleError::Invalid(_)) | Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::StaleForm => StatusCode::FORBIDDEN,
            Self::FormRefused(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotLoggedIn => StatusCode::UNAUTHORIZED,
        }
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shell: Shell,
    status: u16,
    message: String,
}

impl IntoResponse for PageError {
    /// Text, and the error itself for [`dressed`].
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, format!("{self}\n")).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Makes a page of an answer that is an error: in the visitor's colours, with the way onwards.
pub(crate) fn dressed(console: &Console, visitor: &Visitor, mut response: Response) -> Response {
    let Some(error) = response.extensions_mut().remove::<PageError>() else {
        return response;
    };
    if matches!(error, PageError::FormRefused(_)) {
        console.metrics().limit_hit(Limit::BodyBytesMax);
    }
    let section = match visitor.access {
        Access::Stranger => Section::Login,
        Access::Person | Access::Program => Section::None,
    };
    let page = super::html(&ErrorPage {
        shell: Shell::new(console, visitor, section, "That did not work"),
        status: response.status().as_u16(),
        // It may name what the address says.
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

/// Everything else.
pub(crate) async fn no_such_page() -> PageError {
    PageError::NotFound("there is no such page".to_owned())
}

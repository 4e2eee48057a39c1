//! The HTTP/1.1 client for other servers: receivers of webhooks, upstreams of a mirror, a running
//! Weir.
//!
//! An [`HttpClient`] sends requests to one server over pooled connections, within the time limits
//! of its [`ClientSettings`] and of the request. No function is generic and futures are boxed, so
//! that hyper's client is compiled in this crate only.

mod client;
mod connection;
mod error;
mod pool;
mod reach;
mod request;
mod response;
mod settings;
mod time_limit;
mod trust;
mod url;

use std::pin::Pin;

pub use client::HttpClient;
pub use error::HttpError;
pub use reach::Reach;
pub use request::HttpRequest;
pub use response::HttpResponse;
pub use settings::{ClientSettings, Server};
pub use time_limit::{Deadline, TimeLimit};
pub use trust::{CaError, ReadTrust, Trust};
pub use url::{HttpUrl, HttpUrlError};

/// A boxed future, so that it is compiled in this crate.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

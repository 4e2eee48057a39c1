//! How an attempt fails.

use std::io;

use hyper::StatusCode;

/// Why an attempt failed. With the section of `weir.toml` where the remedy names one.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PostError {
    #[error("cannot connect: {0}; is the receiver running, and is the URL right?")]
    Connect(io::Error),
    #[error(
        "no TLS: {0}; if the receiver's certificate is from an authority of your own, name its \
         file in {1}.ca"
    )]
    Tls(io::Error, &'static str),
    #[error("no connection within {0}.connect_timeout")]
    ConnectTimeout(&'static str),
    #[error("no response within {0}.response_timeout")]
    ResponseTimeout(&'static str),
    #[error("no HTTP/1.1 response: {0}")]
    Http(hyper::Error),
    #[error("the answer was {0}; redirects are not followed, so write the URL that it names")]
    Redirect(StatusCode),
    #[error("the answer was {0}; it must be 200, or another code from 200 to 299")]
    Status(StatusCode),
}

impl PostError {
    /// In one word, for metrics: `connect`, `tls`, `timeout`, `http`, `status`.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Tls(..) => "tls",
            Self::ConnectTimeout(_) | Self::ResponseTimeout(_) => "timeout",
            Self::Http(_) => "http",
            Self::Redirect(_) | Self::Status(_) => "status",
        }
    }
}

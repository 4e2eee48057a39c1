//! The errors of a request.

use std::io;

use weir_settings::Setting;

use super::reach::Reach;

/// Why there is no response, or no complete one.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The host name has no address.
    #[error("cannot look up the host: {0}; check the URL")]
    Dns(io::Error),
    /// The server accepted no connection.
    #[error("cannot connect: {0}; check that it is running, and the URL")]
    Connect(io::Error),
    /// Every address of the host is nearer than the request may connect to.
    #[error("{host} is not an address to connect to ({reach})")]
    TooNear {
        /// The name or address.
        host: String,
        /// How near the address is.
        reach: Reach,
    },
    /// TLS failed: there was no common version, or the certificate is not trusted.
    #[error("no TLS: {error}{}", ca_hint(.ca))]
    Tls {
        /// The error of rustls.
        error: io::Error,
        /// The setting that adds certificate authorities.
        ca: Option<&'static Setting>,
    },
    /// Name look-up, TCP and TLS exceeded the time limit.
    #[error("no connection within {0}")]
    ConnectTimedOut(&'static Setting),
    /// The server sent nothing within the time limit.
    #[error("it was silent for longer than {0}")]
    Silent(&'static Setting),
    /// The whole response exceeded the time limit.
    #[error("no complete response within {0}")]
    TimedOut(&'static Setting),
    /// The connection ended before the response did.
    #[error("no HTTP/1.1 response: {error}")]
    Closed {
        /// The error of hyper.
        error: hyper::Error,
        /// Whether the server may have received the request.
        was_sent: bool,
    },
    /// The response is not HTTP/1.1, or its head is too long.
    #[error("no HTTP/1.1 response: {0}")]
    InvalidResponse(hyper::Error),
    /// The body is longer than the caller accepts.
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
}

impl HttpError {
    pub(super) fn from_hyper(error: hyper::Error, was_sent: bool) -> Self {
        match error.is_parse() {
            true => Self::InvalidResponse(error),
            false => Self::Closed { error, was_sent },
        }
    }
}

fn ca_hint(ca: &Option<&Setting>) -> String {
    ca.map_or_else(String::new, |setting| {
        format!(
            "; if the server's certificate is from an authority of your own, name its file in \
             {setting}"
        )
    })
}

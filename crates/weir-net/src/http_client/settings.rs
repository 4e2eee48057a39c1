//! The server and the settings of an HTTP client.

use std::path::PathBuf;
use std::time::Duration;

use weir_settings::Setting;

use super::reach::Reach;
use super::{HttpUrl, TimeLimit, Trust};

/// The server that requests go to.
#[derive(Clone, Debug)]
pub enum Server {
    /// A URL, whose address must be no nearer than `nearest`.
    Web {
        /// Its path and query are not used; each request has its own.
        url: HttpUrl,
        /// [`Reach::Special`]: any address.
        nearest: Reach,
    },
    /// A unix socket, with a path of any length.
    Unix(PathBuf),
}

/// The settings of all connections of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The trusted certificate authorities.
    pub trust: Trust,
    /// The setting that adds certificate authorities, named in errors.
    pub ca: Option<&'static Setting>,
    /// The limit of name look-up, TCP and TLS together.
    pub connect_timeout: Option<TimeLimit>,
    /// The limit of silence, before the response's head and in its body.
    pub silence_timeout: Option<TimeLimit>,
    /// The limit from a request's first byte to the response's last.
    pub response_timeout: Option<TimeLimit>,
    /// A connection that was idle for longer is not reused.
    pub keep_alive: Duration,
    /// How many idle connections are kept.
    pub connections_kept_max: usize,
    /// The limit of bytes in a response's head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// Send `X-Name`, not `x-name`.
    pub has_title_case_headers: bool,
}

impl Default for ClientSettings {
    /// No time limits, one idle connection, public authorities.
    fn default() -> Self {
        Self {
            trust: Trust::public(),
            ca: None,
            connect_timeout: None,
            silence_timeout: None,
            response_timeout: None,
            keep_alive: Duration::MAX,
            connections_kept_max: 1,
            head_bytes_max: 64 << 10,
            has_title_case_headers: false,
        }
    }
}

impl ClientSettings {
    /// Returns the defaults with header names in title case. Names are case-insensitive, but some
    /// receivers compare the case: PHP's built-in server passes names on as they were sent, and
    /// pusher-http-php looks for `X-Pusher-Key`.
    #[must_use]
    pub fn for_webhooks() -> Self {
        Self { has_title_case_headers: true, ..Self::default() }
    }
}

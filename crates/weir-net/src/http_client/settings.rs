//! Where requests go, and what connections have in common.

use std::path::PathBuf;
use std::time::Duration;

use weir_settings::Setting;

use super::reach::Reach;
use super::{HttpUrl, TimeLimit, Trust};

/// Where requests go.
#[derive(Clone, Debug)]
pub enum Server {
    /// A URL, at an address that is no nearer than that.
    Web {
        /// Its target is not used: each request has its own.
        url: HttpUrl,
        /// [`Reach::Special`]: anywhere.
        nearest: Reach,
    },
    /// A unix socket, with a path of any length.
    Unix(PathBuf),
}

/// What connections have in common.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Which certificates are accepted.
    pub trust: Trust,
    /// The setting that adds certificate authorities, for errors.
    pub ca: Option<&'static Setting>,
    /// Name look-up, TCP and TLS together.
    pub connect_timeout: Option<TimeLimit>,
    /// Without a byte of the response, before its head and in its body.
    pub silence_timeout: Option<TimeLimit>,
    /// From a request's first byte to the response's last.
    pub response_timeout: Option<TimeLimit>,
    /// A connection that was idle for longer is not used again.
    pub keep_alive: Duration,
    /// Idle connections that are kept.
    pub connections_kept_max: usize,
    /// Bytes of a response's head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// `X-Name`, not `x-name`.
    pub has_title_case_headers: bool,
}

impl Default for ClientSettings {
    /// No time limits, one connection, public authorities.
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
    /// Header names in title case. Receivers should ignore the case, but some compare it: PHP's own
    /// server hands names over as they were sent, and pusher-http-php looks for `X-Pusher-Key`.
    #[must_use]
    pub fn for_webhooks() -> Self {
        Self { has_title_case_headers: true, ..Self::default() }
    }
}

//! Close codes, and how pusher-js reconnects after each.

/// A code of the protocol, for a WebSocket close frame or a `pusher:error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// The app accepts only TLS.
    TlsOnly,
    /// No app has this key.
    NoSuchApp,
    /// The app is disabled.
    AppDisabled,
    /// The app has reached its limit of connections.
    OverConnectionQuota,
    /// The path does not exist.
    PathNotFound,
    /// The protocol version in the URL is not a number.
    InvalidVersion,
    /// The protocol version is not supported.
    UnsupportedProtocol,
    /// The URL has no `protocol`.
    NoProtocol,
    /// A required signature is wrong or late.
    Unauthorized,
    /// A limit is reached, or the server shuts down. Clients should reconnect after a pause.
    OverCapacity,
    /// Clients should reconnect at once.
    Reconnect,
    /// A ping was not answered.
    NoPong,
    /// Nothing was received for too long.
    Inactive,
    /// Too many client events. Sent only in a `pusher:error`; the connection stays open.
    ClientEventRate,
    /// A watchlist exceeded the limit. Sent only in a `pusher:error`; the connection stays open.
    WatchlistTooLong,
}

/// What pusher-js does after a close code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnection {
    /// It never reconnects with the same parameters.
    Never,
    /// It reconnects at once, over TLS.
    AtOnceWithTls,
    /// It reconnects after exactly 1,000 ms.
    AfterOneSecond,
    /// It reconnects after 0 ms. Must not be sent to many clients at once: nothing spreads their
    /// reconnections.
    AtOnce,
}

impl CloseCode {
    /// All codes.
    pub const ALL: [Self; 15] = [
        Self::TlsOnly,
        Self::NoSuchApp,
        Self::AppDisabled,
        Self::OverConnectionQuota,
        Self::PathNotFound,
        Self::InvalidVersion,
        Self::UnsupportedProtocol,
        Self::NoProtocol,
        Self::Unauthorized,
        Self::OverCapacity,
        Self::Reconnect,
        Self::NoPong,
        Self::Inactive,
        Self::ClientEventRate,
        Self::WatchlistTooLong,
    ];

    /// Returns the number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::TlsOnly => 4000,
            Self::NoSuchApp => 4001,
            Self::AppDisabled => 4003,
            Self::OverConnectionQuota => 4004,
            Self::PathNotFound => 4005,
            Self::InvalidVersion => 4006,
            Self::UnsupportedProtocol => 4007,
            Self::NoProtocol => 4008,
            Self::Unauthorized => 4009,
            Self::OverCapacity => 4100,
            Self::Reconnect => 4200,
            Self::NoPong => 4201,
            Self::Inactive => 4202,
            Self::ClientEventRate => 4301,
            Self::WatchlistTooLong => 4302,
        }
    }

    /// Returns the text for developers. It must fit into the 123 bytes of a close frame.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::TlsOnly => "This app accepts TLS connections only: reconnect using wss://",
            Self::NoSuchApp => "No app has this key: check the key in the client's settings",
            Self::AppDisabled => "This app is disabled",
            Self::OverConnectionQuota => "This app has as many connections as it may have",
            Self::PathNotFound => "Path not found: connect to /app/KEY",
            Self::InvalidVersion => "The version parameter of the URL is not a version",
            Self::UnsupportedProtocol => "This protocol version is not supported: use protocol=7",
            Self::NoProtocol => "The URL has no protocol parameter: add protocol=7",
            Self::Unauthorized => "The connection is not authorized",
            Self::OverCapacity => {
                "Weir is restarting or over capacity: reconnect in a second or later"
            }
            Self::Reconnect => "Reconnect now",
            Self::NoPong => "Pong reply not received in time",
            Self::Inactive => "Closed after inactivity",
            Self::ClientEventRate => "Client event rejected: too many in a second",
            Self::WatchlistTooLong => "Watchlist limit exceeded: only the first users are watched",
        }
    }

    /// Returns what pusher-js does after this code. It decides by range: 4000, up to 4099, up to
    /// 4199, up to 4299. It treats all other codes as final.
    #[must_use]
    pub const fn pusher_js(self) -> Reconnection {
        match self.number() {
            4000 => Reconnection::AtOnceWithTls,
            4100..4200 => Reconnection::AfterOneSecond,
            4200..4300 => Reconnection::AtOnce,
            _ => Reconnection::Never,
        }
    }
}

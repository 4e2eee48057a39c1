//! Why a connection ends, and what a client does then.

/// A code of the protocol: of a WebSocket close frame, or of a `pusher:error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// The app takes only TLS.
    TlsOnly,
    /// No app has that key.
    NoSuchApp,
    /// The app is switched off.
    AppDisabled,
    /// The app has as many connections as it may.
    OverConnectionQuota,
    /// Nothing is at that path.
    PathNotFound,
    /// The `version` in the URL can't be read.
    InvalidVersion,
    /// A protocol that is not spoken here.
    UnsupportedProtocol,
    /// No `protocol` in the URL.
    NoProtocol,
    /// A signature was wrong, or came too late, where one is needed.
    Unauthorized,
    /// No room, or about to end: come back, not at once.
    OverCapacity,
    /// Come back at once.
    Reconnect,
    /// A ping was not answered.
    NoPong,
    /// Nothing was heard for too long.
    Inactive,
    /// Too many client events. Only in a `pusher:error`; the connection goes on.
    ClientEventRate,
    /// A watchlist was longer than allowed. Only in a `pusher:error`; the connection goes on.
    WatchlistTooLong,
}

/// What pusher-js does when a connection ends with a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnection {
    /// It never comes back with the same parameters.
    Never,
    /// It comes back at once, over TLS.
    AtOnceWithTls,
    /// It comes back after exactly 1,000 ms.
    AfterOneSecond,
    /// It comes back after 0 ms. Never send it to many at once: nothing spreads them.
    AtOnce,
}

impl CloseCode {
    /// Every code.
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

    /// The number on the wire.
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

    /// What a developer reads. A close frame has room for 123 bytes of it.
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
            Self::OverCapacity => "Over capacity: reconnect in a second or later",
            Self::Reconnect => "Reconnect now",
            Self::NoPong => "Pong reply not received in time",
            Self::Inactive => "Closed after inactivity",
            Self::ClientEventRate => "Client event rejected: too many in a second",
            Self::WatchlistTooLong => "Watchlist limit exceeded: only the first users are watched",
        }
    }

    /// What pusher-js does when a connection ends so. By range, not by code: 4000; to 4099; to
    /// 4199; to 4299; beyond that it takes any code for a refusal.
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

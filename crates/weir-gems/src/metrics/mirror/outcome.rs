//! Values of labels.

/// Why something from an upstream could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchFailure {
    Connect,
    Tls,
    Timeout,
    Http,
    Status,
    Redirect,
    /// Too long, or no such text.
    Content,
    /// Digests or checksums differ.
    Digest,
}

impl FetchFailure {
    pub(super) const ALL: [Self; 8] = [
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::Http,
        Self::Status,
        Self::Redirect,
        Self::Content,
        Self::Digest,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Http => "http",
            Self::Status => "status",
            Self::Redirect => "redirect",
            Self::Content => "content",
            Self::Digest => "digest",
        }
    }
}

/// What became of a hook, or of a `.gem` file that somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken,
    Denied,
    Malformed,
    Full,
    Done,
    /// Tried as often as it may be.
    GivenUp,
    Failed,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Denied => "denied",
            Self::Malformed => "malformed",
            Self::Full => "full",
            Self::Done => "done",
            Self::GivenUp => "given_up",
            Self::Failed => "failed",
        }
    }
}

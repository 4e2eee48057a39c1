//! Values of metric labels.

/// Reasons why a response of an upstream could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchFailure {
    Connect,
    Tls,
    Timeout,
    Http,
    Status,
    Redirect,
    /// The content is too long or invalid.
    Content,
    /// A digest or checksum differs.
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

/// Outcome of processing a webhook, or of a request for a `.gem` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken,
    Denied,
    Malformed,
    Full,
    Done,
    /// Given up after the maximum number of attempts.
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

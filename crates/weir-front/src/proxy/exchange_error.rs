//! Why a request has no response of a worker.

use crate::dispatch::QueueError;
use crate::metrics::RequestFailure;

/// Why no worker responded to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeError {
    Refused(QueueError),
    TooLarge,
    BadBody,
    SlowBody,
    Unreachable,
    Broken,
    /// The worker sent a malformed response.
    Malformed,
    /// The head of the response exceeds a limit.
    ResponseHead,
    Late,
}

impl ExchangeError {
    pub(super) fn metric(self) -> Option<RequestFailure> {
        match self {
            // Counted when it was rejected.
            Self::Refused(_) => None,
            Self::TooLarge | Self::BadBody | Self::SlowBody => Some(RequestFailure::BadRequest),
            Self::Unreachable => Some(RequestFailure::Unreachable),
            Self::Broken | Self::Malformed => Some(RequestFailure::Broken),
            Self::ResponseHead => Some(RequestFailure::AnswerHead),
            Self::Late => Some(RequestFailure::Late),
        }
    }
}

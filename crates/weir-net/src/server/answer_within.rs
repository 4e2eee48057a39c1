//! Answers that may not be taken at leisure.

use std::time::Duration;

/// In an answer's extensions: how long its client may take for all of it. Then an HTTP/1 connection is
/// cut, an HTTP/2 stream is reset, and what the answer held is free. `write_timeout` alone is no end:
/// a byte now and then is enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerWithin(pub Duration);

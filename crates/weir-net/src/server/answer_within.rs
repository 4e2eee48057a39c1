//! Responses that a client must read within a time limit.

use std::time::Duration;

/// In a response's extensions: how long its client may take for all of it. Then an HTTP/1 connection is
/// cut, an HTTP/2 stream is reset, and what the response held is free. `write_timeout` alone is no end:
/// a byte now and then is enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerWithin(pub Duration);

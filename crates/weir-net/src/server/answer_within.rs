//! A time limit for clients to read a response.

use std::time::Duration;

/// The time limit for a client to read the whole response; an extension of the response. Past it,
/// an HTTP/1 connection is cut or an HTTP/2 stream is reset, and the response's resources are
/// freed. `write_timeout` is no such limit: a client meets it with a byte now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerWithin(pub Duration);

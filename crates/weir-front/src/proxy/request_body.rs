//! The body of a request. It is buffered, within limits, before a worker is chosen: so a slow
//! client occupies no worker, and its disconnect is noticed.

use std::future::poll_fn;

use hyper::body::Incoming;
use tokio::time::timeout;

use super::exchange_error::ExchangeError;
use crate::app::{Lease, ProxiedApp};
use crate::upstream::{BadBody, Framed, Outgoing};

/// The body of a request: a buffered part and the rest.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// The bytes that have arrived, in one piece: many small pieces would need far more memory.
    buffered: Vec<u8>,
    /// The part that is still to come.
    pub(super) remaining: Option<Outgoing>,
    lease: Option<Lease>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, bytes_max: u64) -> Self {
        Self { remaining: Outgoing::new(incoming, bytes_max), ..Self::empty() }
    }

    pub(super) fn empty() -> Self {
        Self { buffered: Vec::new(), remaining: None, lease: None }
    }

    /// Returns whether all of it is buffered, so that it can be sent repeatedly.
    pub(super) fn is_whole(&self) -> bool {
        self.remaining.is_none()
    }

    /// Reads the body to its end, or up to the buffer's limit.
    pub(super) async fn read_ahead(&mut self, app: &ProxiedApp) -> Result<(), ExchangeError> {
        while let Some(remaining) = &mut self.remaining {
            if self.buffered.len() >= app.limits.request_buffer_bytes {
                return Ok(());
            }
            let next = poll_fn(|context| remaining.poll_data(context));
            let next = timeout(app.limits.body_timeout, next)
                .await
                .map_err(|_| ExchangeError::SlowBody)?;
            match next {
                None => self.remaining = None,
                Some(data) => {
                    let data = data?;
                    let is_end = remaining.is_at_end();
                    let may_continue = self.buffer(&data, app);
                    if is_end {
                        self.remaining = None;
                    } else if !may_continue {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Buffers `data`, and returns whether more may be buffered.
    fn buffer(&mut self, data: &[u8], app: &ProxiedApp) -> bool {
        let before = self.buffered.capacity();
        self.buffered.extend_from_slice(data);
        let more = self.buffered.capacity() - before;
        if more == 0 {
            return true;
        }
        match &mut self.lease {
            Some(lease) => lease.grow(more),
            None => {
                self.lease = app.buffers.take(more);
                self.lease.is_some()
            }
        }
    }

    /// Returns how the end is marked for the worker, and the length if it is known.
    pub(super) fn framed(&self) -> (Framed, Option<u64>) {
        let buffered_bytes = self.buffered.len() as u64;
        match &self.remaining {
            None => (Framed::Length, Some(buffered_bytes)),
            Some(remaining) => match remaining.length() {
                Some(length) => (Framed::Length, Some(buffered_bytes + length)),
                None => (Framed::Chunked, None),
            },
        }
    }

    /// Appends the buffered part to `into`.
    pub(super) fn write(&self, into: &mut Vec<u8>, framed: Framed) {
        framed.write(into, &self.buffered);
    }
}

impl From<BadBody> for ExchangeError {
    fn from(error: BadBody) -> Self {
        match error {
            BadBody::TooLarge => Self::TooLarge,
            BadBody::Broken => Self::BadBody,
        }
    }
}

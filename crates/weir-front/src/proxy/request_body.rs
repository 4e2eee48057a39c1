//! The body of a request. It is buffered, within limits, before a worker is chosen: so a slow
//! client occupies no worker, and its disconnect is noticed.

use std::future::poll_fn;

use hyper::body::Incoming;
use tokio::time::timeout;

use super::exchange::ExchangeError;
use crate::app::{Lease, ProxiedApp};
use crate::upstream::{BadBody, Framed, Outgoing};

/// The body of a request: a buffered part and the rest.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// The bytes that have arrived, in one piece: many small pieces would need far more memory.
    come: Vec<u8>,
    /// The part that is still to come.
    pub(super) rest: Option<Outgoing>,
    lease: Option<Lease>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, bytes_max: u64) -> Self {
        Self { rest: Outgoing::new(incoming, bytes_max), ..Self::empty() }
    }

    pub(super) fn empty() -> Self {
        Self { come: Vec::new(), rest: None, lease: None }
    }

    /// Returns whether all of it is buffered, so that it can be sent repeatedly.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Reads the body to its end, or up to the buffer's limit.
    pub(super) async fn read_ahead(&mut self, app: &ProxiedApp) -> Result<(), ExchangeError> {
        while let Some(rest) = &mut self.rest {
            if self.come.len() >= app.limits.request_buffer_bytes {
                return Ok(());
            }
            let next = poll_fn(|context| rest.poll_data(context));
            let next = timeout(app.limits.body_timeout, next)
                .await
                .map_err(|_| ExchangeError::SlowBody)?;
            match next {
                None => self.rest = None,
                Some(data) => {
                    let data = data?;
                    let is_end = rest.is_at_end();
                    let may_go_on = self.take_in(&data, app);
                    if is_end {
                        self.rest = None;
                    } else if !may_go_on {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Buffers `data`, and returns whether more may be buffered.
    fn take_in(&mut self, data: &[u8], app: &ProxiedApp) -> bool {
        let before = self.come.capacity();
        self.come.extend_from_slice(data);
        let more = self.come.capacity() - before;
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
        let here = self.come.len() as u64;
        match &self.rest {
            None => (Framed::Length, Some(here)),
            Some(rest) => match rest.length() {
                Some(length) => (Framed::Length, Some(here + length)),
                None => (Framed::Chunked, None),
            },
        }
    }

    /// Appends the buffered part to `into`.
    pub(super) fn write(&self, into: &mut Vec<u8>, framed: Framed) {
        framed.write(into, &self.come);
    }
}

impl From<BadBody> for ExchangeError {
    fn from(bad: BadBody) -> Self {
        match bad {
            BadBody::TooLarge => Self::TooLarge,
            BadBody::Broken => Self::BadBody,
        }
    }
}

//! The body of a request. What comes of it before there is a worker is kept, within limits: a
//! client with a slow line then holds no worker, and its going is noticed.

use std::future::poll_fn;

use hyper::body::Incoming;
use tokio::time::timeout;

use super::exchange::ExchangeError;
use crate::app::{Lease, ProxiedApp};
use crate::upstream::{BadBody, Framed, Outgoing};

/// The body of a request.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// What has come, in one piece: pieces of a byte each would keep a hundred times as much.
    come: Vec<u8>,
    /// What is to come.
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

    /// All of it is here, so it can be sent more than once.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Reads to the end, or as much as may be buffered.
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

    /// Whether more may be kept.
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

    /// How its end is marked for the worker, and the length if there is one.
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

    /// Appends what has come.
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

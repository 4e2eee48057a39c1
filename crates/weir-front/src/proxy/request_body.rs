//! The body of a request. What comes of it before there is a worker is kept, within limits: a
//! client with a slow line then holds no worker, and its going is noticed.

use std::future::poll_fn;

use bytes::Bytes;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::exchange::Failed;
use crate::app::{App, Lease};
use crate::upstream::{BadBody, Framed, Outgoing};

/// The body of a request.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// What has come.
    pieces: Vec<Bytes>,
    bytes: usize,
    /// What is to come.
    pub(super) rest: Option<Outgoing>,
    leases: Vec<Lease>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, bytes_max: u64) -> Self {
        Self { rest: Outgoing::new(incoming, bytes_max), ..Self::empty() }
    }

    pub(super) fn empty() -> Self {
        Self { pieces: Vec::new(), bytes: 0, rest: None, leases: Vec::new() }
    }

    /// All of it is here, so it can be sent more than once.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Takes in what comes, to the end or as much as may be kept.
    pub(super) async fn read_ahead(&mut self, app: &App) -> Result<(), Failed> {
        while let Some(rest) = &mut self.rest {
            if self.bytes >= app.limits.request_buffer_bytes {
                return Ok(());
            }
            let next = poll_fn(|context| rest.poll_data(context));
            let next =
                timeout(app.limits.body_timeout, next).await.map_err(|_| Failed::SlowBody)?;
            match next {
                None => self.rest = None,
                Some(data) => {
                    let data = data?;
                    let is_end = rest.is_at_end();
                    let lease = app.buffers.take(data.len());
                    let may_go_on = lease.is_some();
                    self.leases.extend(lease);
                    self.bytes += data.len();
                    self.pieces.push(data);
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

    /// How a worker is told where it ends, and the length if there is one.
    pub(super) fn framed(&self) -> (Framed, Option<u64>) {
        let here = self.bytes as u64;
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
        for piece in &self.pieces {
            framed.write(into, piece);
        }
    }
}

impl From<BadBody> for Failed {
    fn from(bad: BadBody) -> Self {
        match bad {
            BadBody::TooLarge => Self::TooLarge,
            BadBody::Broken => Self::BadBody,
        }
    }
}

//! What the clients and workers have counted since the last report.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::samples::Samples;

/// Counts of one interval.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pushed: u64,
    /// Jobs that the server did not accept.
    pub(crate) push_rejected: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// How long new jobs waited until they started, by queue.
    pub(crate) queue_waits: BTreeMap<&'static str, Samples>,
    /// The same by tenant.
    pub(crate) tenant_waits: BTreeMap<&'static str, Samples>,
    pub(crate) published: u64,
    pub(crate) publish_failed: u64,
    pub(crate) delivered: u64,
    /// From the request that publishes an event until a client has it.
    pub(crate) delays: Samples,
    /// Responses of the app.
    pub(crate) served: u64,
    /// How long those took.
    pub(crate) response_times: Samples,
    /// Requests that the front rejected with 503, by the reason that it gave.
    pub(crate) rejected: BTreeMap<&'static str, u64>,
    /// Requests with another error, or without a response.
    pub(crate) errors: u64,
    /// Requests that were not sent, because too many were in progress.
    pub(crate) unsent: u64,
    /// Connections that ended and were opened again.
    pub(crate) reconnects: u64,
}

/// The counts, shared by all tasks.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    // A std mutex: it is held for some additions.
    counts: Mutex<Counts>,
    /// Realtime clients that are subscribed now.
    clients: Mutex<u64>,
}

impl Meter {
    pub(crate) fn record(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records how long a job of a queue, and of a tenant if it has one, waited.
    pub(crate) fn record_wait(
        &self,
        queue: &'static str,
        tenant: Option<&'static str>,
        waited: Duration,
    ) {
        self.record(|counts| {
            counts.queue_waits.entry(queue).or_default().add(waited);
            if let Some(tenant) = tenant {
                counts.tenant_waits.entry(tenant).or_default().add(waited);
            }
        });
    }

    /// Returns the counts since the last call.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn clients(&self) -> u64 {
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a client until the result is dropped.
    pub(crate) fn count_client(&self) -> CountedClient<'_> {
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        CountedClient(self)
    }
}

/// A realtime client that is subscribed.
#[derive(Debug)]
pub(crate) struct CountedClient<'a>(&'a Meter);

impl Drop for CountedClient<'_> {
    fn drop(&mut self) {
        *self.0.clients.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

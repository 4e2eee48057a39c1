//! What the app is asked, and what its answers say.

use std::io::Write;
use std::time::Duration;

use super::service_times::ServiceTimes;
use super::settings::LoadSettings;
use super::shares::Shares;
use crate::http::{Answer, HttpUrl, Load};

/// Requests that say how long the worker is to be busy.
#[derive(Debug)]
pub(crate) struct FrontLoad {
    service_times: ServiceTimes,
    /// What is written around a request's service time.
    before: String,
    after: String,
    pub(crate) seen: Seen,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) shares: Shares,
    /// Answers that named no worker.
    pub(crate) unnamed: u64,
    /// Service times of all requests.
    pub(crate) service_asked: Duration,
    /// Service times and latencies of those with a right answer.
    pub(crate) service: Duration,
    pub(crate) waited: Duration,
}

impl FrontLoad {
    pub(crate) fn new(url: &HttpUrl, settings: &LoadSettings) -> Self {
        let connection = if settings.keep_alive { "" } else { "Connection: close\r\n" };
        Self {
            service_times: ServiceTimes::new(settings.scenario, settings.seed),
            before: format!("GET {}?us=", url.path),
            after: format!(" HTTP/1.1\r\nHost: {}\r\n{connection}\r\n", url.host),
            seen: Seen::default(),
        }
    }
}

impl Load for FrontLoad {
    /// How long the worker is asked to be busy.
    type Wanted = Duration;

    fn next(&mut self) -> Duration {
        let service = self.service_times.next();
        self.seen.service_asked += service;
        service
    }

    fn write(&self, service: &Duration, out: &mut Vec<u8>) {
        let Self { before, after, .. } = self;
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{before}{}{after}", service.as_micros());
    }

    fn judge(
        &mut self,
        service: &Duration,
        answer: &Answer<'_>,
        latency: Duration,
    ) -> Result<(), String> {
        match answer.worker {
            Some(worker) => self.seen.shares.count(worker),
            None => self.seen.unnamed += 1,
        }
        if answer.status != 200 {
            return Err(format!("an answer was {}, not 200", answer.status));
        }
        self.seen.service += *service;
        self.seen.waited += latency;
        Ok(())
    }
}

//! The requests to the app, and statistics of its responses.

use std::io::Write;
use std::time::Duration;

use super::service_times::ServiceTimes;
use super::settings::LoadSettings;
use super::shares::Shares;
use crate::http::{HttpUrl, Load, Response};

/// Requests that state how long the worker is busy.
#[derive(Debug)]
pub(crate) struct FrontLoad {
    service_times: ServiceTimes,
    /// The parts of a request before and after its service time.
    request_prefix: String,
    request_suffix: String,
    pub(crate) stats: ResponseStats,
}

#[derive(Debug, Default)]
pub(crate) struct ResponseStats {
    pub(crate) shares: Shares,
    /// Responses that named no worker.
    pub(crate) without_worker: u64,
    /// Service times of all requests.
    pub(crate) service_requested: Duration,
    /// Service times and latencies of the requests with a correct response.
    pub(crate) service: Duration,
    pub(crate) waited: Duration,
}

impl FrontLoad {
    pub(crate) fn new(url: &HttpUrl, settings: &LoadSettings) -> Self {
        let connection = if settings.keep_alive { "" } else { "Connection: close\r\n" };
        Self {
            service_times: ServiceTimes::new(settings.scenario, settings.seed),
            request_prefix: format!("GET {}?us=", url.path),
            request_suffix: format!(" HTTP/1.1\r\nHost: {}\r\n{connection}\r\n", url.host),
            stats: ResponseStats::default(),
        }
    }
}

impl Load for FrontLoad {
    /// The service time of a request.
    type Item = Duration;

    fn next(&mut self) -> Duration {
        let service = self.service_times.next();
        self.stats.service_requested += service;
        service
    }

    fn write(&self, service: &Duration, out: &mut Vec<u8>) {
        let Self { request_prefix, request_suffix, .. } = self;
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{request_prefix}{}{request_suffix}", service.as_micros());
    }

    fn check_response(
        &mut self,
        service: &Duration,
        response: &Response<'_>,
        latency: Duration,
    ) -> Result<(), String> {
        match response.worker {
            Some(worker) => self.stats.shares.count(worker),
            None => self.stats.without_worker += 1,
        }
        if response.status != 200 {
            return Err(format!("an answer was {}, not 200", response.status));
        }
        self.stats.service += *service;
        self.stats.waited += latency;
        Ok(())
    }
}

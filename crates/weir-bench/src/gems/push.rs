//! Pushes of new gems.

use std::io::Write;
use std::time::{Duration, Instant};

use super::gem_file;
use super::settings::LoadSettings;
use crate::clock::now;
use crate::http::{HttpUrl, Load, Response};

#[derive(Debug)]
pub(crate) struct PushLoad {
    /// Prefix of the names of this run, which distinguishes it from other runs.
    prefix: String,
    request_prefix: String,
    /// When each push was due.
    due_at: Vec<Instant>,
    /// Pushes that the server has accepted.
    acknowledged: Vec<usize>,
}

impl PushLoad {
    /// `run`: a number that is unique among the runs on this server.
    pub(crate) fn new(url: &HttpUrl, settings: &LoadSettings, run: u64) -> Self {
        let request_prefix = format!(
            "POST {}/api/v1/gems HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: ",
            url.path, url.host, settings.api_key
        );
        let prefix = format!("bench-{run:x}-");
        Self { prefix, request_prefix, due_at: Vec::new(), acknowledged: Vec::new() }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the accepted pushes and when they were due.
    pub(crate) fn pushed(&self) -> impl Iterator<Item = (usize, Instant)> {
        self.acknowledged.iter().map(|number| (*number, self.due_at[*number]))
    }
}

impl Load for PushLoad {
    /// The number of the gem.
    type Item = usize;

    fn next(&mut self) -> usize {
        self.due_at.push(now());
        self.due_at.len() - 1
    }

    fn write(&self, number: &usize, out: &mut Vec<u8>) {
        let gem = gem_file::build(&format!("{}{number}", self.prefix));
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{}{}\r\n\r\n", self.request_prefix, gem.len());
        out.extend_from_slice(&gem);
    }

    fn check_response(
        &mut self,
        number: &usize,
        response: &Response<'_>,
        _: Duration,
    ) -> Result<(), String> {
        if response.status != 200 {
            return Err(format!("a push was answered with {}", response.status));
        }
        self.acknowledged.push(*number);
        Ok(())
    }
}

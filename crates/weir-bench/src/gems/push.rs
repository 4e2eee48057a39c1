//! Gems that are pushed, each a new one.

use std::io::Write;
use std::time::{Duration, Instant};

use super::gem_file;
use super::settings::LoadSettings;
use crate::clock::now;
use crate::http::{Answer, HttpUrl, Load};

#[derive(Debug)]
pub(crate) struct PushLoad {
    /// Begins the names of this run, so that another run's are others.
    prefix: String,
    before: String,
    /// When each was to be sent.
    begun: Vec<Instant>,
    /// The server has said that it has them.
    acknowledged: Vec<usize>,
}

impl PushLoad {
    /// `run`: a number that no other run on this server has.
    pub(crate) fn new(url: &HttpUrl, settings: &LoadSettings, run: u64) -> Self {
        let before = format!(
            "POST {}/api/v1/gems HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: ",
            url.path, url.host, settings.api_key
        );
        let prefix = format!("bench-{run:x}-");
        Self { prefix, before, begun: Vec::new(), acknowledged: Vec::new() }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Those that the server has, with when they were to be sent.
    pub(crate) fn pushed(&self) -> impl Iterator<Item = (usize, Instant)> {
        self.acknowledged.iter().map(|number| (*number, self.begun[*number]))
    }
}

impl Load for PushLoad {
    /// Its number.
    type Wanted = usize;

    fn next(&mut self) -> usize {
        self.begun.push(now());
        self.begun.len() - 1
    }

    fn write(&self, number: &usize, out: &mut Vec<u8>) {
        let gem = gem_file::build(&format!("{}{number}", self.prefix));
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{}{}\r\n\r\n", self.before, gem.len());
        out.extend_from_slice(&gem);
    }

    fn judge(&mut self, number: &usize, answer: &Answer<'_>, _: Duration) -> Result<(), String> {
        if answer.status != 200 {
            return Err(format!("a push was answered with {}", answer.status));
        }
        self.acknowledged.push(*number);
        Ok(())
    }
}

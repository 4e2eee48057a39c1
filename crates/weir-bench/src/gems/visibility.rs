//! Another client, which polls the end of `/versions` to measure when a pushed gem becomes visible.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::clock::now;
use crate::http::{HttpUrl, single_request};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Longest wait for gems that are not visible after the last push.
const SEEN_TIMEOUT: Duration = Duration::from_secs(5);

/// When the gem of each number became visible.
pub(crate) type SeenAt = HashMap<usize, Instant>;

#[derive(Debug)]
pub(crate) struct Watcher {
    thread: JoinHandle<Result<SeenAt>>,
    /// Sends the number of pushed gems at the end.
    pushed_sender: Sender<usize>,
}

struct VersionsPoller {
    url: HttpUrl,
    prefix: String,
    timeout: Duration,
    /// Bytes of `/versions` that were read.
    known_bytes: usize,
    seen: SeenAt,
}

impl Watcher {
    /// Starts to poll for names that consist of `prefix` and a number.
    pub(crate) fn start(url: &HttpUrl, prefix: &str, timeout: Duration) -> Result<Self> {
        let versions = single_request::get(url, "/versions", "", timeout)?;
        ensure!(versions.status == 200, "/versions is answered with {}", versions.status);
        let (url, prefix, known_bytes) = (url.clone(), prefix.to_owned(), versions.body.len());
        let poller = VersionsPoller { url, prefix, timeout, known_bytes, seen: SeenAt::new() };
        let (pushed_sender, pushed_receiver) = channel();
        let thread = std::thread::Builder::new().name("watcher".to_owned());
        let thread = thread
            .spawn(move || poller.poll_until_seen(&pushed_receiver))
            .context("starting a thread")?;
        Ok(Self { thread, pushed_sender })
    }

    /// Waits until all `pushed` gems are visible, or until a timeout.
    pub(crate) fn finish(self, pushed: usize) -> Result<SeenAt> {
        // If the thread has failed, joining it returns the error.
        let _ = self.pushed_sender.send(pushed);
        self.thread.join().map_err(|_| anyhow!("the watcher has panicked"))?
    }
}

impl VersionsPoller {
    fn poll_until_seen(mut self, pushed_receiver: &Receiver<usize>) -> Result<SeenAt> {
        let pushed = loop {
            self.poll()?;
            match pushed_receiver.recv_timeout(POLL_INTERVAL) {
                Ok(pushed) => break pushed,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(self.seen),
            }
        };
        let end = now() + SEEN_TIMEOUT;
        while self.seen.len() < pushed && now() < end {
            self.poll()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(self.seen)
    }

    /// Requests a range from the last known byte, as Bundler does, so that it is never empty.
    fn poll(&mut self) -> Result<()> {
        let range = format!("Range: bytes={}-\r\n", self.known_bytes - 1);
        let tail = single_request::get(&self.url, "/versions", &range, self.timeout)?;
        ensure!(tail.status == 206, "a range of /versions is answered with {}", tail.status);
        let at = now();
        let new = tail.body.get(1..).context("an empty answer")?;
        self.known_bytes += new.len();
        for line in new.split(|byte| *byte == b'\n') {
            let name = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            let number = name.strip_prefix(self.prefix.as_bytes());
            let number = number.and_then(|text| str::from_utf8(text).ok()?.parse().ok());
            if let Some(number) = number {
                self.seen.entry(number).or_insert(at);
            }
        }
        Ok(())
    }
}

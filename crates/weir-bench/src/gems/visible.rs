//! Another client, which asks for the end of `/versions` again and again: when does it see a gem that was pushed?

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::clock::now;
use crate::http::{HttpUrl, ask};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// For those that were not seen when the last push was answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// When the gem of each number was seen.
pub(crate) type Seen = HashMap<usize, Instant>;

#[derive(Debug)]
pub(crate) struct Watcher {
    thread: JoinHandle<Result<Seen>>,
    /// Tells it how many there are to see.
    tell: Sender<usize>,
}

struct Look {
    url: HttpUrl,
    prefix: String,
    timeout: Duration,
    /// Of `/versions`, so many bytes are known.
    known: usize,
    seen: Seen,
}

impl Watcher {
    /// Looks for names that are `prefix` and a number.
    pub(crate) fn start(url: &HttpUrl, prefix: &str, timeout: Duration) -> Result<Self> {
        let versions = ask::get(url, "/versions", "", timeout)?;
        ensure!(versions.status == 200, "/versions is answered with {}", versions.status);
        let (url, prefix, known) = (url.clone(), prefix.to_owned(), versions.body.len());
        let look = Look { url, prefix, timeout, known, seen: Seen::new() };
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name("watcher".to_owned());
        let thread = thread.spawn(move || look.until(&told)).context("starting a thread")?;
        Ok(Self { thread, tell })
    }

    /// Waits for those of `pushed` that were not seen yet, but not for long.
    pub(crate) fn finish(self, pushed: usize) -> Result<Seen> {
        // One that has failed says why when it is joined.
        let _ = self.tell.send(pushed);
        self.thread.join().map_err(|_| anyhow!("the watcher has panicked"))?
    }
}

impl Look {
    fn until(mut self, told: &Receiver<usize>) -> Result<Seen> {
        let pushed = loop {
            self.once()?;
            match told.recv_timeout(LOOK_EVERY) {
                Ok(pushed) => break pushed,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(self.seen),
            }
        };
        let end = now() + PATIENCE;
        while self.seen.len() < pushed && now() < end {
            self.once()?;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(self.seen)
    }

    /// From the last byte that is known, as Bundler does: there is always something to answer.
    fn once(&mut self) -> Result<()> {
        let range = format!("Range: bytes={}-\r\n", self.known - 1);
        let tail = ask::get(&self.url, "/versions", &range, self.timeout)?;
        ensure!(tail.status == 206, "a range of /versions is answered with {}", tail.status);
        let at = now();
        let new = tail.body.get(1..).context("an empty answer")?;
        self.known += new.len();
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

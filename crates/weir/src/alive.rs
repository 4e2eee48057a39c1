//! Signs of life: the service tells its parent that every part answers, and the log which one does
//! not.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use weir_supervisor::inherited::{Status, Word};

use crate::compose::Weir;

/// Says whether all is alive, once per interval.
#[derive(Debug)]
pub(crate) struct Alive {
    status: Status,
    interval: Duration,
    ticks: Interval,
    /// Those that did not answer the last time.
    silent: Vec<String>,
}

impl Alive {
    /// Nobody has been asked yet.
    pub(crate) fn new(status: Status, interval: Duration) -> Self {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { status, interval, ticks, silent: Vec::new() }
    }

    /// Tells the parent something else.
    pub(crate) fn say(&self, word: Word) {
        self.status.say(word);
    }

    /// Resolves when it is time to tell.
    pub(crate) async fn due(&mut self) {
        self.ticks.tick().await;
    }

    /// Asks every part of `weir`, and tells.
    pub(crate) async fn tell(&mut self, weir: &Weir) {
        let silent = weir.silent(self.interval).await;
        if silent.is_empty() {
            self.status.say(Word::Alive);
        }
        let names = |silent: &[String]| silent.join(", ");
        let seconds = self.interval.as_secs_f64();
        match (self.silent.is_empty(), silent.is_empty()) {
            (_, false) if silent != self.silent => {
                tracing::error!(silent = names(&silent), "no response within {seconds} s");
            }
            (false, true) => tracing::warn!(silent = names(&self.silent), "all respond again"),
            _ => {}
        }
        self.silent = silent;
    }

    /// Says that it is alive until `end` is over: parts that end have no more to answer.
    pub(crate) async fn until<T>(mut self, end: impl Future<Output = T>) -> T {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                output = &mut end => return output,
                _ = self.ticks.tick() => self.status.say(Word::Alive),
            }
        }
    }
}

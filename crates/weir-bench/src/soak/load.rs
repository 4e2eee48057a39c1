//! The threads of the load.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};

use super::flags::{Shape, SoakFlags};
use super::jobs::{Ledger, Producer, ProducerKind, Workers, run_batches};
use super::realtime::{Channel, Subscriber, SubscriberCheck, run_publisher, run_slow_client};
use super::requests::{self, Gems};
use super::shared::Shared;
use crate::latency::Latencies;

/// Producers of mixed jobs, besides the one of the ordered queue.
const PRODUCERS: u8 = 4;
/// Share of the jobs that are pushed to the ordered queue: one connection runs them, one after the other.
const ORDERED_SHARE: f64 = 0.1;
/// Subscribers of each channel at each node.
const SUBSCRIBERS: usize = 2;
const REQUEST_THREADS: u8 = 4;
const SLOW_CLIENTS: usize = 2;

#[derive(Debug)]
pub(super) struct Load {
    threads: Vec<JoinHandle<()>>,
    subscribers: Vec<(usize, JoinHandle<SubscriberCheck>)>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) channels: Vec<Arc<Channel>>,
    latencies: Arc<Mutex<Latencies>>,
}

impl Load {
    /// `gem_key`: an API key for pushes of gems.
    pub(super) fn start(
        flags: &SoakFlags,
        shared: &Arc<Shared>,
        channels: Vec<Arc<Channel>>,
        gem_key: Option<&str>,
    ) -> Result<(Self, Workers)> {
        let ledger = Arc::new(Ledger::default());
        let mut load = Self {
            threads: Vec::new(),
            subscribers: Vec::new(),
            ledger,
            channels,
            latencies: Arc::new(Mutex::new(Latencies::new())),
        };
        // They are there before the first event.
        load.start_subscribers(shared)?;
        let workers = load.start_jobs(flags, shared)?;
        load.start_publishers(flags, shared)?;
        load.start_requests(flags, shared)?;
        if let Some(key) = gem_key {
            load.start_gems(shared, key)?;
        }
        Ok((load, workers))
    }

    fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().spawn(run).context("starting a thread")?;
        self.threads.push(thread);
        Ok(())
    }

    fn start_subscribers(&mut self, shared: &Arc<Shared>) -> Result<()> {
        for (place, channel) in self.channels.iter().enumerate() {
            for number in 0..SUBSCRIBERS * shared.nodes.len() {
                let subscriber = Subscriber::new(shared, channel, number);
                let thread = std::thread::Builder::new().spawn(move || subscriber.run());
                self.subscribers.push((place, thread.context("starting a subscriber")?));
            }
        }
        Ok(())
    }

    fn start_jobs(&mut self, flags: &SoakFlags, shared: &Arc<Shared>) -> Result<Workers> {
        let rate = flags.jobs_per_second;
        let ordered_rate = rate * ORDERED_SHARE;
        let mixed_rate = (rate - ordered_rate) / f64::from(PRODUCERS);
        let mut queues = Vec::new();
        let mixed = std::iter::repeat_n((ProducerKind::Mixed, mixed_rate), PRODUCERS.into());
        for (kind, rate) in std::iter::once((ProducerKind::Ordered, ordered_rate)).chain(mixed) {
            let producer = Producer::new(shared, &self.ledger, kind, rate);
            if kind == ProducerKind::Mixed {
                queues.push(producer.queue().to_owned());
            }
            self.spawn(move || producer.run())?;
        }
        let (batch_shared, ledger) = (Arc::clone(shared), Arc::clone(&self.ledger));
        self.spawn(move || run_batches(&batch_shared, &ledger))?;
        Workers::start(shared, &self.ledger, &queues)
    }

    fn start_publishers(&mut self, flags: &SoakFlags, shared: &Arc<Shared>) -> Result<()> {
        let rate = flags.events_per_second;
        for (place, channel) in self.channels.clone().into_iter().enumerate() {
            let shared = Arc::clone(shared);
            self.spawn(move || run_publisher(&shared, &channel, place, rate))?;
        }
        for number in 0..SLOW_CLIENTS {
            let (shared, channels) = (Arc::clone(shared), self.channels.clone());
            self.spawn(move || run_slow_client(&shared, &channels, number, None))?;
        }
        Ok(())
    }

    fn start_requests(&mut self, flags: &SoakFlags, shared: &Arc<Shared>) -> Result<()> {
        let rate = flags.requests_per_second / f64::from(REQUEST_THREADS);
        for node in 0..shared.nodes.len() {
            for _ in 0..REQUEST_THREADS {
                let (shared, latencies) = (Arc::clone(shared), Arc::clone(&self.latencies));
                self.spawn(move || requests::run(&shared, node, rate, &latencies))?;
            }
            let shared = Arc::clone(shared);
            self.spawn(move || requests::run_pages(&shared, node))?;
        }
        Ok(())
    }

    fn start_gems(&mut self, shared: &Arc<Shared>, key: &str) -> Result<()> {
        let gems = Arc::new(Gems::default());
        let addresses: Vec<_> = shared.nodes.iter().filter_map(|node| node.gems).collect();
        if let Some(address) = addresses.first().copied() {
            let (shared, gems, key) = (Arc::clone(shared), Arc::clone(&gems), key.to_owned());
            self.spawn(move || requests::run_gem_pushes(&shared, address, &key, &gems))?;
        }
        for address in addresses {
            let (shared, gems) = (Arc::clone(shared), Arc::clone(&gems));
            self.spawn(move || requests::run_gem_reads(&shared, address, &gems))?;
        }
        Ok(())
    }

    /// Returns whether everything that was acknowledged has reached its end.
    pub(super) fn is_drained(&self) -> bool {
        let subscribers = self.subscribers.iter().all(|(_, thread)| thread.is_finished());
        subscribers && self.ledger.left() == 0
    }

    /// Waits for all threads, after the end of the run was announced. Returns the subscribers, each with the place of its
    /// channel, and the latencies of requests.
    pub(super) fn join(self) -> Result<(Vec<(usize, SubscriberCheck)>, Latencies)> {
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a thread of the load panicked"))?;
        }
        let checks = self.subscribers.into_iter().map(|(place, thread)| {
            let check = thread.join().map_err(|_| anyhow!("a subscriber panicked"))?;
            Ok((place, check))
        });
        let checks = checks.collect::<Result<_>>()?;
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok((checks, latencies))
    }
}

/// Returns what durable histories promise in this shape.
pub(super) const fn has_embedded_broker(shape: Shape) -> bool {
    matches!(shape, Shape::One)
}

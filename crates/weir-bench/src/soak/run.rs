//! One run: load, faults, drain, checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::fault::Fault;
use super::flags::SoakFlags;
use super::growth;
use super::inject::Injector;
use super::jobs::Workers;
use super::load::{Load, has_embedded_broker};
use super::outcome::{Outcome, RequestCounts};
use super::plan::{PlannedFault, plan};
use super::probe::wait_for_recovery;
use super::realtime::{self, Channel, judge};
use super::samples::{self, Pids, Sample};
use super::shared::{Counts, Shared};
use super::site::{REALTIME_SECRET, Site};
use super::window::{Window, Windows};
use crate::clock::monotonic;
use crate::output::Output;

/// Longest wait for the end of everything that was acknowledged: retries, and reservations of lost replies (60 s).
const DRAIN_MAX: Duration = Duration::from_secs(300);
/// After everything has reached its end, what comes twice has time to do so.
const SETTLE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(200);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Run<'a> {
    flags: &'a SoakFlags,
    output: &'a mut Output,
    site: Site,
    shared: Arc<Shared>,
    channels: Vec<Arc<Channel>>,
    load: Load,
    workers: Workers,
    pids: Pids,
    sampler: JoinHandle<Vec<Vec<Sample>>>,
    start: Duration,
    windows: Windows,
    incidents: Vec<String>,
}

impl<'a> Run<'a> {
    pub(super) fn start(flags: &'a SoakFlags, output: &'a mut Output, site: Site) -> Result<Self> {
        let shared = Arc::new(Shared::new(site.endpoints()));
        let channels = realtime::channels(REALTIME_SECRET)?;
        let gem_key = site.nodes[0].endpoints.gems.map(|_| create_gem_key(&site)).transpose()?;
        let pids = Pids::new(site.nodes.len());
        for (place, node) in site.nodes.iter().enumerate() {
            pids.set(place, node.pid());
        }
        let start = monotonic();
        let (load, workers) = Load::start(flags, &shared, channels.clone(), gem_key.as_deref())?;
        let sampler = {
            let (shared, pids, data) = (Arc::clone(&shared), pids.clone(), site.data_dirs());
            let run = move || samples::run(&shared, &pids, &data, start);
            std::thread::Builder::new().spawn(run).context("starting the sampler")?
        };
        let (windows, incidents) = (Windows::default(), Vec::new());
        Ok(Self {
            flags,
            output,
            site,
            shared,
            channels,
            load,
            workers,
            pids,
            sampler,
            start,
            windows,
            incidents,
        })
    }

    /// Generates load, with the planned faults.
    pub(super) fn run(&mut self, seed: u64) -> Result<()> {
        let load = Duration::from_secs_f64(self.flags.seconds);
        let interval = Duration::from_secs_f64(self.flags.fault_interval);
        let faults = plan(&self.site.available, seed, interval, load);
        for planned in &faults {
            self.idle_until(planned.at.min(load))?;
            // Faults may take longer than their interval.
            if self.elapsed() < load {
                self.inject(planned)?;
            }
        }
        self.idle_until(load)?;
        self.shared.end_load();
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.start)
    }

    /// Watches the processes until this time after the beginning.
    fn idle_until(&mut self, at: Duration) -> Result<()> {
        let mut next_progress = self.elapsed() + PROGRESS_INTERVAL;
        while self.elapsed() < at {
            self.watch()?;
            if self.elapsed() >= next_progress {
                next_progress += PROGRESS_INTERVAL;
                self.note_progress()?;
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// Starts what has ended by itself, which is an incident.
    fn watch(&mut self) -> Result<()> {
        let mut ended = self.workers.ended()?;
        for (place, node) in self.site.nodes.iter_mut().enumerate() {
            if let Some(text) = node.ended()? {
                ended.push(text);
                node.start()?;
                self.pids.set(place, node.pid());
            }
        }
        ended.into_iter().try_for_each(|text| self.add_incident(text))
    }

    fn add_incident(&mut self, text: String) -> Result<()> {
        self.note(&format!("INCIDENT: {text}"))?;
        self.incidents.push(text);
        Ok(())
    }

    fn note(&mut self, text: &str) -> Result<()> {
        let seconds = self.elapsed().as_secs();
        self.output.note(&format!("{seconds:>5} s  {text}"))
    }

    fn note_progress(&mut self) -> Result<()> {
        let requests = self.shared.counts.requests.load(Ordering::Relaxed);
        let left = self.load.ledger.left();
        self.note(&format!("{requests} requests served, {left} jobs and batches not done yet"))
    }

    fn inject(&mut self, planned: &PlannedFault) -> Result<()> {
        let began = monotonic();
        let fault = planned.fault;
        let mut injector = Injector {
            site: &mut self.site,
            workers: &mut self.workers,
            pids: &self.pids,
            shared: &self.shared,
            channels: &self.channels,
        };
        let outcome = injector.inject(planned);
        let undone = monotonic();
        let detail = outcome.unwrap_or_else(|error| {
            let text = format!("fault {}: {error:#}", fault.name());
            self.incidents.push(text.clone());
            text
        });
        let recovered = self.wait_for_recovery(fault);
        let window = Window { fault, detail, began, undone, recovered };
        let recovery = window.recovery().map_or("not recovered".to_owned(), |recovery| {
            format!("recovered after {:.1} s", recovery.as_secs_f64())
        });
        let text = format!("{}: {}: {recovery}", fault.name(), window.detail);
        self.windows.push(window);
        self.note(&text)
    }

    fn wait_for_recovery(&mut self, fault: Fault) -> Option<Duration> {
        let apps: Vec<_> = self.channels.iter().map(|channel| channel.app().clone()).collect();
        match wait_for_recovery(&self.shared.nodes, &apps) {
            Ok(()) => Some(monotonic()),
            Err(error) => {
                self.incidents.push(format!("after {}: {error:#}", fault.name()));
                None
            }
        }
    }

    /// Waits until everything that was acknowledged is done, and checks it.
    pub(super) fn finish(mut self, seed: u64) -> Result<Outcome> {
        let load = self.elapsed();
        let deadline = monotonic() + DRAIN_MAX;
        self.note("the load has ended; draining")?;
        while !self.load.is_drained() && monotonic() < deadline {
            self.watch()?;
            std::thread::sleep(TICK);
        }
        let drain = self.elapsed() - load;
        std::thread::sleep(SETTLE);
        self.shared.end();
        let Self { flags, site, shared, channels, load: threads, sampler, .. } = self;
        let ledger = Arc::clone(&threads.ledger);
        let (checks, latencies) = threads.join()?;
        let samples = sampler.join().map_err(|_| anyhow!("the sampler panicked"))?;
        let checks: Vec<_> =
            checks.into_iter().map(|(place, check)| (&*channels[place], check)).collect();
        let all = channels.iter().map(|channel| &**channel);
        let is_embedded = has_embedded_broker(flags.shape);
        let growth = samples.iter().enumerate().flat_map(|(node, it)| growth::measure(node, it));
        Ok(Outcome {
            load,
            drain,
            seed,
            start: self.start,
            jobs: ledger.check(&self.windows),
            realtime: judge(all, &checks, &self.windows, is_embedded),
            errors: shared.journal.assign(&self.windows, self.start),
            windows: self.windows,
            skipped: site.skipped.clone(),
            requests: request_counts(&shared.counts),
            latencies,
            growth: growth.collect(),
            samples,
            incidents: self.incidents,
        })
    }
}

fn create_gem_key(site: &Site) -> Result<String> {
    let key = site.nodes[0].run(&["gems", "key", "create", "soak"]);
    Ok(key.context("creating an API key for gems")?.trim().to_owned())
}

fn request_counts(counts: &Counts) -> RequestCounts {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    RequestCounts {
        requests: get(&counts.requests),
        wrong_responses: get(&counts.wrong_responses),
        gem_reads: get(&counts.gem_reads),
        gem_pushes: get(&counts.gem_pushes),
        page_reads: get(&counts.page_reads),
        slow_connections: get(&counts.slow_connections),
        slow_closed: get(&counts.slow_closed),
    }
}

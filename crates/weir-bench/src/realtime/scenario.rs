//! The scenarios: which clients connect when, what is published, and what is measured.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Map, Value};

use super::connection_stats::ConnectionStats;
use super::ledger::Deliveries;
use super::meter::{MemorySampler, Meter, Spent};
use super::pool::ClientPool;
use super::schedule::{Schedule, StallTimer};
use super::settings::{LoadSettings, Pace, Scenario};
use super::shared_state::{Counts, SharedState};
use super::target::{Protocol, Target};
use super::{fanout, floor, presence, slow, storm};
use crate::clock::now;
use crate::process_usage::Usage;
use crate::tally::Faults;

/// Publishing connections that are opened in advance when events are published at a rate.
pub(crate) const PUBLISHERS_AT_A_RATE: usize = 4;

/// The figures of a run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Resources spent on connecting all clients; `None` in scenario floor.
    pub(crate) arrival: Option<Spent>,
    /// Server memory before the first client and with all of them, idle.
    pub(crate) rss: Option<(Usage, Usage)>,
    /// The most server memory while events were published last; in scenario slow only.
    pub(crate) rss_bytes_max: Option<u64>,
    pub(crate) connections: Option<ConnectionStats>,
    /// The main part of the scenario, and its deliveries.
    pub(crate) load: Option<(Spent, Deliveries)>,
    pub(crate) lost: u64,
    pub(crate) counts: Counts,
    pub(crate) faults: Faults,
    /// Figures of this scenario only.
    pub(crate) extra: Map<String, Value>,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    if settings.scenario == Scenario::Floor {
        return floor::run(target, settings);
    }
    let mut bench = Bench::prepare(target, settings)?;
    match settings.scenario {
        Scenario::Connect => bench.connect_clients(),
        Scenario::Presence => presence::run(&mut bench),
        Scenario::Storm => storm::run(&mut bench),
        Scenario::Slow => slow::run(&mut bench),
        Scenario::Fanout | Scenario::Floor => fanout::run(&mut bench),
    }?;
    Ok(bench.finish())
}

pub(crate) struct Bench<'run> {
    pub(crate) target: &'run Target,
    pub(crate) settings: &'run LoadSettings,
    pub(crate) pool: ClientPool,
    pub(crate) run: Run,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self {
            arrival: None,
            rss: None,
            rss_bytes_max: None,
            connections: None,
            load: None,
            lost: 0,
            counts: Counts::default(),
            faults: Faults::default(),
            extra: Map::new(),
        }
    }

    /// Counts the errors of a part that is not the main one.
    pub(crate) fn add_deliveries_faults(&mut self, deliveries: &Deliveries) {
        let wrong = super::report::count_delivery_faults(deliveries);
        let first = deliveries.received.faults.first.clone();
        let text = || first.unwrap_or_else(|| "events in another order, or twice".to_owned());
        self.faults.add(wrong, text);
    }
}

impl<'run> Bench<'run> {
    fn prepare(target: &'run Target, settings: &'run LoadSettings) -> Result<Self> {
        let is_presence = settings.scenario == Scenario::Presence;
        let supports_presence = target.protocol == Protocol::Pusher;
        ensure!(!is_presence || supports_presence, "--scenario presence needs --protocol pusher");
        let shared = SharedState::new(target, settings)?;
        let pool = ClientPool::new(target, settings, shared)?;
        Ok(Self { target, settings, pool, run: Run::new() })
    }

    /// Connects and subscribes all clients, then pauses so that the server becomes idle.
    pub(crate) fn connect_clients(&mut self) -> Result<()> {
        let meter = Meter::start(self.target)?;
        let before = self.target.usage()?;
        self.pool.connect_clients(self.settings)?;
        let end = self.pool.connections.last_connected.unwrap_or(meter.started);
        self.run.arrival = Some(meter.stop(end)?);
        self.pool.check_all_live()?;
        self.pause(self.settings.settle)?;
        self.run.rss = before.zip(self.target.usage()?);
        Ok(())
    }

    /// Handles events for a while without publishing.
    pub(crate) fn pause(&mut self, duration: Duration) -> Result<()> {
        let until = now() + duration;
        while now() < until {
            self.pool.poll_once(until)?;
        }
        Ok(())
    }

    /// Publishes at the configured pace, and waits until all clients have received everything.
    pub(crate) fn publish_for(&mut self, duration: Duration) -> Result<(Spent, Deliveries)> {
        match self.settings.pace {
            Pace::InFlight(count) => self.pool.start_publishing(count + 1)?,
            Pace::Rate(_) => self.pool.start_publishing(PUBLISHERS_AT_A_RATE)?,
        }
        self.pool.shared.ledger.take_deliveries();
        let meter = Meter::start(self.target)?;
        let mut memory = MemorySampler::new(self.target, self.settings.scenario == Scenario::Slow);
        let mut schedule = Schedule::new(self.settings, now());
        let until = now() + duration;
        let mut stall_timer = StallTimer::new(self.settings.stall_timeout);
        // A fixed rate continues even if nothing arrives.
        let is_rate = matches!(self.settings.pace, Pace::Rate(_));
        while now() < until && (is_rate || stall_timer.keep_waiting(self.count_progress())) {
            let deadline = schedule.publish_due(&mut self.pool);
            self.pool.poll_once(deadline.min(until))?;
            memory.sample()?;
        }
        self.drain(None)?;
        self.run.rss_bytes_max = memory.bytes_max();
        let deliveries = self.pool.shared.ledger.take_deliveries();
        let spent = meter.stop(deliveries.last_received.unwrap_or(until))?;
        Ok((spent, deliveries))
    }

    /// Waits until all events are delivered, until nothing arrives any more, or until `deadline`.
    pub(crate) fn drain(&mut self, deadline: Option<Instant>) -> Result<()> {
        let mut stall_timer = StallTimer::new(self.settings.stall_timeout).with_deadline(deadline);
        let open =
            |pool: &ClientPool| pool.shared.ledger.outstanding() + pool.publishes_in_flight();
        while open(&self.pool) > 0 && stall_timer.keep_waiting(self.count_progress()) {
            self.pool.poll_once(now() + self.settings.stall_timeout)?;
        }
        Ok(())
    }

    /// Returns a count that grows while events or responses to publishes arrive. Frames do not count: a server that
    /// sends pings to thousands of clients always sends some.
    fn count_progress(&self) -> u64 {
        let deliveries = &self.pool.shared.ledger.deliveries;
        deliveries.received.operations + deliveries.publish.count()
    }

    fn finish(self) -> Run {
        let Self { pool, mut run, .. } = self;
        let SharedState { ledger, counts, publishing, .. } = pool.shared;
        if let Some(publishing) = publishing {
            run.extra.insert("publisher_nice".to_owned(), publishing.nice().into());
        }
        run.lost = ledger.count_lost();
        let first_error = counts.first_error.clone();
        run.faults.add(counts.errors, || first_error.unwrap_or_default());
        run.faults.merge(&pool.connections.faults);
        run.faults.merge(&counts.rejected_publishes);
        run.counts = counts;
        run.connections = Some(pool.connections);
        run
    }
}

//! The scenarios: who connects when, what is published, and what is measured of it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Map, Value};

use super::attendance::Attendance;
use super::crowd::Crowd;
use super::ledger::Deliveries;
use super::meter::{MemoryPeak, Meter, Spent};
use super::schedule::{Patience, Schedule};
use super::settings::{LoadSettings, Pace, Scenario};
use super::surroundings::{Counts, Surroundings};
use super::target::{Protocol, Target};
use super::{fanout, floor, presence, slow, storm};
use crate::clock::now;
use crate::process_usage::Usage;
use crate::tally::Faults;

/// Publishing connections opened beforehand where events are published at a rate.
pub(crate) const PUBLISHERS_AT_A_RATE: usize = 4;

/// All that a run found.
#[derive(Debug)]
pub(crate) struct Run {
    /// The connecting of all clients; not in the floor.
    pub(crate) arrival: Option<Spent>,
    /// Server memory before the first client and with all of them, idle.
    pub(crate) rss: Option<(Usage, Usage)>,
    /// The most of it while events were published the last time; in scenario slow only.
    pub(crate) rss_bytes_max: Option<u64>,
    pub(crate) attendance: Option<Attendance>,
    /// The stretch that the scenario is about, and what was heard in it.
    pub(crate) load: Option<(Spent, Deliveries)>,
    pub(crate) lost: u64,
    pub(crate) counts: Counts,
    pub(crate) faults: Faults,
    /// What this scenario alone measures.
    pub(crate) extra: Map<String, Value>,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    if settings.scenario == Scenario::Floor {
        return floor::run(target, settings);
    }
    let mut bench = Bench::prepare(target, settings)?;
    match settings.scenario {
        Scenario::Connect => bench.arrive(),
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
    pub(crate) crowd: Crowd,
    pub(crate) run: Run,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self {
            arrival: None,
            rss: None,
            rss_bytes_max: None,
            attendance: None,
            load: None,
            lost: 0,
            counts: Counts::default(),
            faults: Faults::default(),
            extra: Map::new(),
        }
    }

    /// Counts what went wrong in a stretch that is not the one reported on.
    pub(crate) fn add_deliveries_faults(&mut self, deliveries: &Deliveries) {
        let wrong = super::report::wrong(deliveries);
        let first = deliveries.heard.faults.first.clone();
        let text = || first.unwrap_or_else(|| "events in another order, or twice".to_owned());
        self.faults.add(wrong, text);
    }
}

impl<'run> Bench<'run> {
    fn prepare(target: &'run Target, settings: &'run LoadSettings) -> Result<Self> {
        let is_presence = settings.scenario == Scenario::Presence;
        let speaks_presence = target.protocol == Protocol::Pusher;
        ensure!(!is_presence || speaks_presence, "--scenario presence needs --protocol pusher");
        let around = Surroundings::new(target, settings)?;
        let crowd = Crowd::new(target, settings, around)?;
        Ok(Self { target, settings, crowd, run: Run::new() })
    }

    /// Connects and subscribes all clients, then lets the server come to rest.
    pub(crate) fn arrive(&mut self) -> Result<()> {
        let meter = Meter::start(self.target)?;
        let before = self.target.usage()?;
        self.crowd.arrive(self.settings)?;
        let end = self.crowd.attendance.last_arrival.unwrap_or(meter.started);
        self.run.arrival = Some(meter.stop(end)?);
        self.crowd.check_all_live()?;
        self.pause(self.settings.settle)?;
        self.run.rss = before.zip(self.target.usage()?);
        Ok(())
    }

    /// Goes on serving for a while without publishing.
    pub(crate) fn pause(&mut self, duration: Duration) -> Result<()> {
        let until = now() + duration;
        while now() < until {
            self.crowd.turn(until)?;
        }
        Ok(())
    }

    /// Publishes as the settings say, and waits until all have what was published.
    pub(crate) fn publish_for(&mut self, duration: Duration) -> Result<(Spent, Deliveries)> {
        match self.settings.pace {
            Pace::InFlight(count) => self.crowd.start_publishing(count + 1)?,
            Pace::Rate(_) => self.crowd.start_publishing(PUBLISHERS_AT_A_RATE)?,
        }
        self.crowd.around.ledger.take_deliveries();
        let meter = Meter::start(self.target)?;
        let mut memory = MemoryPeak::new(self.target, self.settings.scenario == Scenario::Slow);
        let mut schedule = Schedule::new(self.settings, now());
        let until = now() + duration;
        let mut patience = Patience::new(self.settings.stall_timeout);
        // A rate goes on whatever comes of it.
        let is_rate = matches!(self.settings.pace, Pace::Rate(_));
        while now() < until && (is_rate || patience.lasts(self.moved())) {
            let deadline = schedule.publish_due(&mut self.crowd);
            self.crowd.turn(deadline.min(until))?;
            memory.sample()?;
        }
        self.drain(None)?;
        self.run.rss_bytes_max = memory.most();
        let deliveries = self.crowd.around.ledger.take_deliveries();
        let spent = meter.stop(deliveries.last_heard.unwrap_or(until))?;
        Ok((spent, deliveries))
    }

    /// Waits until everybody has everything, or nothing comes any more, or until `deadline`.
    pub(crate) fn drain(&mut self, deadline: Option<Instant>) -> Result<()> {
        let mut patience = Patience::new(self.settings.stall_timeout).until(deadline);
        let open = |crowd: &Crowd| crowd.around.ledger.outstanding() + crowd.unanswered();
        while open(&self.crowd) > 0 && patience.lasts(self.moved()) {
            self.crowd.turn(now() + self.settings.stall_timeout)?;
        }
        Ok(())
    }

    /// Grows as long as events arrive or publishes are answered. A server that sends pings to thousands of clients
    /// always sends something, so frames are no sign that what is missing will come.
    fn moved(&self) -> u64 {
        let deliveries = &self.crowd.around.ledger.deliveries;
        deliveries.heard.operations + deliveries.publish.count()
    }

    fn finish(self) -> Run {
        let Self { crowd, mut run, .. } = self;
        let Surroundings { ledger, counts, publishing, .. } = crowd.around;
        if let Some(publishing) = publishing {
            run.extra.insert("publisher_nice".to_owned(), publishing.nice().into());
        }
        run.lost = ledger.lost();
        let complaints = counts.first_complaint.clone();
        run.faults.add(counts.complaints, || complaints.unwrap_or_default());
        run.faults.merge(&crowd.attendance.faults);
        run.faults.merge(&counts.refused_publishes);
        run.counts = counts;
        run.attendance = Some(crowd.attendance);
        run
    }
}

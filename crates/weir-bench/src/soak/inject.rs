//! Injects a fault and undoes it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

use super::fault::Fault;
use super::jobs::Workers;
use super::plan::PlannedFault;
use super::realtime::{Channel, run_slow_client};
use super::samples::Pids;
use super::shared::Shared;
use super::site::{Node, Site};
use crate::clock::monotonic;

/// `RestartSec` of deploy/weir.service.
const RESTART_AFTER: Duration = Duration::from_secs(2);
const SECONDS_AHEAD: i64 = 90;
const SLOW_CLIENTS: usize = 50;

/// What a fault acts on.
#[derive(Debug)]
pub(super) struct Injector<'a> {
    pub(super) site: &'a mut Site,
    pub(super) workers: &'a mut Workers,
    pub(super) pids: &'a Pids,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) channels: &'a [Arc<Channel>],
}

impl Injector<'_> {
    /// Returns what was done to whom, when the fault is undone.
    pub(super) fn inject(&mut self, planned: &PlannedFault) -> Result<String> {
        let place = planned.victim % self.site.nodes.len();
        let node = self.site.nodes[place].to_string();
        let lasted = format!("{:.1} s", planned.lasts.as_secs_f64());
        match planned.fault {
            Fault::WorkerKill => return self.workers.replace(planned.victim),
            Fault::AppKill => self.site.nodes[place].kill_app_worker(planned.victim)?,
            Fault::ServiceKill => self.site.nodes[place].kill_service()?,
            Fault::WeirKill | Fault::WeirStop => self.restart(planned.fault, place)?,
            Fault::WeirRestart => self.site.nodes[place].run(&["restart"]).map(drop)?,
            Fault::WeirUpgrade => self.site.nodes[place].run(&["upgrade"]).map(drop)?,
            Fault::WeirPause => {
                let service = self.site.nodes[place].pause()?;
                std::thread::sleep(planned.lasts);
                Node::resume(service);
                return Ok(format!("{node}, {lasted}"));
            }
            Fault::RedisPause => {
                let redis = self.site.redis.as_ref().context("no Redis")?;
                redis.pause()?;
                std::thread::sleep(planned.lasts);
                redis.resume()?;
                return Ok(lasted);
            }
            Fault::RedisKill => {
                let redis = self.site.redis.as_mut().context("no Redis")?;
                redis.kill()?;
                std::thread::sleep(RESTART_AFTER);
                redis.restart()?;
                return Ok("Redis".to_owned());
            }
            Fault::PostgresStop => {
                let postgres = self.site.postgres.as_mut().context("no Postgres")?;
                postgres.stop()?;
                std::thread::sleep(planned.lasts);
                postgres.restart()?;
                return Ok(lasted);
            }
            Fault::DiskFull => {
                let disk = self.site.disks.get(place).context("no file system")?;
                disk.keep_full(planned.lasts)?;
                return Ok(format!("{node}, {lasted}"));
            }
            Fault::ClockStep => return self.step_clock(place, planned.lasts),
            Fault::SlowClients => return self.run_slow_clients(planned.lasts),
            Fault::Partition => return self.partition(place, planned.lasts),
        }
        Ok(node)
    }

    fn restart(&mut self, fault: Fault, place: usize) -> Result<()> {
        let node = &mut self.site.nodes[place];
        self.pids.set(place, None);
        if fault == Fault::WeirKill {
            node.kill()?;
            std::thread::sleep(RESTART_AFTER);
        } else {
            node.stop()?;
        }
        node.start()?;
        self.pids.set(place, node.pid());
        Ok(())
    }

    fn step_clock(&self, place: usize, lasts: Duration) -> Result<String> {
        let node = &self.site.nodes[place];
        node.set_clock(SECONDS_AHEAD)?;
        std::thread::sleep(lasts);
        node.set_clock(0)?;
        Ok(format!("{node}, {:.1} s", lasts.as_secs_f64()))
    }

    fn partition(&self, place: usize, lasts: Duration) -> Result<String> {
        let network = self.site.network.as_ref().context("no network namespaces")?;
        network.cut(place)?;
        std::thread::sleep(lasts);
        network.join(place)?;
        Ok(format!("{}, {:.1} s", self.site.nodes[place], lasts.as_secs_f64()))
    }

    fn run_slow_clients(&self, lasts: Duration) -> Result<String> {
        // Their queues are full after about ten seconds.
        let lasts = lasts.max(Duration::from_secs(15));
        let deadline = monotonic() + lasts;
        let threads = (0..SLOW_CLIENTS).map(|number| {
            let (shared, channels) = (Arc::clone(self.shared), self.channels.to_vec());
            let run = move || run_slow_client(&shared, &channels, number, Some(deadline));
            std::thread::Builder::new().spawn(run).context("starting a slow client")
        });
        let threads: Vec<JoinHandle<()>> = threads.collect::<Result<_>>()?;
        for thread in threads {
            // A panic of a client that does not read has no consequence.
            let _ = thread.join();
        }
        Ok(format!("{SLOW_CLIENTS} clients, {:.0} s", lasts.as_secs_f64()))
    }
}

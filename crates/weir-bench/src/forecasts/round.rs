//! A round: a queue of each scenario, with a producer and worker processes, all at the same time.

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::producer;
use super::scenarios::{QueueScenario, WorkerPlan};
use crate::clock::monotonic;
use crate::jobs::server_url::ServerUrl;

/// A thread sees the end of the round within this time.
const NAP: Duration = Duration::from_millis(200);

/// What the threads of a round share.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) server: ServerUrl,
    began: Duration,
    ended: Arc<AtomicBool>,
    failures: Sender<anyhow::Error>,
}

/// The threads of a round, which end with it.
#[derive(Debug)]
pub(super) struct RunningRound {
    round: Round,
    threads: Vec<JoinHandle<()>>,
    failures: Receiver<anyhow::Error>,
}

impl RunningRound {
    /// Pushes the backlogs, and starts a producer and the worker processes of each queue.
    pub(super) fn start(
        server: &ServerUrl,
        scenarios: &[QueueScenario],
        random: &mut Rng,
    ) -> Result<Self> {
        for scenario in scenarios {
            producer::push_backlog(server, scenario)?;
        }
        let (sender, failures) = channel();
        let round = Round {
            server: server.clone(),
            began: monotonic(),
            ended: Arc::default(),
            failures: sender,
        };
        let mut running = Self { round, threads: Vec::new(), failures };
        for scenario in scenarios {
            let seed = random.u64(..);
            running.spawn(scenario, move |round, scenario| {
                let mut random = Rng::with_seed(seed);
                producer::produce(&round.server, scenario, &mut random, |at| round.sleep_until(at))
            })?;
            for worker in scenario.workers.clone() {
                let seed = random.u64(..);
                running.spawn(scenario, move |round, scenario| {
                    round.run_worker(scenario, worker, seed)
                })?;
            }
        }
        Ok(running)
    }

    fn spawn(
        &mut self,
        scenario: &QueueScenario,
        task: impl FnOnce(&Round, &QueueScenario) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (round, scenario) = (self.round.clone(), scenario.clone());
        let task = move || {
            let result = task(&round, &scenario);
            if let Err(error) = result.with_context(|| format!("queue {}", scenario.queue)) {
                // The round may be over.
                let _ = round.failures.send(error);
            }
        };
        self.threads.push(std::thread::Builder::new().spawn(task)?);
        Ok(())
    }

    /// Fails if a producer or a worker did.
    pub(super) fn check(&self) -> Result<()> {
        match self.failures.try_recv() {
            Ok(error) => Err(error),
            Err(_) => Ok(()),
        }
    }
}

impl Drop for RunningRound {
    fn drop(&mut self) {
        self.round.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that failed has reported it.
            let _ = thread.join();
        }
    }
}

impl Round {
    /// Sleeps until a time of the round. Returns whether the round goes on.
    pub(super) fn sleep_until(&self, at: Duration) -> bool {
        while !self.ended.load(Ordering::Relaxed) {
            let left = at.saturating_sub(monotonic().saturating_sub(self.began));
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
        false
    }

    /// Starts a worker process at its time, and kills it at its time or at the end of the round.
    fn run_worker(&self, scenario: &QueueScenario, plan: WorkerPlan, seed: u64) -> Result<()> {
        if !self.sleep_until(Duration::from_secs_f64(plan.from)) {
            return Ok(());
        }
        let mut process = WorkerProcess::start(&self.server, scenario, plan.threads, seed)?;
        let killed_at = plan.killed_at.map_or(Duration::MAX, Duration::from_secs_f64);
        let mut next = monotonic().saturating_sub(self.began);
        while next < killed_at && self.sleep_until(next) {
            process.check_running()?;
            next += NAP;
        }
        Ok(())
    }
}

/// It is killed when this is dropped.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(
        server: &ServerUrl,
        scenario: &QueueScenario,
        threads: u64,
        seed: u64,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.args(["forecasts-worker", "--url", &format!("tcp://{}", server.address)]);
        command.args(["--queue", &scenario.queue, "--threads", &threads.to_string()]);
        command.args(["--run-time", &serde_json::to_string(&scenario.run_time)?]);
        command.args(["--failing", &scenario.failing.to_string(), "--seed", &seed.to_string()]);
        command.args(["--end-with-parent", &std::process::id().to_string()]);
        Ok(Self(command.spawn().context("starting a worker process")?))
    }

    fn check_running(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("a worker process has ended: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

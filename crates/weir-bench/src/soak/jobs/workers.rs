//! The worker processes: started, killed, replaced, and what they report.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};

use super::ledger::Ledger;
use super::worker::Event;
use super::{BATCH_QUEUE, CALLBACK_QUEUE, ORDERED_QUEUE};
use crate::soak::journal::Part;
use crate::soak::shared::Shared;

/// Worker processes besides the one of the ordered queue.
const PROCESSES: usize = 3;
const THREADS: usize = 8;

#[derive(Debug)]
pub(in crate::soak) struct Workers {
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    processes: Vec<Worker>,
    /// Each process has a `wid` of its own.
    started: usize,
}

#[derive(Debug)]
struct Worker {
    process: Child,
    queues: String,
    threads: usize,
}

impl Workers {
    /// `queues`: those of the producers, without the ordered one.
    pub(in crate::soak) fn start(
        shared: &Arc<Shared>,
        ledger: &Arc<Ledger>,
        queues: &[String],
    ) -> Result<Self> {
        let (shared, ledger) = (Arc::clone(shared), Arc::clone(ledger));
        let mut workers = Self { shared, ledger, processes: Vec::new(), started: 0 };
        let all = format!("{},{BATCH_QUEUE},{CALLBACK_QUEUE}", queues.join(","));
        for _ in 0..PROCESSES {
            let worker = workers.start_process(all.clone(), THREADS)?;
            workers.processes.push(worker);
        }
        let ordered = workers.start_process(ORDERED_QUEUE.to_owned(), 1)?;
        workers.processes.push(ordered);
        Ok(workers)
    }

    fn start_process(&mut self, queues: String, threads: usize) -> Result<Worker> {
        let program = std::env::current_exe().context("finding this program")?;
        let nodes: Vec<String> = self.shared.nodes.iter().map(|it| it.jobs.to_string()).collect();
        self.started += 1;
        let mut command = Command::new(program);
        command.args(["soak-worker", "--nodes", &nodes.join(","), "--queues", &queues]);
        command.args(["--threads", &threads.to_string()]);
        command.args(["--wid", &format!("soak-worker-{}", self.started)]);
        command.args(["--end-with-parent", &std::process::id().to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().context("starting a worker")?;
        let output = process.stdout.take().context("a worker's output")?;
        let (shared, ledger) = (Arc::clone(&self.shared), Arc::clone(&self.ledger));
        std::thread::Builder::new().spawn(move || read_events(output, &shared, &ledger))?;
        Ok(Worker { process, queues, threads })
    }

    /// Kills a worker process and starts another one. Returns what was killed.
    pub(in crate::soak) fn replace(&mut self, victim: usize) -> Result<String> {
        let place = victim % self.processes.len();
        let worker = self.processes.get_mut(place).ok_or_else(|| anyhow!("no worker"))?;
        worker.process.kill().context("killing a worker")?;
        worker.process.wait()?;
        let (queues, threads) = (worker.queues.clone(), worker.threads);
        let detail = format!("worker process {place} of {}", self.processes.len());
        self.processes[place] = self.start_process(queues, threads)?;
        Ok(detail)
    }

    /// Returns the workers that have ended although nobody killed them.
    pub(in crate::soak) fn ended(&mut self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for worker in &mut self.processes {
            if let Some(status) = worker.process.try_wait()? {
                ended.push(format!("a worker process has ended: {status}"));
            }
        }
        Ok(ended)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.processes {
            // The run is over.
            let _ = worker.process.kill();
            let _ = worker.process.wait();
        }
    }
}

fn read_events(output: ChildStdout, shared: &Shared, ledger: &Ledger) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match Event::parse(&line) {
            Some(Event::RunBegan { jid, at }) => ledger.run_began(&jid, at),
            Some(Event::CallbackBegan { jid, batch, at }) => ledger.callback_began(&jid, batch, at),
            Some(Event::Failed { jid }) => ledger.failed(&jid),
            Some(Event::AckSent { jid, at }) => ledger.ack_sent(&jid, at),
            Some(Event::Acknowledged { jid }) => ledger.acknowledged(&jid),
            Some(Event::Error { began, at, text }) => {
                shared.journal.record_at(Part::Jobs, began, at, text);
            }
            None => {}
        }
    }
}

//! The floor: what a plain loop of `write` costs that sends an event to every one of so many sockets. No server
//! on this kernel that writes to each socket can do with less.
//!
//! The loop runs in a process of its own. It reads on its standard input when to begin a round, and prints its CPU
//! time; this process reads the sockets. A round begins when all sockets of the previous round have been read.

mod readers;
mod writer;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use self::readers::Readers;
pub(crate) use self::writer::{WriterFlags, write};
use super::codec::channel_name;
use super::ledger::Ledger;
use super::meter::Spent;
use super::payload::EventData;
use super::report::{rounded, us_per_operation};
use super::scenario::Run;
use super::settings::LoadSettings;
use super::source::Sources;
use super::target::Target;
use super::{frame, pusher};
use crate::clock::{now, own_cpu_time};
use crate::latency::Latencies;
use crate::process_usage::Usage;

/// Frames per write of the second half: a server that is behind sends what waits at once.
const FRAMES_COALESCED: usize = 8;

/// Rounds with one number of frames per write.
struct Rounds {
    cpu: Duration,
    elapsed: Duration,
    writes: u64,
    latencies: Latencies,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    let data = EventData::new(0, settings.payload_bytes)?.of(0);
    let mut frame = Vec::new();
    frame::append_unmasked(pusher::event_text(&channel_name(0), &data).as_bytes(), &mut frame);
    let mut floor = Floor::start(settings, frame.len())?;
    floor.share_cpus_with(&target.pids)?;
    let client_cpu = own_cpu_time();
    let single = floor.rounds(1, settings.duration / 2)?;
    let client_cpu = own_cpu_time().saturating_sub(client_cpu);
    let batched = floor.rounds(FRAMES_COALESCED, settings.duration / 2)?;
    floor.stop()?;
    Ok(report(&single, &batched, client_cpu, frame.len()))
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 writes")]
fn report(single: &Rounds, batched: &Rounds, client_cpu: Duration, frame_bytes: usize) -> Run {
    let mut run = Run::new();
    let per_write = |rounds: &Rounds| us_per_operation(rounds.cpu, rounds.writes as f64);
    let per_frame = us_per_operation(batched.cpu, batched.writes as f64 * FRAMES_COALESCED as f64);
    for (key, value) in [
        ("cpu_us_per_write_of_1_frame", per_write(single)),
        ("cpu_us_per_write_of_8_frames", per_write(batched)),
        ("cpu_us_per_frame_of_8", per_frame),
    ] {
        run.extra.insert(key.to_owned(), value.into());
    }
    run.extra.insert("frame_bytes".to_owned(), frame_bytes.into());
    for (key, quantile) in [("last_client_p50_us", 0.50), ("last_client_p99_us", 0.99)] {
        run.extra.insert(key.to_owned(), rounded(single.latencies.quantile_us(quantile)).into());
    }
    let writer = Usage { cpu: single.cpu, ..Usage::default() };
    let spent =
        Spent { elapsed: single.elapsed, client_cpu, server: Some((Usage::default(), writer)) };
    let mut deliveries = Ledger::new(0).take_deliveries();
    deliveries.received.operations = single.writes;
    run.load = Some((spent, deliveries));
    run
}

struct Floor {
    child: Child,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
    readers: Readers,
    frame_bytes: usize,
}

impl Floor {
    fn start(settings: &LoadSettings, frame_bytes: usize) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let numbers = [settings.clients.to_string(), frame_bytes.to_string()];
        let mut command = Command::new(program);
        command.args([
            "realtime",
            "floor-writer",
            "--sockets",
            &numbers[0],
            "--frame-bytes",
            &numbers[1],
        ]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting the writer")?;
        let commands = child.stdin.take().context("the writer's input")?;
        let replies = BufReader::new(child.stdout.take().context("the writer's output")?);
        let readers = Readers::new()?;
        let mut floor = Self { child, commands, replies, readers, frame_bytes };
        let port = floor.read_reply()?.parse().context("the writer's port")?;
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let sources = Sources::new(settings.source_addresses);
        for index in 0..settings.clients {
            let from = sources.address(index);
            let added = floor.readers.add(&sources, index, to);
            added.with_context(|| format!("reader {index}, from {from}"))?;
        }
        let ready = floor.read_reply()?;
        ensure!(ready == "ready", "the writer says '{ready}'");
        Ok(floor)
    }

    /// Restricts the writer to the CPUs of the server under comparison.
    fn share_cpus_with(&self, server_pids: &[u32]) -> Result<()> {
        let pid_of = |pid: u32| i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(server) = server_pids.first().copied().and_then(pid_of) {
            let cpus = sched_getaffinity(Some(server)).context("reading the server's CPUs")?;
            sched_setaffinity(pid_of(self.child.id()), &cpus)
                .context("setting the writer's CPUs")?;
        }
        Ok(())
    }

    fn rounds(&mut self, frames: usize, duration: Duration) -> Result<Rounds> {
        let start = now();
        let (mut cpu, mut writes, mut latencies) = (Duration::ZERO, 0, Latencies::new());
        while start.elapsed() < duration {
            let round = now();
            writeln!(self.commands, "{frames}")?;
            let sockets = self.readers.sockets.len();
            self.readers.read(sockets * frames * self.frame_bytes)?;
            latencies.record(round.elapsed());
            let nanoseconds = self.read_reply()?.parse().context("the writer's CPU time")?;
            cpu += Duration::from_nanos(nanoseconds);
            writes += sockets as u64;
        }
        Ok(Rounds { cpu, elapsed: start.elapsed(), writes, latencies })
    }

    fn read_reply(&mut self) -> Result<String> {
        let mut line = String::new();
        let bytes = self.replies.read_line(&mut line).context("reading what the writer says")?;
        ensure!(
            bytes > 0,
            "the writer ended: is the limit of open files too low for so many clients?"
        );
        Ok(line.trim().to_owned())
    }

    fn stop(self) -> Result<()> {
        let Self { mut child, commands, .. } = self;
        drop(commands);
        let status = child.wait().context("waiting for the writer")?;
        ensure!(status.success(), "the writer failed: {status}");
        Ok(())
    }
}

//! Doctor's forecasts of a real Sidekiq (Debian: ruby-sidekiq) with a Redis of its own, which doctor samples by itself.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use serde_json::Value;
use tempfile::TempDir;

use super::flags::ForecastsFlags;
use super::record::{Forecast, ForecastRecord};
use crate::clock::{monotonic, unix_seconds};
use crate::output::Output;
use crate::weir_process::{POLL_INTERVAL, START_TIMEOUT, WeirProcess};

const QUEUE: &str = "forecast";
const TIMEOUT: Duration = Duration::from_secs(10);
/// A drain that is not over by then fails.
const DRAIN_MAX: Duration = Duration::from_secs(600);
/// Arrivals come in bunches so far apart.
const BUNCHES_PER_SECOND: u64 = 10;
/// `Nap` takes a tenth of a second; of `Heavy` one in twenty takes twenty times as long; of `Fails` a fifth fails.
const WORKER: &str = "require 'sidekiq'\n\
    class Nap\n  include Sidekiq::Worker\n  def perform(*)\n    sleep 0.1\n  end\nend\n\
    class Heavy\n  include Sidekiq::Worker\n  def perform(*)\n\
    sleep(rand(20).zero? ? 1.0 : 0.05)\n  end\nend\n\
    class Fails\n  include Sidekiq::Worker\n  def perform(*)\n    sleep 0.1\n\
    raise 'by chance' if rand(5).zero?\n  end\nend\n";

struct SidekiqScenario {
    name: &'static str,
    class: &'static str,
    backlog: u64,
    per_second: u64,
}

/// Draws what drains in 60 to 90 s with ten threads.
fn scenarios(random: &mut Rng) -> [SidekiqScenario; 3] {
    let mut scenario = |name, class, per_second: u64| {
        let seconds = random.u64(60..=90);
        // Ten threads end about 98 jobs per second.
        SidekiqScenario { name, class, backlog: (98 - per_second) * seconds, per_second }
    };
    [
        scenario("sidekiq steady", "Nap", 0),
        scenario("sidekiq heavy", "Heavy", 30),
        scenario("sidekiq fails", "Fails", 10),
    ]
}

/// Drains a queue of each scenario. Without a Sidekiq on this machine, there is nothing to measure.
pub(super) fn measure(
    flags: &ForecastsFlags,
    weir: &WeirProcess,
    output: &mut Output,
) -> Result<Vec<ForecastRecord>> {
    if flags.sidekiq_rounds == 0 {
        return Ok(Vec::new());
    }
    if Command::new("sidekiq").arg("--version").stdout(Stdio::null()).status().is_err() {
        output.note("skipping Sidekiq: there is none (apt-get install ruby-sidekiq)")?;
        return Ok(Vec::new());
    }
    let rounds = flags.sidekiq_rounds;
    let mut random = Rng::with_seed(flags.seed);
    let mut records = Vec::new();
    for round in 1..=rounds {
        for scenario in &scenarios(&mut random) {
            output.note(&format!("round {round} of {rounds}: draining {}", scenario.name))?;
            records.extend(drain(scenario, weir).with_context(|| scenario.name)?);
        }
    }
    Ok(records)
}

fn drain(scenario: &SidekiqScenario, weir: &WeirProcess) -> Result<Vec<ForecastRecord>> {
    let folder = tempfile::tempdir()?;
    let redis = RedisServer::start(&folder)?;
    redis.push(scenario.class, scenario.backlog)?;
    let _sidekiq = start_sidekiq(&redis, &folder)?;
    let ended = AtomicBool::new(false);
    let (forecasts, empty_at) = std::thread::scope(|scope| {
        let producer = scope.spawn(|| produce(&redis, scenario, &ended));
        let watcher = scope.spawn(|| redis.wait_until_empty(&ended));
        let mut forecasts = Vec::new();
        let mut result = Ok(());
        while !watcher.is_finished() && result.is_ok() {
            result = forecast(&redis, weir).map(|forecast| forecasts.push(forecast));
        }
        // After an error, the threads end early.
        ended.store(true, Ordering::Relaxed);
        let empty_at = watcher.join().map_err(|_| anyhow!("the watcher panicked"))?;
        producer.join().map_err(|_| anyhow!("the producer panicked"))??;
        result.and(empty_at).map(|empty_at| (forecasts, empty_at))
    })?;
    let before = forecasts.into_iter().filter(|(at, _)| *at < empty_at);
    let record = |(at, forecast): (Duration, Forecast)| {
        let actual = empty_at.saturating_sub(at).as_secs_f64();
        ForecastRecord { scenario: scenario.name, forecast, actual }
    };
    Ok(before.map(record).collect())
}

/// Returns doctor's forecast, and the end of its window.
fn forecast(redis: &RedisServer, weir: &WeirProcess) -> Result<(Duration, Forecast)> {
    let url = format!("redis://{}", redis.address);
    let arguments = ["doctor", "--json", "--window", "10s", "--redis", url.as_str()];
    let began = monotonic();
    let document = weir.command_without_config(&arguments)?;
    // What doctor does before and after its window is short beside it.
    let at = monotonic().max(began + Duration::from_secs(10));
    let document: Value = serde_json::from_slice(&document).context("the output of doctor")?;
    let verdict = &document["verdict"];
    let range =
        seconds(&verdict["between"]["shortest"]).zip(seconds(&verdict["between"]["longest"]));
    let expected = seconds(&verdict["drain"]["after"]);
    let state = verdict["drain"].as_str().unwrap_or_default().to_owned();
    let says_never = ["grows", "stands"].contains(&state.as_str());
    Ok((at, Forecast { expected, range, says_never, state, by_last_minute: None }))
}

fn seconds(duration: &Value) -> Option<f64> {
    Some(duration["secs"].as_f64()? + duration["nanos"].as_f64()? / 1e9)
}

fn produce(redis: &RedisServer, scenario: &SidekiqScenario, ended: &AtomicBool) -> Result<()> {
    let began = monotonic();
    let mut bunches: u32 = 0;
    while !ended.load(Ordering::Relaxed) && scenario.per_second > 0 {
        redis.push(scenario.class, scenario.per_second / BUNCHES_PER_SECOND)?;
        bunches += 1;
        let next = began + Duration::from_secs(1) / 10 * bunches;
        std::thread::sleep(next.saturating_sub(monotonic()));
    }
    Ok(())
}

/// A child that is killed when it is dropped.
struct OwnChild(Child);

impl Drop for OwnChild {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct RedisServer {
    address: SocketAddr,
    _child: OwnChild,
}

fn start_sidekiq(redis: &RedisServer, folder: &TempDir) -> Result<OwnChild> {
    std::fs::write(folder.path().join("worker.rb"), WORKER)?;
    let mut command = Command::new("sidekiq");
    command.args(["-r", "./worker.rb", "-c", "10", "-q", QUEUE]).current_dir(folder.path());
    command.env("REDIS_URL", format!("redis://{}/0", redis.address)).stdin(Stdio::null());
    command.stdout(File::create(folder.path().join("sidekiq.log"))?).stderr(Stdio::null());
    let child = OwnChild(command.spawn().context("starting sidekiq")?);
    let deadline = monotonic() + START_TIMEOUT;
    while redis.number(&["SCARD", "processes"])? == 0 {
        ensure!(monotonic() < deadline, "Sidekiq sends no heartbeat within {START_TIMEOUT:?}");
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(child)
}

impl RedisServer {
    fn start(folder: &TempDir) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        drop(listener);
        let port = address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--dir"]);
        command.arg(folder.path()).stdout(Stdio::null());
        let child = OwnChild(command.spawn().context("starting redis-server")?);
        let redis = Self { address, _child: child };
        let deadline = monotonic() + START_TIMEOUT;
        while redis.number(&["DBSIZE"]).is_err() {
            ensure!(monotonic() < deadline, "redis-server is not ready within {START_TIMEOUT:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(redis)
    }

    /// Pushes jobs as Sidekiq's client does.
    fn push(&self, class: &str, count: u64) -> Result<()> {
        let at = unix_seconds();
        let job = |_| {
            let jid = fastrand::u64(..);
            format!(
                r#"{{"class":"{class}","args":[],"queue":"{QUEUE}","jid":"{jid:024x}","retry":true,"created_at":{at}.0,"enqueued_at":{at}.0}}"#
            )
        };
        let jobs: Vec<String> = (0..count).map(job).collect();
        let key = format!("queue:{QUEUE}");
        let words = ["LPUSH", &key].into_iter().chain(jobs.iter().map(String::as_str));
        self.number(&["SADD", "queues", QUEUE])?;
        self.number(&words.collect::<Vec<_>>())?;
        Ok(())
    }

    fn wait_until_empty(&self, ended: &AtomicBool) -> Result<Duration> {
        let deadline = monotonic() + DRAIN_MAX;
        let key = format!("queue:{QUEUE}");
        while self.number(&["LLEN", &key])? > 0 {
            ensure!(!ended.load(Ordering::Relaxed), "the run has ended before");
            ensure!(monotonic() < deadline, "the queue is not empty within {DRAIN_MAX:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(monotonic())
    }

    /// Sends a command that returns a number.
    fn number(&self, words: &[&str]) -> Result<u64> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            // Writing to a String cannot fail.
            let _ = write!(command, "${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(command.as_bytes())?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        let Some(number) = reply.strip_prefix(':') else { bail!("{}: {reply}", words[0]) };
        Ok(number.trim().parse()?)
    }
}

//! The jobs of a queue: those that wait at the start, and those that arrive.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::scenarios::QueueScenario;
use crate::jobs::connect::Control;
use crate::jobs::server_url::ServerUrl;

const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
const BATCH_JOBS: u64 = 500;

/// Pushes the jobs that wait at the start of a round.
pub(super) fn push_backlog(server: &ServerUrl, scenario: &QueueScenario) -> Result<()> {
    let mut producer = Control::open(server, REPLY_TIMEOUT)?;
    let mut pushed = 0;
    while pushed < scenario.backlog {
        let jobs = BATCH_JOBS.min(scenario.backlog - pushed);
        push(&mut producer, &scenario.queue, jobs)?;
        pushed += jobs;
    }
    Ok(())
}

/// Pushes what arrives until the round ends. `sleep_until` returns whether it goes on at that time.
pub(super) fn produce(
    server: &ServerUrl,
    scenario: &QueueScenario,
    random: &mut Rng,
    sleep_until: impl Fn(Duration) -> bool,
) -> Result<()> {
    let mut producer = Control::open(server, REPLY_TIMEOUT)?;
    let mut now = Duration::ZERO;
    while let Some((at, jobs)) = scenario.arrivals.next(now, random) {
        if !sleep_until(at) {
            break;
        }
        push(&mut producer, &scenario.queue, jobs)?;
        now = at;
    }
    Ok(())
}

fn push(producer: &mut Control, queue: &str, jobs: u64) -> Result<()> {
    let job = |_| {
        let jid = fastrand::u64(..);
        format!(
            r#"{{"jid":"forecast-{jid:016x}","jobtype":"BenchJob","queue":"{queue}","args":[]}}"#
        )
    };
    let jobs: Vec<String> = (0..jobs).map(job).collect();
    let reply = producer.command(&format!("PUSHB [{}]", jobs.join(",")))?;
    ensure!(reply == b"{}", "PUSHB: {}", String::from_utf8_lossy(&reply));
    Ok(())
}

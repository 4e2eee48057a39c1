//! All clients lose their connections at once while events continue, and reconnect as client libraries do.
//!
//! The run ends when all clients are back and have received everything, or when its patience is over.

use std::time::Instant;

use anyhow::{Context, Result};

use super::connection_stats::AfterClose;
use super::meter::Meter;
use super::report::rounded;
use super::scenario::{Bench, PUBLISHERS_AT_A_RATE};
use super::schedule::Schedule;
use super::settings::StormBy;
use crate::clock::now;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.connect_clients()?;
    bench.pool.start_publishing(PUBLISHERS_AT_A_RATE)?;
    bench.pool.after_close = AfterClose::Reconnect;
    bench.pool.shared.ledger.take_deliveries();
    let meter = Meter::start(bench.target)?;
    let mut schedule = Schedule::new(bench.settings, now());
    // Clients need some events before the cut, so that they have a position.
    publish_while(bench, &mut schedule, now() + bench.settings.settle, |_| true)?;
    let cut = cut(bench, &mut schedule)?;
    let deadline = cut + bench.settings.patience;
    wait_until_back(bench, &mut schedule, cut, deadline)?;
    let all_live = bench.pool.connections.live == bench.settings.clients;
    // The last events are still in flight.
    bench.drain(Some(deadline.max(now() + bench.settings.stall_timeout)))?;
    let connections = &bench.pool.connections;
    let back = connections.last_connected.map(|last| last.saturating_duration_since(cut));
    let back = back.filter(|_| all_live).map(|back| rounded(back.as_secs_f64()));
    bench.run.extra.insert("all_back_s".to_owned(), back.into());
    let missing = (bench.settings.clients - connections.live) as u64;
    bench.run.extra.insert("back".to_owned(), connections.live.into());
    bench.run.extra.insert("never_back".to_owned(), missing.into());
    bench.run.faults.add(missing, || format!("{missing} clients did not come back"));
    let deliveries = bench.pool.shared.ledger.take_deliveries();
    let spent = meter.stop(deliveries.last_received.unwrap_or_else(now))?;
    bench.run.load = Some((spent, deliveries));
    Ok(())
}

/// Cuts all connections, or waits until the server does. Returns when the first connection was cut.
fn cut(bench: &mut Bench<'_>, schedule: &mut Schedule) -> Result<Instant> {
    if bench.settings.storm == StormBy::Client {
        bench.pool.cut_all();
        return Ok(now());
    }
    let until = now() + bench.settings.duration;
    publish_while(bench, schedule, until, |bench| bench.pool.connections.first_closed.is_none())?;
    let first = bench.pool.connections.first_closed;
    first.context("--storm server: the server closed nobody for --seconds")
}

/// Publishes until all clients are connected and none has connected for a while, or until `deadline`.
fn wait_until_back(
    bench: &mut Bench<'_>,
    schedule: &mut Schedule,
    cut: Instant,
    deadline: Instant,
) -> Result<()> {
    let (clients, quiet) = (bench.settings.clients, bench.settings.settle);
    let is_waiting = move |bench: &Bench<'_>| {
        let connections = &bench.pool.connections;
        let last = connections.last_connected.unwrap_or(cut).max(cut);
        connections.live < clients || now() < last + quiet
    };
    publish_while(bench, schedule, deadline, is_waiting)
}

/// Publishes on schedule until `until`, or until `should_continue` returns false.
fn publish_while(
    bench: &mut Bench<'_>,
    schedule: &mut Schedule,
    until: Instant,
    should_continue: impl Fn(&Bench<'_>) -> bool,
) -> Result<()> {
    while now() < until && should_continue(bench) {
        let deadline = schedule.publish_due(&mut bench.pool);
        bench.pool.poll_once(deadline.min(until))?;
    }
    Ok(())
}

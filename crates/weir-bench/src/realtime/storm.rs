//! All clients lose their connections at once while events go on, and come back as client libraries do.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::crowd::AfterClose;
use super::meter::Meter;
use super::report::rounded;
use super::scenario::{Bench, Schedule};
use super::settings::StormBy;
use crate::clock::now;

/// Events before the cut, so that every client has a position.
const BEFORE: Duration = Duration::from_secs(2);
/// Everybody is back when nobody has left or come for so long; events go on in the meantime.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.arrive()?;
    bench.crowd.open_publishers(1)?;
    bench.crowd.after_close = AfterClose::Return;
    bench.crowd.around.ledger.take_deliveries();
    let meter = Meter::start(bench.target)?;
    let mut schedule = Schedule::new(bench.settings, now());
    publish_while(bench, &mut schedule, now() + BEFORE, |_| true)?;
    let cut = cut(bench, &mut schedule)?;
    wait_until_back(bench, &mut schedule, cut)?;
    let all_live = bench.crowd.attendance.live == bench.settings.clients;
    bench.drain()?;
    let attendance = &bench.crowd.attendance;
    let back = attendance.last_arrival.map(|last| last.saturating_duration_since(cut));
    let back = back.filter(|_| all_live).map(|back| rounded(back.as_secs_f64()));
    bench.run.extra.insert("all_back_s".to_owned(), back.into());
    let away = (bench.settings.clients - attendance.live) as u64;
    bench.run.faults.add(away, || format!("{away} clients did not come back"));
    let deliveries = bench.crowd.around.ledger.take_deliveries();
    let spent = meter.stop(deliveries.last_heard.unwrap_or_else(now))?;
    bench.run.load = Some((spent, deliveries));
    Ok(())
}

/// When the first connection was cut.
fn cut(bench: &mut Bench<'_>, schedule: &mut Schedule) -> Result<Instant> {
    if bench.settings.storm == StormBy::Client {
        bench.crowd.cut_all();
        return Ok(now());
    }
    let closed = bench.crowd.attendance.closed;
    let until = now() + bench.settings.duration;
    publish_while(bench, schedule, until, |bench| bench.crowd.attendance.closed == closed)?;
    let any = bench.crowd.attendance.closed > closed;
    ensure!(any, "--storm server: the server closed nobody for --seconds");
    Ok(now())
}

fn wait_until_back(bench: &mut Bench<'_>, schedule: &mut Schedule, cut: Instant) -> Result<()> {
    let clients = bench.settings.clients;
    let away = move |bench: &Bench<'_>| {
        let attendance = &bench.crowd.attendance;
        let last = attendance.last_arrival.unwrap_or(cut).max(cut);
        attendance.live < clients || now() < last + QUIET
    };
    publish_while(bench, schedule, cut + bench.settings.duration + QUIET, away)
}

/// Publishes on schedule until `until`, or until `goes_on` says no.
fn publish_while(
    bench: &mut Bench<'_>,
    schedule: &mut Schedule,
    until: Instant,
    goes_on: impl Fn(&Bench<'_>) -> bool,
) -> Result<()> {
    while now() < until && goes_on(bench) {
        let deadline = schedule.publish_due(&mut bench.crowd);
        bench.crowd.turn(deadline.min(until))?;
    }
    Ok(())
}

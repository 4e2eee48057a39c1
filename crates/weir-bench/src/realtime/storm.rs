//! All clients lose their connections at once while events go on, and come back as client libraries do.
//!
//! The run ends when all are back and have everything, or when its patience is over, with what there is by then.

use std::time::Instant;

use anyhow::{Context, Result};

use super::attendance::AfterClose;
use super::meter::Meter;
use super::report::rounded;
use super::scenario::{Bench, PUBLISHERS_AT_A_RATE};
use super::schedule::Schedule;
use super::settings::StormBy;
use crate::clock::now;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.arrive()?;
    bench.crowd.start_publishing(PUBLISHERS_AT_A_RATE)?;
    bench.crowd.after_close = AfterClose::Return;
    bench.crowd.around.ledger.take_deliveries();
    let meter = Meter::start(bench.target)?;
    let mut schedule = Schedule::new(bench.settings, now());
    // Some events before the cut, so that clients have a position.
    publish_while(bench, &mut schedule, now() + bench.settings.settle, |_| true)?;
    let cut = cut(bench, &mut schedule)?;
    let deadline = cut + bench.settings.patience;
    wait_until_back(bench, &mut schedule, cut, deadline)?;
    let all_live = bench.crowd.attendance.live == bench.settings.clients;
    // What was published last is still under way.
    bench.drain(Some(deadline.max(now() + bench.settings.stall_timeout)))?;
    let attendance = &bench.crowd.attendance;
    let back = attendance.last_arrival.map(|last| last.saturating_duration_since(cut));
    let back = back.filter(|_| all_live).map(|back| rounded(back.as_secs_f64()));
    bench.run.extra.insert("all_back_s".to_owned(), back.into());
    let away = (bench.settings.clients - attendance.live) as u64;
    bench.run.extra.insert("back".to_owned(), attendance.live.into());
    bench.run.extra.insert("never_back".to_owned(), away.into());
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
    let until = now() + bench.settings.duration;
    publish_while(bench, schedule, until, |bench| bench.crowd.attendance.first_closed.is_none())?;
    let first = bench.crowd.attendance.first_closed;
    first.context("--storm server: the server closed nobody for --seconds")
}

/// Everybody is back when nobody has left or come for a while; events go on in the meantime, until `deadline` at most.
fn wait_until_back(
    bench: &mut Bench<'_>,
    schedule: &mut Schedule,
    cut: Instant,
    deadline: Instant,
) -> Result<()> {
    let (clients, quiet) = (bench.settings.clients, bench.settings.settle);
    let away = move |bench: &Bench<'_>| {
        let attendance = &bench.crowd.attendance;
        let last = attendance.last_arrival.unwrap_or(cut).max(cut);
        attendance.live < clients || now() < last + quiet
    };
    publish_while(bench, schedule, deadline, away)
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

//! Members who join one channel one after another, and when all of them know how many they are.

use std::time::Duration;

use anyhow::Result;

use super::meter::Meter;
use super::report::rounded;
use super::scenario::Bench;
use super::schedule::Patience;
use crate::clock::now;
use crate::tally::Faults;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let clients = bench.settings.clients;
    bench.crowd.around.counts.members_expected = clients as u64;
    let before = bench.target.usage()?;
    let meter = Meter::start(bench.target)?;
    join(bench)?;
    let joined = bench.crowd.attendance.last_arrival.unwrap_or(meter.started);
    let known = wait_until_known(bench)?;
    let end = now();
    let spent = meter.stop(end)?;
    let counts = &bench.crowd.around.counts;
    let extra = &mut bench.run.extra;
    extra.insert("member_messages".to_owned(), counts.member_messages.into());
    extra.insert("clients_with_right_count".to_owned(), counts.knowing.into());
    let all_know_s = known.then(|| rounded(end.saturating_duration_since(joined).as_secs_f64()));
    extra.insert("all_know_s".to_owned(), all_know_s.into());
    let wrong = (clients - counts.knowing) as u64;
    let mut faults = Faults::default();
    faults.add(wrong, || {
        format!("{wrong} of {clients} clients do not know how many members there are")
    });
    bench.run.faults.merge(&faults);
    bench.crowd.check_all_live()?;
    let deliveries = bench.crowd.around.ledger.take_deliveries();
    bench.run.arrival = Some(spent.clone());
    bench.run.load = Some((spent, deliveries));
    bench.pause(bench.settings.settle)?;
    bench.run.rss = before.zip(bench.target.usage()?);
    Ok(())
}

/// Opens the clients evenly over the duration; those who were turned away come again.
fn join(bench: &mut Bench<'_>) -> Result<()> {
    let clients = bench.settings.clients;
    let each = bench.settings.duration.div_f64(clients as f64);
    let start = now();
    let mut opened = 0;
    let mut patience = Patience::new(bench.settings.stall_timeout);
    while opened < clients || !bench.crowd.has_everyone_arrived() {
        while opened < clients && now() >= start + each.mul_f64(opened as f64) {
            bench.crowd.open(opened)?;
            opened += 1;
        }
        if !patience.lasts((bench.crowd.attendance.live + opened) as u64) {
            break;
        }
        let next = start + each.mul_f64(opened as f64);
        let last = opened == clients;
        bench.crowd.turn(if last { now() + Duration::from_millis(100) } else { next })?;
    }
    Ok(())
}

/// Whether all know in the end; gives up when no count comes any more.
fn wait_until_known(bench: &mut Bench<'_>) -> Result<bool> {
    let mut patience = Patience::new(bench.settings.stall_timeout);
    loop {
        let counts = &bench.crowd.around.counts;
        if counts.knowing == bench.settings.clients {
            return Ok(true);
        }
        if !patience.lasts(counts.member_messages) {
            return Ok(false);
        }
        bench.crowd.turn(now() + Duration::from_millis(100))?;
    }
}

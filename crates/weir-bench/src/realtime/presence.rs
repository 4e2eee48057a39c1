//! Members who join one channel one after another, and half of them leave again: when all of the others know how
//! many there are, and the followers among them who.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::members::HeardOfMembers;
use super::meter::{Meter, Spent};
use super::report::rounded;
use super::scenario::Bench;
use super::schedule::Patience;
use crate::clock::now;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let before = bench.target.usage()?;
    for follower in followers(bench.settings.clients, bench.settings.followers) {
        bench.crowd.let_follow(follower);
    }
    bench.crowd.expect_members(|_| true);
    let phase = Phase::start(bench, "", bench.settings.clients)?;
    join(bench)?;
    let spent = phase.end(bench, bench.crowd.attendance.last_arrival)?;
    bench.crowd.check_all_live()?;
    bench.run.rss = before.zip(bench.target.usage()?);
    bench.run.arrival = Some(spent.clone());
    bench.run.load = Some((spent, bench.crowd.around.ledger.take_deliveries()));

    bench.crowd.expect_members(stays);
    let phase = Phase::start(bench, "leave_", staying(bench.settings.clients))?;
    let last = leave(bench)?;
    phase.end(bench, last)?;
    Ok(())
}

/// Every second client leaves.
fn stays(index: usize) -> bool {
    index.is_multiple_of(2)
}

pub(crate) fn staying(clients: usize) -> usize {
    clients.div_ceil(2)
}

/// Clients that hold the list: spread evenly over those who stay, the first of all among them.
fn followers(clients: usize, followers: usize) -> impl Iterator<Item = usize> {
    (0..followers).map(move |follower| 2 * (follower * staying(clients) / followers))
}

/// One stretch in which the members change, and the time after it until all know.
struct Phase<'run> {
    /// Of its figures' names.
    prefix: &'static str,
    /// Clients that are there at its end.
    clients: usize,
    meter: Meter<'run>,
    bytes: u64,
    heard: HeardOfMembers,
}

impl<'run> Phase<'run> {
    fn start(bench: &Bench<'run>, prefix: &'static str, clients: usize) -> Result<Self> {
        let around = &bench.crowd.around;
        let (bytes, heard) = (around.counts.bytes, around.roll.heard);
        Ok(Self { prefix, clients, meter: Meter::start(bench.target)?, bytes, heard })
    }

    /// Waits until all know and adds the figures to the run's; `last`: when the last member came or went.
    fn end(self, bench: &mut Bench<'_>, last: Option<Instant>) -> Result<Spent> {
        let last = last.unwrap_or(self.meter.started);
        let known = wait_until_known(bench, self.clients)?;
        let spent = self.meter.stop(now())?;
        // Whatever comes late may still spoil it.
        bench.pause(bench.settings.settle)?;
        let around = &bench.crowd.around;
        let heard = around.roll.heard.since(self.heard);
        let server_cpu = spent.server_cpu().map(|cpu| cpu.as_secs_f64());
        let after = |at: Option<Instant>| {
            at.map(|at| rounded(at.saturating_duration_since(last).as_secs_f64())).into()
        };
        let mut add = |key: &str, value: Value| {
            bench.run.extra.insert(format!("{}{key}", self.prefix), value);
        };
        add("count_all_s", after(known.counts));
        add("lists_exact_s", after(known.lists));
        add("members_cpu_seconds", server_cpu.into());
        add("members_bytes_received", (around.counts.bytes - self.bytes).into());
        add("member_events", heard.events.into());
        add("member_counts", heard.counts.into());
        add("member_pages", heard.pages.into());
        add("member_changes", heard.changes.into());
        add("wrong_counts", (self.clients - around.roll.knowing).into());
        add("wrong_lists", (bench.settings.followers - around.roll.exact).into());
        complain(bench, self.clients);
        Ok(spent)
    }
}

fn complain(bench: &mut Bench<'_>, clients: usize) {
    let (roll, followers) = (&bench.crowd.around.roll, bench.settings.followers);
    let wrong = (clients - roll.knowing) as u64;
    bench.run.faults.add(wrong, || {
        format!("{wrong} of {clients} clients do not know how many members there are")
    });
    let wrong = (followers - roll.exact) as u64;
    bench.run.faults.add(wrong, || {
        let first = bench.crowd.wrong_list().unwrap_or_else(|| "its client is gone".to_owned());
        format!("{wrong} of {followers} lists of members are wrong: {first}")
    });
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
        bench.crowd.turn(if last { now() + TURN } else { next })?;
    }
    Ok(())
}

/// The leaving takes half as long as the joining, so that as many leave in a second as came. When the last one left.
fn leave(bench: &mut Bench<'_>) -> Result<Option<Instant>> {
    let leaving: Vec<usize> = (0..bench.settings.clients).filter(|index| !stays(*index)).collect();
    let each = (bench.settings.duration / 2).div_f64(leaving.len().max(1) as f64);
    let start = now();
    let mut last = None;
    for (turn, index) in leaving.into_iter().enumerate() {
        let due = start + each.mul_f64(turn as f64);
        while now() < due {
            bench.crowd.turn(due)?;
        }
        bench.crowd.leave(index);
        last = Some(now());
    }
    Ok(last)
}

const TURN: Duration = Duration::from_millis(100);

/// When all knew; `None` if they did not in the end.
#[derive(Default)]
struct Known {
    counts: Option<Instant>,
    lists: Option<Instant>,
}

/// Gives up when nothing about members comes any more.
fn wait_until_known(bench: &mut Bench<'_>, clients: usize) -> Result<Known> {
    let mut patience = Patience::new(bench.settings.stall_timeout);
    let mut known = Known::default();
    loop {
        let roll = &bench.crowd.around.roll;
        note(&mut known.counts, roll.knowing == clients);
        note(&mut known.lists, roll.exact == bench.settings.followers);
        let all = known.counts.is_some() && known.lists.is_some();
        if all || !patience.lasts(roll.heard.all()) {
            return Ok(known);
        }
        bench.crowd.turn(now() + TURN)?;
    }
}

/// Since when it is so.
fn note(since: &mut Option<Instant>, is_so: bool) {
    *since = if is_so { since.or_else(|| Some(now())) } else { None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_different_clients_that_stay() {
        for (clients, count) in [(1, 1), (12, 6), (13, 7), (15_000, 100), (7, 3), (9, 0)] {
            let mut all: Vec<usize> = followers(clients, count).collect();
            assert!(all.iter().all(|index| *index < clients && stays(*index)), "{all:?}");
            assert_eq!(all.first().copied().unwrap_or(0), 0);
            all.dedup();
            assert_eq!(all.len(), count, "of {clients}");
        }
        assert_eq!((0..13).filter(|index| stays(*index)).count(), staying(13));
    }
}

//! Members join one channel one after another, and half of them leave again. Measures when all clients know the
//! number of members, and when all followers know the list.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::members::MemberMessageCounts;
use super::meter::{Meter, Spent};
use super::report::rounded;
use super::scenario::Bench;
use super::schedule::StallTimer;
use crate::clock::now;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let before = bench.target.usage()?;
    for follower in followers(bench.settings.clients, bench.settings.followers) {
        bench.pool.make_follower(follower);
    }
    bench.pool.expect_members(|_| true);
    let phase = Phase::start(bench, "", bench.settings.clients)?;
    join_members(bench)?;
    let spent = phase.end(bench, bench.pool.connections.last_connected)?;
    bench.pool.check_all_live()?;
    bench.run.rss = before.zip(bench.target.usage()?);
    bench.run.arrival = Some(spent.clone());
    bench.run.load = Some((spent, bench.pool.shared.ledger.take_deliveries()));

    bench.pool.expect_members(is_remaining);
    let phase = Phase::start(bench, "leave_", count_remaining(bench.settings.clients))?;
    let last = leave_members(bench)?;
    phase.end(bench, last)?;
    Ok(())
}

/// Returns whether a client remains when every second one leaves.
fn is_remaining(index: usize) -> bool {
    index.is_multiple_of(2)
}

pub(crate) fn count_remaining(clients: usize) -> usize {
    clients.div_ceil(2)
}

/// Returns the clients that keep the list of members, spread evenly over those that remain, beginning with client 0.
fn followers(clients: usize, followers: usize) -> impl Iterator<Item = usize> {
    (0..followers).map(move |follower| 2 * (follower * count_remaining(clients) / followers))
}

/// A part of the run in which the members change, and the time after it until all clients know.
struct Phase<'run> {
    /// Prefix of the names of its figures.
    prefix: &'static str,
    /// Clients that are connected at its end.
    clients: usize,
    meter: Meter<'run>,
    bytes: u64,
    messages: MemberMessageCounts,
}

impl<'run> Phase<'run> {
    fn start(bench: &Bench<'run>, prefix: &'static str, clients: usize) -> Result<Self> {
        let shared = &bench.pool.shared;
        let (bytes, messages) = (shared.counts.bytes, shared.membership.messages);
        Ok(Self { prefix, clients, meter: Meter::start(bench.target)?, bytes, messages })
    }

    /// Waits until all clients know and adds the figures to the run. `last`: when the last member joined or left.
    fn end(self, bench: &mut Bench<'_>, last: Option<Instant>) -> Result<Spent> {
        let last = last.unwrap_or(self.meter.started);
        let exact_since = wait_until_exact(bench, self.clients)?;
        let spent = self.meter.stop(now())?;
        // A late message can still make a list wrong.
        bench.pause(bench.settings.settle)?;
        let shared = &bench.pool.shared;
        let messages = shared.membership.messages.since(self.messages);
        let server_cpu = spent.server_cpu().map(|cpu| cpu.as_secs_f64());
        let after = |at: Option<Instant>| {
            at.map(|at| rounded(at.saturating_duration_since(last).as_secs_f64())).into()
        };
        let mut add = |key: &str, value: Value| {
            bench.run.extra.insert(format!("{}{key}", self.prefix), value);
        };
        add("count_all_s", after(exact_since.counts));
        add("lists_exact_s", after(exact_since.lists));
        add("members_cpu_seconds", server_cpu.into());
        add("members_bytes_received", (shared.counts.bytes - self.bytes).into());
        add("member_events", messages.events.into());
        add("member_counts", messages.counts.into());
        add("member_pages", messages.pages.into());
        add("member_changes", messages.changes.into());
        add("wrong_counts", (self.clients - shared.membership.exact_counts).into());
        add("wrong_lists", (bench.settings.followers - shared.membership.exact_lists).into());
        report_mismatches(bench, self.clients);
        Ok(spent)
    }
}

fn report_mismatches(bench: &mut Bench<'_>, clients: usize) {
    let (membership, followers) = (&bench.pool.shared.membership, bench.settings.followers);
    let wrong = (clients - membership.exact_counts) as u64;
    bench.run.faults.add(wrong, || {
        format!("{wrong} of {clients} clients do not know how many members there are")
    });
    let wrong = (followers - membership.exact_lists) as u64;
    bench.run.faults.add(wrong, || {
        let first =
            bench.pool.first_list_mismatch().unwrap_or_else(|| "its client is gone".to_owned());
        format!("{wrong} of {followers} lists of members are wrong: {first}")
    });
}

/// Connects the clients evenly over the duration. Rejected clients reconnect.
fn join_members(bench: &mut Bench<'_>) -> Result<()> {
    let clients = bench.settings.clients;
    let each = bench.settings.duration.div_f64(clients as f64);
    let start = now();
    let mut opened = 0;
    let mut stall_timer = StallTimer::new(bench.settings.stall_timeout);
    while opened < clients || !bench.pool.are_all_connected() {
        while opened < clients && now() >= start + each.mul_f64(opened as f64) {
            bench.pool.open(opened)?;
            opened += 1;
        }
        if !stall_timer.keep_waiting((bench.pool.connections.live + opened) as u64) {
            break;
        }
        let next = start + each.mul_f64(opened as f64);
        let last = opened == clients;
        bench.pool.poll_once(if last { now() + POLL_INTERVAL } else { next })?;
    }
    Ok(())
}

/// Disconnects every second client, at the rate at which they joined. Returns when the last one left.
fn leave_members(bench: &mut Bench<'_>) -> Result<Option<Instant>> {
    let leaving: Vec<usize> =
        (0..bench.settings.clients).filter(|index| !is_remaining(*index)).collect();
    let each = (bench.settings.duration / 2).div_f64(leaving.len().max(1) as f64);
    let start = now();
    let mut last = None;
    for (position, index) in leaving.into_iter().enumerate() {
        let due = start + each.mul_f64(position as f64);
        while now() < due {
            bench.pool.poll_once(due)?;
        }
        bench.pool.disconnect_member(index);
        last = Some(now());
    }
    Ok(last)
}

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Since when all clients know the members; `None` if they do not at the end.
#[derive(Default)]
struct ExactSince {
    counts: Option<Instant>,
    lists: Option<Instant>,
}

/// Waits until all clients know the members, or until no more messages about members arrive.
fn wait_until_exact(bench: &mut Bench<'_>, clients: usize) -> Result<ExactSince> {
    let mut stall_timer = StallTimer::new(bench.settings.stall_timeout);
    let mut exact_since = ExactSince::default();
    loop {
        let membership = &bench.pool.shared.membership;
        track_since(&mut exact_since.counts, membership.exact_counts == clients);
        track_since(&mut exact_since.lists, membership.exact_lists == bench.settings.followers);
        let all = exact_since.counts.is_some() && exact_since.lists.is_some();
        if all || !stall_timer.keep_waiting(membership.messages.total()) {
            return Ok(exact_since);
        }
        bench.pool.poll_once(now() + POLL_INTERVAL)?;
    }
}

/// Sets `since` when `condition` becomes true, and clears it when it becomes false.
fn track_since(since: &mut Option<Instant>, condition: bool) {
    *since = if condition { since.or_else(|| Some(now())) } else { None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_distinct_remaining_clients() {
        for (clients, count) in [(1, 1), (12, 6), (13, 7), (15_000, 100), (7, 3), (9, 0)] {
            let mut all: Vec<usize> = followers(clients, count).collect();
            assert!(all.iter().all(|index| *index < clients && is_remaining(*index)), "{all:?}");
            assert_eq!(all.first().copied().unwrap_or(0), 0);
            all.dedup();
            assert_eq!(all.len(), count, "of {clients}");
        }
        assert_eq!((0..13).filter(|index| is_remaining(*index)).count(), count_remaining(13));
    }
}

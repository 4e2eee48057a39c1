//! Combines the data of one application's jobs on several Redis servers.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;

use crate::history;
use crate::snapshot::{QueueSample, Read, RedisSnapshot, SetSample};

/// Joins the snapshots of all shards. Returns `None` if there are none.
///
/// Queues with the same name become one. What one shard rejects counts as rejected for all, because
/// partial data would be misleading. The servers' status is not joined.
#[must_use]
pub fn join(shards: impl IntoIterator<Item = RedisSnapshot>) -> Option<RedisSnapshot> {
    shards.into_iter().reduce(|one, other| RedisSnapshot {
        at: one.at.max(other.at),
        lengths_at: one.lengths_at.max(other.lengths_at),
        counted_at: one.counted_at.max(other.counted_at),
        queues: both(one.queues, other.queues, queues),
        processes: both(one.processes, other.processes, |mut one, other| {
            one.extend(other);
            one
        }),
        ghosts: one.ghosts.into_iter().chain(other.ghosts).collect(),
        scheduled: both(one.scheduled, other.scheduled, set),
        retries: both(one.retries, other.retries, set),
        dead: both(one.dead, other.dead, set),
        processed: both(one.processed, other.processed, u64::saturating_add),
        failed: both(one.failed, other.failed, u64::saturating_add),
        days: joined(one.days, other.days, history::joined_days),
        classes: joined(one.classes, other.classes, history::joined_classes),
        server: None,
        foreign_keys: None,
        odd: one.odd.into_iter().chain(other.odd).collect(),
        cut: one.cut.into_iter().chain(other.cut).collect(),
        commands: one.commands.saturating_add(other.commands),
    })
}

/// Joins what shards have been asked for. A shard without it adds nothing.
fn joined<T>(
    one: Option<Read<T>>,
    other: Option<Read<T>>,
    join: impl FnOnce(T, T) -> T,
) -> Option<Read<T>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other, join)),
        (one, other) => one.or(other),
    }
}

fn both<T>(one: Read<T>, other: Read<T>, join: impl FnOnce(T, T) -> T) -> Read<T> {
    Ok(join(one?, other?))
}

fn queues(one: Vec<QueueSample>, other: Vec<QueueSample>) -> Vec<QueueSample> {
    let mut joined: BTreeMap<String, QueueSample> = BTreeMap::new();
    for queue in one.into_iter().chain(other) {
        match joined.get_mut(&queue.name) {
            Some(known) => add(known, queue),
            None => {
                joined.insert(queue.name.clone(), queue);
            }
        }
    }
    joined.into_values().collect()
}

fn add(known: &mut QueueSample, other: QueueSample) {
    // The spacing of the newest jobs determines the arrival rate, so both lists must cover the same
    // period. Jobs older than where one list was cut are dropped.
    let reach = [reach(known), reach(&other)].into_iter().flatten().max();
    known.newest.extend(other.newest);
    known.newest.retain(|at| reach.is_none_or(|reach| *at >= reach));
    known.newest.sort_unstable_by(|one, other| other.cmp(one));
    known.pushed |= other.pushed;
    known.paused &= other.paused;
    known.length = known.length.saturating_add(other.length);
    known.came_until = known.came_until.max(other.came_until);
    known.came = known.came.zip(other.came).map(|(one, other)| one.saturating_add(other));
    known.oldest = [known.oldest, other.oldest].into_iter().flatten().min();
    known.expires_in = [known.expires_in, other.expires_in].into_iter().flatten().min();
    known.sample.extend(other.sample);
}

/// Returns the time at which the list of newest jobs was cut, or `None` if it includes all jobs.
fn reach(queue: &QueueSample) -> Option<Timestamp> {
    let cut = (queue.newest.len() as u64) < queue.length;
    queue.newest.last().copied().filter(|_| cut)
}

fn set(mut one: SetSample, other: SetSample) -> SetSample {
    one.size = one.size.saturating_add(other.size);
    one.due = one.due.saturating_add(other.due);
    one.lately = one.lately.saturating_add(other.lately);
    one.far = one.far.saturating_add(other.far);
    one.far_as_millis = one.far_as_millis.saturating_add(other.far_as_millis);
    one.first = [one.first, other.first].into_iter().flatten().min();
    one.sample.extend(other.sample);
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::RejectedCommand;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn queue(name: &str, length: u64, newest: &[u64]) -> QueueSample {
        let newest = newest.iter().map(|seconds| at(*seconds)).collect();
        let oldest = Some(at(length));
        QueueSample { name: name.to_owned(), length, newest, oldest, ..QueueSample::default() }
    }

    fn shard(queues: Vec<QueueSample>, size: u64) -> RedisSnapshot {
        let set = || Ok(SetSample { size, first: Some(at(size)), ..SetSample::default() });
        RedisSnapshot {
            at: at(size),
            lengths_at: at(size),
            counted_at: at(size),
            queues: Ok(queues),
            processes: Ok(Vec::new()),
            ghosts: vec![format!("ghost {size}")],
            scheduled: set(),
            retries: set(),
            dead: set(),
            processed: Ok(size),
            failed: Ok(size),
            days: None,
            classes: None,
            server: None,
            foreign_keys: None,
            odd: Vec::new(),
            cut: Vec::new(),
            commands: 1,
        }
    }

    #[test]
    fn queues_of_one_name_are_one_queue() {
        let one = shard(vec![queue("pull", 5, &[100, 90]), queue("push", 1, &[7])], 3);
        let other = shard(vec![queue("pull", 9, &[99, 95, 60, 50])], 4);
        let joined = join([one, other]).unwrap();
        let queues = joined.queues.unwrap();
        assert_eq!(queues.len(), 2);
        assert_eq!((queues[0].length, queues[0].oldest), (14, Some(at(5))));
        assert_eq!(queues[0].newest, [at(100), at(99), at(95), at(90)]);
        assert_eq!(joined.retries.unwrap().size, 7);
        assert_eq!((joined.ghosts.len(), joined.processed, joined.commands), (2, Ok(7), 2));
    }

    #[test]
    fn a_short_queue_does_not_cut_what_is_known_of_a_long_one() {
        let long = shard(vec![queue("pull", 9, &[100, 90, 80])], 3);
        let short = shard(vec![queue("pull", 1, &[99])], 4);
        let queues = join([long, short]).unwrap().queues.unwrap();
        assert_eq!(queues[0].newest, [at(100), at(99), at(90), at(80)]);
    }

    #[test]
    fn a_refusal_of_one_is_a_refusal_of_all() {
        let refusal =
            RejectedCommand { command: "LLEN".to_owned(), reason: "no".to_owned(), grant: None };
        let mut other = shard(Vec::new(), 4);
        other.queues = Err(refusal.clone());
        let joined = join([shard(Vec::new(), 3), other]).unwrap();
        assert_eq!(joined.queues, Err(refusal));
        assert!(join([]).is_none());
    }
}

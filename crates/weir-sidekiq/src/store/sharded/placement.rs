//! Which shard gets a pushed job.
//!
//! A ring assigns queues to shards by their names. While a shard can't be used, its queues belong to
//! the ring of the others: its neighbours get them, and no other queue moves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use weir_base::ring::{Node, Ring};
use weir_settings::Choice;

/// The limit on shards.
pub const SHARDS_MAX: usize = 64;

/// Rings that are kept: of all shards, and of those that can be used now. Each takes 2 MiB.
const RINGS_MAX: usize = 2;

/// How pushed jobs are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
pub enum PushPlacement {
    /// By the name of their queue.
    #[default]
    Queue,
    /// In turn.
    Turn,
}

/// A set of shards, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardSet(u64);

impl ShardSet {
    pub(super) const fn contains(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        Self(places.into_iter().fold(0, |set, place| set | 1 << place))
    }
}

#[derive(Debug)]
pub(super) struct Placement {
    kind: PushPlacement,
    names: Vec<Box<str>>,
    rings: RefCell<Vec<(ShardSet, Rc<Ring>)>>,
    next: Cell<usize>,
}

impl Placement {
    pub(super) fn new<'n>(kind: PushPlacement, names: impl Iterator<Item = &'n str>) -> Self {
        let names = names.map(Box::from).collect();
        Self { kind, names, rings: RefCell::default(), next: Cell::new(0) }
    }

    /// Splits jobs by the shard that gets them, in order. `among` is not empty.
    pub(super) fn split<T>(
        &self,
        jobs: Vec<T>,
        queue_of: impl Fn(&T) -> &str,
        among: ShardSet,
    ) -> BTreeMap<usize, Vec<T>> {
        if self.kind == PushPlacement::Turn {
            return BTreeMap::from([(self.next_in_turn(among), jobs)]);
        }
        let mut parts: BTreeMap<usize, Vec<T>> = BTreeMap::new();
        for job in jobs {
            parts.entry(self.home(queue_of(&job), among)).or_default().push(job);
        }
        parts
    }

    /// Returns the shard of `among`, which is not empty, that owns a queue.
    pub(super) fn home(&self, queue: &str, among: ShardSet) -> usize {
        let ring = self.ring(among);
        let node = ring.node_of(queue.as_bytes());
        let place = node.and_then(|node| self.names.iter().position(|name| *name == node.name));
        place.unwrap_or_default()
    }

    fn next_in_turn(&self, among: ShardSet) -> usize {
        let count = self.names.len();
        let start = self.next.get();
        let mut places = (start..start + count).map(|place| place % count);
        let place = places.find(|place| among.contains(*place)).unwrap_or_default();
        self.next.set(place + 1);
        place
    }

    fn ring(&self, among: ShardSet) -> Rc<Ring> {
        let mut rings = self.rings.borrow_mut();
        if let Some((_, ring)) = rings.iter().find(|(set, _)| *set == among) {
            return Rc::clone(ring);
        }
        let names = self.names.iter().enumerate().filter(|(place, _)| among.contains(*place));
        let nodes = names.map(|(_, name)| Node::new(name.clone(), 1));
        let ring = Rc::new(Ring::new(nodes).expect("settings check the names of shards"));
        if rings.len() == RINGS_MAX {
            rings.pop();
        }
        rings.push((among, Rc::clone(&ring)));
        ring
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn homes(names: &[&str], without: &[&str]) -> Vec<String> {
        let placement = Placement::new(PushPlacement::Queue, names.iter().copied());
        let living = (0..names.len()).filter(|place| !without.contains(&names[*place]));
        let living: ShardSet = living.collect();
        let home = |queue: usize| names[placement.home(&format!("queue-{queue}"), living)];
        (0..1_000).map(|queue| home(queue).to_owned()).collect()
    }

    #[test]
    fn the_order_of_the_list_moves_no_queue() {
        assert_eq!(homes(&["a", "b", "c"], &[]), homes(&["c", "a", "b"], &[]));
    }

    #[test]
    fn another_shard_moves_its_part_of_the_queues_only() {
        let (before, after) = (homes(&["a", "b", "c"], &[]), homes(&["d", "a", "b", "c"], &[]));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(old, new)| old != new).collect();
        assert!(moved.iter().all(|(_, new)| *new == "d"));
        assert!((180..320).contains(&moved.len()), "about 1 of 4 moves: {}", moved.len());
    }

    #[test]
    fn the_others_take_the_queues_of_one_that_is_away() {
        let (all, without) = (homes(&["a", "b", "c"], &[]), homes(&["a", "b", "c"], &["b"]));
        for (home, now) in all.iter().zip(&without) {
            assert!(if home == "b" { now != "b" } else { now == home });
        }
        assert_eq!(homes(&["a", "c"], &[]), without);
        let heirs = all.iter().zip(&without).filter(|(home, _)| *home == "b");
        assert_eq!(heirs.map(|(_, now)| now).collect::<BTreeSet<_>>().len(), 2);
    }

    #[test]
    fn turns_go_round_those_that_can_be_used() {
        let placement = Placement::new(PushPlacement::Turn, ["a", "b", "c", "d"].into_iter());
        let living: ShardSet = [0, 2, 3].into_iter().collect();
        let turns: Vec<usize> = (0..6)
            .flat_map(|_| placement.split(vec!["q"], |queue| queue, living).into_keys())
            .collect();
        assert_eq!(turns, [0, 2, 3, 0, 2, 3]);
    }
}

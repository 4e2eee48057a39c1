use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use proptest::prelude::*;

use super::*;

fn ring(nodes: &[(&str, u32)]) -> Ring {
    Ring::new(nodes.iter().map(|(name, weight)| Node::new(*name, *weight))).unwrap()
}

fn numbered(count: usize) -> Vec<Node> {
    (0..count).map(|number| Node::new(format!("node-{number}"), 1)).collect()
}

fn all_points(node: &Node) -> impl Iterator<Item = u64> {
    (0..node.weight).flat_map(|unit| points(node, unit))
}

/// The owner of every slot, by name.
fn owner_names(ring: &Ring) -> Vec<&str> {
    ring.owners.iter().map(|owner| &*ring.nodes[usize::from(*owner)].name).collect()
}

/// How many slots each node has, in the order of the nodes.
fn slots_by_node(ring: &Ring) -> Vec<u32> {
    let mut slots = vec![0; ring.nodes.len()];
    for owner in &ring.owners {
        slots[usize::from(*owner)] += 1;
    }
    slots
}

#[test]
fn empty_ring_has_no_owners() {
    assert_eq!(Ring::default().node_of(b"key"), None);
    assert_eq!(Ring::new([]), Ok(Ring::default()));
}

#[test]
fn single_node_owns_every_key() {
    let ring = ring(&[("alone", 1)]);
    assert!(owner_names(&ring).iter().all(|owner| *owner == "alone"));
    assert_eq!(ring.node_of(b""), Some(&Node::new("alone", 1)));
}

#[test]
fn invalid_nodes_are_rejected_by_name() {
    let refused = |nodes: &[(&str, u32)]| {
        let nodes = nodes.iter().map(|(name, weight)| Node::new(*name, *weight));
        Ring::new(nodes).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[("a", 1), ("b", 0)]),
        "node b has weight 0; give it at least 1, or leave it out"
    );
    assert_eq!(
        refused(&[("a", 1), ("b", 2), ("a", 3)]),
        "node a is there twice; give it once, with the sum of the weights"
    );
    assert_eq!(
        refused(&[("a", WEIGHT_MAX), ("b", 1)]),
        "the weights add up to 10001, the limit is 10000; divide all by a common divisor"
    );
    assert_eq!(
        Ring::new([Node::new("a", u32::MAX), Node::new("b", u32::MAX)]),
        Err(RingError::TooHeavy { sum: 2 * u64::from(u32::MAX) })
    );
}

/// Computed outside of this crate, from the definition (all points sorted by hash and name, the
/// first one at or behind the start of the key's slot) with another implementation of XXH3.
#[test]
fn mapping_is_stable_across_versions() {
    let ring = ring(&[("redis-a:6379", 1), ("redis-b:6379", 2), ("r3", 3), ("é", 1)]);
    let owner = |key: &str| &*ring.node_of(key.as_bytes()).unwrap().name;
    for (key, node) in GOLDEN_KEYS {
        assert_eq!(owner(key), node, "{key:?}");
    }
    let owners: Vec<u8> = ring.owners.iter().map(|owner| u8::try_from(*owner).unwrap()).collect();
    assert_eq!(xxh3_64(&owners), GOLDEN_OWNERS, "some slots have other owners");
}

const GOLDEN_KEYS: [(&str, &str); 9] = [
    ("", "r3"),
    ("a", "r3"),
    ("user:1", "r3"),
    ("session:42", "redis-b:6379"),
    ("presence-lobby", "redis-a:6379"),
    ("private-room-1", "r3"),
    ("123456789012345678", "é"),
    ("queue/default", "redis-b:6379"),
    ("ключ", "r3"),
];
/// XXH3-64 of the number of each slot's owner, one byte each.
const GOLDEN_OWNERS: u64 = 0xfab9_a23f_c11a_2766;

/// Names that differ in one bit, as short as XXH3's special cases: as seeds, the points' numbers
/// would lead to the same hashes for several of them.
#[test]
fn short_names_have_distinct_points() {
    let names = (0..=u8::MAX).filter(u8::is_ascii_graphic).flat_map(|byte| {
        ["", "n", "no", "node-", "node-0000000"].map(|stem| format!("{stem}{}", char::from(byte)))
    });
    let nodes: Vec<Node> = names.map(|name| Node::new(name, 1)).collect();
    let hashes: BTreeSet<u64> = nodes.iter().flat_map(all_points).collect();
    assert_eq!(hashes.len(), nodes.len() * POINTS_PER_WEIGHT as usize);
}

#[test]
fn thousand_equal_nodes_are_within_10_percent_of_the_mean() {
    let ring = Ring::new(numbered(1_000)).unwrap();
    let mean = SLOTS as f64 / 1_000.0;
    let shares: Vec<f64> = slots_by_node(&ring).iter().map(|n| f64::from(*n) / mean).collect();
    let deviation =
        (shares.iter().map(|share| (share - 1.0).powi(2)).sum::<f64>() / 1_000.0).sqrt();
    assert!(shares.iter().all(|share| (0.9..=1.1).contains(share)), "{shares:?}");
    assert!(deviation < 0.035, "standard deviation {deviation}");
}

#[test]
fn readers_see_changes_at_the_next_lookup() {
    let shared = SharedRing::default();
    let mut reader = shared.reader();
    assert_eq!(reader.node_of(b"key"), None);
    shared.change(|nodes| nodes.push(Node::new("a", 1))).unwrap();
    assert_eq!(reader.node_of(b"key"), Some(&Node::new("a", 1)));
    shared.change(|nodes| nodes[0].weight = 5).unwrap();
    assert_eq!(reader.node_of(b"key"), Some(&Node::new("a", 5)));
    shared.change(Vec::clear).unwrap();
    assert_eq!(reader.node_of(b"key"), None);
}

#[test]
fn rejected_change_keeps_the_ring() {
    let shared = SharedRing::new(ring(&[("a", 1)]));
    let refused = shared.change(|nodes| nodes.push(Node::new("a", 1)));
    assert_eq!(refused, Err(RingError::Twice { name: "a".into() }));
    assert_eq!(shared.snapshot().nodes(), [Node::new("a", 1)]);
}

#[test]
fn concurrent_changes_are_all_applied() {
    let shared = SharedRing::default();
    thread::scope(|scope| {
        for thread in 0..4 {
            let shared = &shared;
            scope.spawn(move || {
                for number in 0..3 {
                    let node = Node::new(format!("{thread}-{number}"), 1);
                    shared.change(|nodes| nodes.push(node)).unwrap();
                }
            });
        }
    });
    assert_eq!(shared.snapshot().nodes().len(), 12);
}

/// A reader that saw half of a change would find an owner that neither ring gives.
#[test]
fn readers_see_consistent_rings_during_changes() {
    let (one, other) = (numbered(5), numbered(6));
    let (ring_of_one, ring_of_other) = (Ring::new(one.clone()), Ring::new(other.clone()));
    let (ring_of_one, ring_of_other) = (ring_of_one.unwrap(), ring_of_other.unwrap());
    let shared = SharedRing::new(ring_of_one.clone());
    thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for _ in 0..10 {
                shared.change(|nodes| nodes.clone_from(&other)).unwrap();
                shared.change(|nodes| nodes.clone_from(&one)).unwrap();
            }
        });
        let mut reader = shared.reader();
        let mut key = 0_u64;
        while !changing.is_finished() {
            key += 1;
            let key = key.to_le_bytes();
            let found = reader.node_of(&key).map(|node| &node.name);
            let expected = [&ring_of_one, &ring_of_other].map(|ring| ring.node_of(&key));
            assert!(expected.iter().any(|node| node.map(|node| &node.name) == found));
        }
    });
}

/// Up to eight nodes of different names, weights up to 5.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    prop::collection::btree_map("[a-z0-9.:-]{0,20}", 1_u32..6, 1..9)
        .prop_map(|nodes| nodes.into_iter().map(|(name, weight)| Node::new(name, weight)).collect())
}

proptest! {
    // A ring has a million slots: a case takes some tenths of a second in a debug build.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn only_keys_of_the_changed_node_move(
        nodes in nodes(),
        index in any::<prop::sample::Index>(),
    ) {
        let all = Ring::new(nodes.clone()).unwrap();
        let mut fewer = nodes;
        let gone = fewer.swap_remove(index.index(fewer.len()));
        let without = Ring::new(fewer.clone()).unwrap();
        if !fewer.is_empty() {
            for (with, without) in owner_names(&all).into_iter().zip(owner_names(&without)) {
                prop_assert!(with == without || with == &*gone.name, "{} to {}", with, without);
                prop_assert!(without != &*gone.name);
            }
        }
        fewer.push(gone);
        prop_assert!(Ring::new(fewer).unwrap() == all, "back again, but not as before");
    }

    #[test]
    fn more_weight_only_gains_keys(nodes in nodes(), index in any::<prop::sample::Index>()) {
        let before = Ring::new(nodes.clone()).unwrap();
        let mut heavier = nodes;
        let node = index.index(heavier.len());
        let node = &mut heavier[node];
        node.weight += 1;
        let name = node.name.clone();
        let after = Ring::new(heavier).unwrap();
        for (before, after) in owner_names(&before).into_iter().zip(owner_names(&after)) {
            prop_assert!(before == after || after == &*name, "{} to {}", before, after);
        }
    }

    #[test]
    fn order_of_nodes_is_irrelevant(
        (nodes, shuffled) in nodes().prop_flat_map(|nodes| (Just(nodes.clone()), Just(nodes).prop_shuffle())),
    ) {
        prop_assert!(Ring::new(nodes).unwrap() == Ring::new(shuffled).unwrap());
    }

    /// A node with n of all N points has n gaps of the circle, each of 1/N on average and as much
    /// deviation; those vary by 1/sqrt(n) of their sum at most. Five of these and the slots' own
    /// rounding are the tolerance, so that a chance of one in a million fails.
    #[test]
    fn shares_follow_the_weights(nodes in nodes()) {
        let ring = Ring::new(nodes).unwrap();
        let weights: u32 = ring.nodes.iter().map(|node| node.weight).sum();
        for (node, slots) in ring.nodes.iter().zip(slots_by_node(&ring)) {
            let expected = SLOTS as f64 * f64::from(node.weight) / f64::from(weights);
            let deviation = 1.0 / f64::from(node.weight * POINTS_PER_WEIGHT).sqrt();
            let ratio = f64::from(slots) / expected;
            prop_assert!((ratio - 1.0).abs() < 5.0 * deviation, "{}: {} times", node.name, ratio);
        }
    }

    /// The table against its definition: all points sorted, the first at or behind the slot.
    #[test]
    fn slot_belongs_to_the_first_point_after_its_start(nodes in nodes(), hashes: [u64; 32]) {
        let ring = Ring::new(nodes).unwrap();
        let mut circle = BTreeMap::new();
        for node in ring.nodes.iter().rev() {
            circle.extend(all_points(node).map(|point| (point, &*node.name)));
        }
        let names = owner_names(&ring);
        for slot in hashes.map(slot_of).into_iter().chain([0, SLOTS - 1]) {
            let start = (slot as u64) << (u64::BITS - SLOT_BITS);
            let next = circle.range(start..).next().or_else(|| circle.iter().next());
            prop_assert_eq!(names[slot], *next.unwrap().1);
        }
    }
}

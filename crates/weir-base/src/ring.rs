//! Consistent hashing: assigns keys to weighted nodes.
//!
//! Every node has [`POINTS_PER_WEIGHT`] points per unit of weight on a circle of hashes, and a key
//! belongs to the node of the next point (Karger et al. 1997; the points per node as in ketama).
//! The circle is divided into [`SLOTS`] equal slots, and every key of a slot belongs to the first
//! point at or after the slot's start, so a lookup is one hash and one load from a table,
//! regardless of the number of nodes.
//!
//! Guarantees:
//! - *Stable mapping.* It depends on the names and weights only: not on their order, the process or
//!   the version. Hashes are XXH3-64 (its specification is stable); a test pins the mapping.
//! - *Minimal movement.* Adding a node moves keys only to it, removing a node moves only its keys,
//!   and adding it back restores them. The number of slots never changes, so a slot changes its
//!   owner only if the first point after its start was added or removed.
//! - *Weights are met within a few per cent.* A node's share of the keys is its share of the
//!   weight, with a relative standard deviation of 1/sqrt(1,024 x weight): 3.1 % for a weight of one.
//!   Rounding to slots makes it 3.4 % at 1,000 nodes, of which the emptiest and the fullest are
//!   then within 10 % of the mean.
//!
//! A ring takes 2 MiB for any number of nodes (16 bits per slot). Building one needs 8 MiB more
//! and, for 1,000 nodes of weight 1, about 15 ms. Readers of a [`SharedRing`] never wait for that.

mod shared;

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

pub use shared::{RingReader, SharedRing};

/// Points of a node of weight 1. Part of the mapping: changing it moves keys.
pub const POINTS_PER_WEIGHT: u32 = 1_024;
/// Parts of the circle, each with one owner. Part of the mapping, as above.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Limit of the sum of weights. It limits a build to 10 million points (about 0.15 s), and the
/// nodes to a number that fits 16 bits.
pub const WEIGHT_MAX: u32 = 10_000;

const SLOT_BITS: u32 = 20;

/// An owner of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node's name, the same in every process and unique in a ring.
    pub name: Box<str>,
    /// Its share of the keys relative to the others. At least 1.
    pub weight: u32,
}

impl Node {
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, weight: u32) -> Self {
        Self { name: name.into(), weight }
    }
}

/// Why nodes do not form a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    #[error("node {name} has weight 0; give it at least 1, or leave it out")]
    Weightless { name: Box<str> },
    #[error("node {name} is there twice; give it once, with the sum of the weights")]
    Twice { name: Box<str> },
    #[error(
        "the weights add up to {sum}, the limit is {WEIGHT_MAX}; divide all by a common divisor"
    )]
    TooHeavy { sum: u64 },
}

/// An immutable ring. A ring without nodes ([`Ring::default`]) owns no keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Ring {
    /// Sorted by name.
    nodes: Box<[Node]>,
    /// For each slot, the index of its node; empty without nodes.
    owners: Box<[u16]>,
}

impl Ring {
    /// Builds the ring of these nodes, in any order. It takes about 1 ms, and 15 ns per point
    /// (1,024 per unit of weight).
    ///
    /// # Errors
    /// A weight of 0, a duplicate name, or weights whose sum exceeds [`WEIGHT_MAX`].
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Result<Self, RingError> {
        let mut nodes: Box<[Node]> = nodes.into_iter().collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        check(&nodes)?;
        let owners = if nodes.is_empty() { Box::default() } else { owners(&nodes) };
        Ok(Self { nodes, owners })
    }

    /// Returns the node that owns `key`; None without nodes.
    #[must_use]
    pub fn node_of(&self, key: &[u8]) -> Option<&Node> {
        let owner = self.owners.get(slot_of(xxh3_64(key)))?;
        self.nodes.get(usize::from(*owner))
    }

    /// Returns the nodes, sorted by name.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl fmt::Debug for Ring {
    /// Omits the table of a million owners.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// Checks nodes that are sorted by name.
fn check(nodes: &[Node]) -> Result<(), RingError> {
    if let Some(node) = nodes.iter().find(|node| node.weight == 0) {
        return Err(RingError::Weightless { name: node.name.clone() });
    }
    if let Some(pair) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(RingError::Twice { name: pair[0].name.clone() });
    }
    let sum: u64 = nodes.iter().map(|node| u64::from(node.weight)).sum();
    if sum > u64::from(WEIGHT_MAX) {
        return Err(RingError::TooHeavy { sum });
    }
    Ok(())
}

/// Returns the owner of each slot: the node of the first point in it, or else the next slot's
/// owner.
fn owners(nodes: &[Node]) -> Box<[u16]> {
    let points = first_points(nodes);
    let first = points.iter().find(|point| point.exists()).expect("a node has points");
    let mut owner = first.node();
    let mut owners = vec![0; SLOTS].into_boxed_slice();
    for (slot, point) in points.iter().enumerate().rev() {
        if point.exists() {
            owner = point.node();
        }
        owners[slot] = owner;
    }
    owners
}

/// Returns the first point in each slot. Of two points with the same hash, the first by name wins,
/// because its node's number is lower.
fn first_points(nodes: &[Node]) -> Vec<Point> {
    let mut first = vec![Point::NONE; SLOTS];
    for (number, node) in (0_u16..).zip(nodes) {
        for unit in 0..node.weight {
            // A separate loop: hashing in between would keep the processor from fetching the
            // scattered slots in parallel (several times slower).
            for hash in points(node, unit) {
                let place = &mut first[slot_of(hash)];
                *place = Point::new(hash, number).min(*place);
            }
        }
    }
    first
}

/// Returns the points of one unit of the node's weight: the hashes of its name followed by the
/// point's number as four little-endian bytes. (The number is not used as XXH3's seed: for short
/// inputs, seeds that differ in a few bits lead to the same hashes.)
fn points(node: &Node, unit: u32) -> Vec<u64> {
    let mut text = node.name.as_bytes().to_vec();
    let name_bytes = text.len();
    let first = unit * POINTS_PER_WEIGHT;
    let hash = |number: u32| {
        text.truncate(name_bytes);
        text.extend_from_slice(&number.to_le_bytes());
        xxh3_64(&text)
    };
    (first..first + POINTS_PER_WEIGHT).map(hash).collect()
}

/// Returns the slot of a hash, its high bits.
const fn slot_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SLOT_BITS)) as usize
}

/// A point in a slot: the 44 bits of its hash below the slot's bits, then the number of its node.
/// Points compare in the order of the circle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point(u64);

impl Point {
    const NODE_BITS: u32 = u16::BITS;
    /// Greater than every point: those have 60 bits.
    const NONE: Self = Self(u64::MAX);

    const fn new(hash: u64, node: u16) -> Self {
        let offset = hash << SLOT_BITS >> SLOT_BITS;
        Self(offset << Self::NODE_BITS | node as u64)
    }

    fn exists(self) -> bool {
        self != Self::NONE
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low bits are the node's")]
    const fn node(self) -> u16 {
        self.0 as u16
    }
}

#[cfg(test)]
mod tests;

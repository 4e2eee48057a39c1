//! Consistent hashing: which of several weighted nodes has a key.
//!
//! Every node has [`POINTS_PER_WEIGHT`] points per unit of weight on a circle of hashes, and a key
//! belongs to the node of the next point (Karger et al. 1997; the points per node as in ketama).
//! The circle is cut into [`SLOTS`] equal slots, and every key of a slot belongs to the first point
//! at or behind the slot's start, so a lookup is one hash and one load from a table, however many
//! nodes there are.
//!
//! Promises:
//! - *Everybody agrees.* The mapping depends on the names and weights only: not on the order in
//!   which they came, the process or the version. Hashes are XXH3-64 (its specification is stable);
//!   a test pins the mapping.
//! - *As little as possible moves.* A new node only takes keys, a removed node only gives
//!   its own, and it has the same keys when it is added back. Exactly: the number of slots never changes,
//!   so a slot has another owner only if the first point behind its start was added or removed.
//! - *Weights are met within a few per cent.* A node's part of the keys is its part of the weight,
//!   with a standard deviation of 1/sqrt(1,024 x weight) of it, that is 3.1 % for weight 1; the
//!   slots' rounding makes it 3.4 % at 1,000 nodes, of which the emptiest and the fullest are then
//!   within 10 % of the mean.
//!
//! A ring has 2 MiB whatever its nodes (16 bits per slot); building one needs 8 MiB more and, for
//! 1,000 nodes of weight 1, about 15 ms. [`SharedRing`] has readers that never wait for that.

mod shared;

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

pub use shared::{RingReader, SharedRing};

/// Points of a node of weight 1. Part of the mapping: another number moves keys.
pub const POINTS_PER_WEIGHT: u32 = 1_024;
/// Parts of the circle, each with one owner. Part of the mapping, as above.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Greatest sum of weights. It bounds a build to 10 million points (about 0.15 s), and the nodes to
/// what 16 bits can number.
pub const WEIGHT_MAX: u32 = 10_000;

const SLOT_BITS: u32 = 20;

/// A place for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is known by, in every process. Unique in a ring.
    pub name: Box<str>,
    /// Its share of the keys, in relation to the others'. At least 1.
    pub weight: u32,
}

impl Node {
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, weight: u32) -> Self {
        Self { name: name.into(), weight }
    }
}

/// These nodes don't make a ring.
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

/// An immutable ring. The one without nodes ([`Ring::default`]) has no key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Ring {
    /// By name.
    nodes: Box<[Node]>,
    /// For each slot, the index of its node; empty without nodes.
    owners: Box<[u16]>,
}

impl Ring {
    /// The ring of these nodes, in whatever order. It takes about 1 ms, and 15 ns per point (a
    /// unit of weight has 1,024).
    ///
    /// # Errors
    /// A weight of 0, a name that is there twice, weights that add up to more than [`WEIGHT_MAX`].
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Result<Self, RingError> {
        let mut nodes: Box<[Node]> = nodes.into_iter().collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        check(&nodes)?;
        let owners = if nodes.is_empty() { Box::default() } else { owners(&nodes) };
        Ok(Self { nodes, owners })
    }

    /// The node that has `key`; none if there are no nodes.
    #[must_use]
    pub fn node_of(&self, key: &[u8]) -> Option<&Node> {
        let owner = self.owners.get(slot_of(xxh3_64(key)))?;
        self.nodes.get(usize::from(*owner))
    }

    /// The nodes, by name.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl fmt::Debug for Ring {
    /// Without the table of a million owners.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// `nodes` are sorted by name.
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

/// The owner of each slot: the node of the first point in it, or else the next slot's owner.
fn owners(nodes: &[Node]) -> Box<[u16]> {
    let first = first_points(nodes);
    let foremost = first.iter().find(|point| point.exists()).expect("a node has points");
    let mut owner = foremost.node();
    let mut owners = vec![0; SLOTS].into_boxed_slice();
    for (slot, point) in first.iter().enumerate().rev() {
        if point.exists() {
            owner = point.node();
        }
        owners[slot] = owner;
    }
    owners
}

/// For each slot the first of all points in it. Of two at the very same place the first by name
/// wins, because its node's number is lower.
fn first_points(nodes: &[Node]) -> Vec<Point> {
    let mut first = vec![Point::NONE; SLOTS];
    for (number, node) in (0_u16..).zip(nodes) {
        for unit in 0..node.weight {
            // A loop of its own: hashing between them would keep the processor from fetching the
            // places, which are all over the memory, at the same time (several times slower).
            for hash in points(node, unit) {
                let place = &mut first[slot_of(hash)];
                *place = Point::new(hash, number).min(*place);
            }
        }
    }
    first
}

/// Where the points of one unit of the node's weight are: the hashes of its name with the point's
/// number, four bytes in little-endian order, behind it. (Not the number as XXH3's seed: of short
/// inputs that differ in a few bits, such seeds lead to the same hashes.)
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

/// The slot is the hash's high bits.
const fn slot_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SLOT_BITS)) as usize
}

/// A point in a slot: the 44 bits of its hash behind the slot's, then the number of its node. The
/// order of points is that on the circle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point(u64);

impl Point {
    const NODE_BITS: u32 = u16::BITS;
    /// Behind every point: those have 60 bits.
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

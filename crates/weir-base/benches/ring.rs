//! What a lookup costs at 1,000 nodes, at rest and while another thread adds and removes a node
//! without pause; what a change costs; and a replay of a public record: 500,000 sessions look up
//! five nodes each, on one thread, on a ring that others share.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir_base::ring::{Node, Ring, RingReader, SharedRing};

const NODES: u32 = 1_000;
const SESSIONS: u64 = 500_000;
const LOOKUPS_PER_SESSION: u64 = 5;
/// A key as the ids of chat services are: 18 digits.
type Key = [u8; 18];

fn nodes(count: u32) -> Vec<Node> {
    (0..count).map(|number| Node::new(format!("node-{number}:6379"), 1)).collect()
}

fn shared() -> SharedRing {
    SharedRing::new(Ring::new(nodes(NODES)).expect("a ring"))
}

fn keys(count: u64) -> Vec<Key> {
    let id = |number| format!("{:018}", 100_000_000_000_000_000_u64 + number * 4_194_301);
    (0..count).map(|number| id(number).as_bytes().try_into().expect("18 digits")).collect()
}

fn bench_lookup(criterion: &mut Criterion, name: &str, mut reader: RingReader) {
    let keys = keys(65_536);
    let mut next = keys.iter().cycle();
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            let key = next.next().expect("a cycle has no end");
            black_box(reader.node_of(key));
        });
    });
}

fn lookup(criterion: &mut Criterion) {
    bench_lookup(criterion, "ring/lookup at rest", shared().reader());
}

fn lookup_while_nodes_change(criterion: &mut Criterion) {
    let (ring, done) = (shared(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                ring.change(|nodes| nodes.push(Node::new("another", 1))).expect("a ring");
                ring.change(|nodes| nodes.retain(|node| &*node.name != "another")).expect("a ring");
            }
        });
        bench_lookup(criterion, "ring/lookup while nodes change", ring.reader());
        done.store(true, Ordering::Relaxed);
    });
}

fn replay(criterion: &mut Criterion) {
    let (ring, keys) = (shared(), keys(SESSIONS * LOOKUPS_PER_SESSION));
    let mut reader = ring.reader();
    let mut group = criterion.benchmark_group("ring");
    group.sample_size(10).throughput(Throughput::Elements(SESSIONS * LOOKUPS_PER_SESSION));
    group.bench_function("500,000 sessions x 5 lookups", |bencher| {
        bencher.iter(|| {
            for key in &keys {
                black_box(reader.node_of(key));
            }
        });
    });
    group.finish();
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring");
    group.sample_size(20);
    for count in [3, NODES] {
        let nodes = nodes(count);
        group.bench_function(format!("build of {count} nodes"), |bencher| {
            bencher.iter(|| Ring::new(nodes.iter().cloned()));
        });
    }
    group.finish();
}

criterion_group!(benches, lookup, lookup_while_nodes_change, replay, build);
criterion_main!(benches);

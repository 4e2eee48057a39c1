//! The hand-over of one event to the subscribers of one core, without sockets: encoding it, the
//! mailbox' room, and going through all subscribers in turns as large as in the product.
//!
//! `cargo bench -p weir-realtime --bench fanout`; the goal is 5 ns per subscriber at 30,000.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir_realtime::measure::HandOver;

fn hand_over(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fanout");
    let data = "x".repeat(128);
    for subscribers in [100, 30_000] {
        group.throughput(Throughput::Elements(u64::from(subscribers)));
        group.bench_function(format!("{subscribers} subscribers"), |bencher| {
            let mut hand_over = HandOver::new(subscribers);
            bencher.iter(|| hand_over.event(&data, 64));
            assert!(hand_over.received() > 0, "nobody got anything");
        });
    }
    group.finish();
}

criterion_group!(benches, hand_over);
criterion_main!(benches);

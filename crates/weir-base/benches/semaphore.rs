//! What a permit costs, from the acquiring to the dropping: alone, while a second thread takes and
//! gives back permits of the same semaphore as fast as it can, and refused. The floor is the least
//! that it can be: one compare-and-swap and one subtraction of a bare atomic.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_base::semaphore::Semaphore;

fn semaphore(limit: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new("bench", "bench.permits_max", limit))
}

fn acquire_and_release(semaphore: &Semaphore) {
    drop(black_box(semaphore.try_acquire()));
}

fn acquire_and_release_owned(semaphore: &Arc<Semaphore>) {
    drop(black_box(semaphore.try_acquire_owned()));
}

fn alone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("semaphore");
    let word = AtomicU64::new(0);
    group.bench_function("floor", |bencher| {
        bencher.iter(|| {
            let before = word.load(Ordering::Relaxed);
            let swapped =
                word.compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed);
            black_box(swapped.is_ok());
            word.fetch_sub(1, Ordering::Release);
        });
    });
    let free = semaphore(64);
    group.bench_function("alone", |bencher| bencher.iter(|| acquire_and_release(&free)));
    group.bench_function("alone, owned", |bencher| {
        bencher.iter(|| acquire_and_release_owned(&free));
    });
    let full = semaphore(0);
    group.bench_function("refused", |bencher| bencher.iter(|| acquire_and_release(&full)));
    group.finish();
}

/// `work` on this thread under the bencher, and on another one all the while.
fn contended(
    criterion: &mut Criterion,
    name: &str,
    limit: u32,
    work: impl Fn(&Arc<Semaphore>) + Sync,
) {
    let (semaphore, done) = (semaphore(limit), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                work(&semaphore);
            }
        });
        criterion.bench_function(name, |bencher| bencher.iter(|| work(&semaphore)));
        done.store(true, Ordering::Relaxed);
    });
}

fn two_threads(criterion: &mut Criterion) {
    let (borrowed, owned) = (|of: &Arc<_>| acquire_and_release(of), acquire_and_release_owned);
    contended(criterion, "semaphore/two threads", 64, borrowed);
    contended(criterion, "semaphore/two threads, owned", 64, owned);
    contended(criterion, "semaphore/two threads, one permit", 1, borrowed);
}

criterion_group!(benches, alone, two_threads);
criterion_main!(benches);

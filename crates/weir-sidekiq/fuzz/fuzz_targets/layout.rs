//! Whatever stands in Redis: no panic; words are bounded, arguments do not come out, times are times.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_sidekiq::{JobSummary, text};

const WORD_BYTES_MAX: usize = 200;
const COMMANDS_MAX: usize = 5;
/// The end of the year 9999.
const MICROS_MAX: u64 = 253_402_300_800_000_000;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    match kind % 4 {
        0 => job(bytes),
        1 => capsules(bytes),
        2 => work(bytes),
        _ => server(bytes),
    }
});

fn job(payload: &[u8]) {
    if let Some(job) = text::job(payload) {
        check(&job);
        // What is around it makes no difference.
        assert_eq!(text::job(&[b" ", payload, b"\n"].concat()).as_ref(), Some(&job));
    }
}

fn check(job: &JobSummary) {
    let words = [Some(&job.class), job.host.as_ref(), job.error.as_ref()];
    assert!(words.into_iter().flatten().all(|word| word.len() <= WORD_BYTES_MAX));
    if let Some(host) = &job.host {
        let is_host = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte)
        };
        // What is longer is cut, maybe before its first dot.
        assert!(host.contains('.') || host.len() == WORD_BYTES_MAX, "{host:?}");
        assert!(host.bytes().all(is_host), "{host:?}");
    }
    assert!(job.enqueued_at.is_none_or(|at| at.as_micros() <= MICROS_MAX));
}

fn capsules(info: &[u8]) {
    if let Some(capsules) = text::capsules(info) {
        assert!(!capsules.is_empty());
        for capsule in &capsules {
            let total: u64 = capsule.queues.iter().map(|queue| u64::from(queue.weight)).sum();
            assert!(total <= u64::from(u32::MAX) * capsule.queues.len() as u64);
        }
    }
}

fn work(bytes: &[u8]) {
    if let Some(work) = text::work(bytes) {
        assert!(work.run_at.is_none_or(|at| at.as_micros() <= MICROS_MAX));
        work.job.iter().for_each(check);
    }
}

fn server(bytes: &[u8]) {
    let Ok(info) = str::from_utf8(bytes) else { return };
    let (_, commands) = text::server(info, COMMANDS_MAX);
    assert!(commands.len() <= COMMANDS_MAX);
    assert!(commands.is_sorted_by(|one, other| one.took >= other.took));
}

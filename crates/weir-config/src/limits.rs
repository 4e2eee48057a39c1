//! `[jobs.limits]`: every limit of the job server.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_jobs::settings::Limits;

use super::keys::{Key, Keys, WAIT};
use super::units::{DAY, MILLISECOND};

/// More of anything than a machine holds.
const COUNT_MAX: u64 = 100_000_000;
const COUNT: RangeInclusive<u64> = 1..=COUNT_MAX;
/// What a log segment may be: the length of a record takes 28 bits.
const SEGMENT: RangeInclusive<u64> = 1 << 20..=1 << 28;
/// What is set aside is a file like a segment.
const SET_ASIDE: RangeInclusive<u64> = 1 << 16..=1 << 27;
/// Queues are numbered with 16 bits, on disk and in memory.
const QUEUES: RangeInclusive<u64> = 1..=1 << 16;

pub(super) fn read(keys: &mut Keys<'_>, limits: &mut Limits) {
    read_connections(keys, limits);
    read_waits(keys, limits);
    read_buffers(keys, limits);
    read_commands(keys, limits);
    read_jobs(keys, limits);
    read_administration(keys, limits);
}

fn read_connections(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut count = |name, field: &mut usize, doc| {
        keys.number(Key::live(name, doc), COUNT, field);
    };
    count(
        "connections_max",
        &mut limits.connections_max,
        "Connections at once; one more gets `-ERR too many connections`.",
    );
    count(
        "refusals_max",
        &mut limits.refusals_max,
        "Connections over connections_max that are told so in the protocol's way (after HELLO); \
         more are told at once.",
    );
    count(
        "descriptors_reserved",
        &mut limits.descriptors_reserved,
        "Open files of the process that connections may not take: the log and the console need \
         them.",
    );
    count(
        "password_checks_max",
        &mut limits.password_checks_max,
        "Passwords that wait for their check at once; more are refused.",
    );
    count("workers_max", &mut limits.workers_max, "Worker processes known at once.");
    count("worker_labels_max", &mut limits.worker_labels_max, "Labels kept of one worker.");
    count(
        "worker_queues_max",
        &mut limits.worker_queues_max,
        "Queues kept, of those that one worker asks for, to be shown.",
    );
    keys.number(
        Key::live(
            "wrong_passwords_max",
            "Wrong passwords a minute from one address that are answered at once; after that \
             every password from there waits wrong_password_delay.",
        ),
        COUNT,
        &mut limits.wrong_passwords_max,
    );
}

fn read_waits(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut wait = |name, field: &mut Duration, doc| {
        keys.duration(Key::live(name, doc), WAIT, field);
    };
    wait("hello_timeout", &mut limits.hello_timeout, "HELLO must arrive within this long.");
    wait(
        "line_timeout",
        &mut limits.line_timeout,
        "A line that has begun must be complete within this long.",
    );
    wait(
        "linger_timeout",
        &mut limits.linger_timeout,
        "How long a connection that is closed with an error is still read, so that the error \
         arrives.",
    );
    wait(
        "fetch_wait",
        &mut limits.fetch_wait,
        "A FETCH waits this long for work before it answers null.",
    );
    wait(
        "write_timeout",
        &mut limits.write_timeout,
        "A client that doesn't read its replies is cut off after this long.",
    );
    wait(
        "heartbeat_timeout",
        &mut limits.heartbeat_timeout,
        "A worker that doesn't BEAT for this long is gone.",
    );
    wait(
        "wrong_password_delay",
        &mut limits.wrong_password_delay,
        "How long a password from an address over wrong_passwords_max waits for its check.",
    );
}

fn read_buffers(keys: &mut Keys<'_>, limits: &mut Limits) {
    keys.size(
        Key::live("line_bytes_max", "Bytes of one command line, job included."),
        1 << 10..=1 << 30,
        &mut limits.line_bytes_max,
    );
    keys.size(
        Key::live(
            "buffered_bytes_max",
            "Bytes of half-read lines and unread replies, over all connections.",
        ),
        1 << 20..=1 << 40,
        &mut limits.buffered_bytes_max,
    );
    keys.size(
        Key::live("hello_bytes_max", "Bytes of the HELLO line, which anybody may send."),
        256..=1 << 20,
        &mut limits.hello_bytes_max,
    );
    keys.size(
        Key::fixed(
            "memory_bytes_max",
            "Bytes of jobs in the store `memory`; the embedded store is limited by its disk.",
        ),
        1 << 20..=1 << 40,
        &mut limits.memory_bytes_max,
    );
}

fn read_commands(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut count = |name, field: &mut usize, max, doc| {
        keys.number(Key::live(name, doc), 1..=max, field);
    };
    count("pushb_jobs_max", &mut limits.pushb_jobs_max, COUNT_MAX, "Jobs in one PUSHB.");
    count(
        "waiting_fetches_max",
        &mut limits.waiting_fetches_max,
        COUNT_MAX,
        "FETCHes that wait at once.",
    );
    count(
        "fetch_queues_max",
        &mut limits.fetch_queues_max,
        COUNT_MAX,
        "Queues named in one FETCH.",
    );
    count(
        "json_depth_max",
        &mut limits.json_depth_max,
        1_000,
        "How deep the JSON of a job may nest.",
    );
    count("id_bytes_max", &mut limits.id_bytes_max, 4_096, "Bytes of a jid, a wid, a jobtype.");
    count(
        "queue_name_bytes_max",
        &mut limits.queue_name_bytes_max,
        255,
        "Bytes of a queue's name.",
    );
}

fn read_jobs(keys: &mut Keys<'_>, limits: &mut Limits) {
    keys.number(
        Key::fixed("queues_max", "Queues that exist at once."),
        QUEUES,
        &mut limits.queues_max,
    );
    keys.number(
        Key::fixed("dead_jobs_max", "Jobs in the dead set; the oldest go first."),
        COUNT,
        &mut limits.dead_jobs_max,
    );
    keys.duration(
        Key::fixed("dead_age_max", "A dead job is forgotten after this long."),
        MILLISECOND..=DAY * 4_000,
        &mut limits.dead_age_max,
    );
    keys.number(
        Key::fixed(
            "returns_max",
            "A job handed back this often because its worker vanished counts as failed.",
        ),
        1..=255,
        &mut limits.returns_max,
    );
    keys.size(
        Key::fixed("segment_bytes", "Bytes of one log segment."),
        SEGMENT,
        &mut limits.segment_bytes,
    );
    keys.size(
        Key::fixed(
            "reserve_bytes",
            "Room on the disk that pushes may not use, kept for ACK and FAIL.",
        ),
        SEGMENT,
        &mut limits.reserve_bytes,
    );
    keys.size(
        Key::fixed(
            "set_aside_bytes_max",
            "Bytes of damaged records that are set aside until an operator has acknowledged them, \
             and as many that were acknowledged last.",
        ),
        SET_ASIDE,
        &mut limits.set_aside_bytes_max,
    );
}

fn read_administration(keys: &mut Keys<'_>, limits: &mut Limits) {
    keys.number(
        Key::fixed(
            "admin_requests_max",
            "Requests of the console, the admin API and the command line that run or wait at once.",
        ),
        COUNT,
        &mut limits.admin_requests_max,
    );
    keys.number(
        Key::live("page_jobs_max", "Jobs in one page of a list."),
        COUNT,
        &mut limits.page_jobs_max,
    );
    keys.number(
        Key::live(
            "scan_jobs_max",
            "Jobs that a search or MUTATE looks at before it lets others run.",
        ),
        COUNT,
        &mut limits.scan_jobs_max,
    );
    keys.number(
        Key::fixed(
            "metrics_queues_max",
            "Queues with metrics of their own; the rest share `queue=\"other\"`.",
        ),
        0..=COUNT_MAX,
        &mut limits.metrics_queues_max,
    );
}

//! `[observe.limits]`: what looking may cost, and how much of it is told.

use std::ops::RangeInclusive;

use weir_advisor::figures::LabelLimits;
use weir_observe::{Pace, PostgresLimits};

use super::super::keys::{Key, Keys, WAIT};
use weir_settings::{DAY, SECOND};

/// More of anything than a Sidekiq has.
const COUNT: RangeInclusive<u64> = 1..=1_000_000;

pub(super) fn read(keys: &mut Keys<'_>, pace: &mut Pace, labels: &mut LabelLimits) {
    keys.duration(
        Key::fixed("look_timeout", "What a look at one source may take; then its connection is closed, and what it knows is unknown."),
        WAIT,
        &mut pace.look_timeout,
    );
    keys.duration(
        Key::fixed("retry_max", "A source that fails is left alone for the interval, then longer each time, at most for this long."),
        SECOND..=DAY,
        &mut pace.retry_max,
    );
    let LabelLimits { metrics_queues_max, metrics_services_max } = labels;
    keys.number(
        Key::fixed("metrics_queues_max", "Queues with metrics of their own; the rest share `queue=\"other\"`, and weir_observe_left_out counts them."),
        0..=100_000,
        metrics_queues_max,
    );
    keys.number(
        Key::fixed("metrics_services_max", "Services (kinds of database clients) with metrics of their own; the rest share `service=\"other\"`."),
        0..=100_000,
        metrics_services_max,
    );
}

pub(super) fn read_redis(keys: &mut Keys<'_>, limits: &mut weir_sidekiq::Limits) {
    keys.number(
        Key::fixed("queues_max", "Queues that are looked at. What is cut off by this limit or the next ones is a finding."),
        COUNT,
        &mut limits.queues_max,
    );
    keys.number(
        Key::fixed("processes_max", "Processes of Sidekiq that are looked at."),
        COUNT,
        &mut limits.processes_max,
    );
    keys.number(
        Key::fixed("commands_max", "Commands that one look sends to a Redis."),
        COUNT,
        &mut limits.commands_max,
    );
    keys.size(
        Key::fixed(
            "jobs_bytes_max",
            "Bytes of jobs that one look reads from a Redis: samples of queues and sets, and jobs in hand.",
        ),
        1 << 20..=1 << 30,
        &mut limits.jobs_bytes_max,
    );
    keys.number(
        Key::fixed(
            "operations_max",
            "Commands of others whose counts and times are kept: those that take most time.",
        ),
        1..=1_000,
        &mut limits.operations_max,
    );
}

pub(super) fn read_postgres(keys: &mut Keys<'_>, limits: &mut PostgresLimits) {
    keys.number(
        Key::fixed("sessions_max", "Sessions of Postgres that are looked at."),
        COUNT,
        &mut limits.sessions_max,
    );
    keys.number(
        Key::fixed("statements_max", "Kinds of statements that are looked at, where pg_stat_statements is there; 0: nobody asks."),
        0..=1_000,
        &mut limits.statements_max,
    );
    keys.duration(
        Key::fixed("statement_timeout", "How long Postgres may work on one question."),
        WAIT,
        &mut limits.statement_timeout,
    );
    keys.duration(
        Key::fixed("lock_timeout", "How long a question may wait for a lock of the catalog."),
        WAIT,
        &mut limits.lock_timeout,
    );
}

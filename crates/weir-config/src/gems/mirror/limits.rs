//! `[gems.mirror.limits]`: what upstreams may send, and how long they may take.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gems::mirror::settings::MirrorLimits;

use super::super::super::keys::{Key, Keys, WAIT};
use weir_settings::{DAY, SECOND};

/// More of anything than a machine holds.
const COUNT: RangeInclusive<u64> = 1..=100_000_000;
/// What is asked, or worked on, at once.
const AT_ONCE: RangeInclusive<u64> = 1..=10_000;
/// What is held in memory.
const MEMORY: RangeInclusive<u64> = 1 << 10..=1 << 32;

pub(super) fn read(keys: &mut Keys<'_>, limits: &mut MirrorLimits) {
    read_requests(keys, limits);
    read_index(keys, limits);
    read_batches(keys, limits);
    read_times(keys, limits);
    read_hooks(keys, limits);
}

fn read_requests(keys: &mut Keys<'_>, limits: &mut MirrorLimits) {
    keys.number(
        Key::fixed("requests_max", "Requests to one upstream at once while the index is read."),
        AT_ONCE,
        &mut limits.requests_max,
    );
    keys.number(
        Key::fixed(
            "file_fetches_max",
            ".gem files that are fetched at once from one upstream because somebody asks; one more gets 503.",
        ),
        AT_ONCE,
        &mut limits.file_fetches_max,
    );
    keys.number(
        Key::fixed("attempts_max", "Attempts of one request, when what fails may pass."),
        1..=100,
        &mut limits.attempts_max,
    );
    keys.number(
        Key::fixed(
            "failures_max",
            "Requests that fail one after another before a look is given up until the next one.",
        ),
        AT_ONCE,
        &mut limits.failures_max,
    );
}

fn read_index(keys: &mut Keys<'_>, limits: &mut MirrorLimits) {
    keys.size(
        Key::fixed(
            "versions_bytes_max",
            "Bytes of an upstream's /versions. That of rubygems.org has 22MB.",
        ),
        1 << 10..=1 << 40,
        &mut limits.versions_bytes_max,
    );
    keys.number(
        Key::fixed(
            "names_max",
            "Names of one upstream; each takes some 80 bytes while all are compared.",
        ),
        COUNT,
        &mut limits.names_max,
    );
    keys.number(
        Key::fixed("names_gone_max", "Names that may be taken away within names_gone_window, since they are gone from the upstream's list or have no version there any more. More look like an upstream that has lost its data, and nothing more is taken away."),
        COUNT,
        &mut limits.names_gone_max,
    );
    keys.number(
        Key::fixed("names_gone_percent_max", "Of a hundred names in an upstream's list so many may be gone from it within names_gone_window, however few they are. 100: all of them."),
        1..=100,
        &mut limits.names_gone_percent_max,
    );
    keys.duration(
        Key::fixed("names_gone_window", "How long names that were taken away count for those two limits, from the first of them on: an upstream may lose its data bit by bit."),
        SECOND..=DAY * 365,
        &mut limits.names_gone_window,
    );
    keys.size(
        Key::fixed("line_bytes_max", "Bytes of one line of /versions."),
        MEMORY,
        &mut limits.line_bytes_max,
    );
    keys.number(
        Key::fixed(
            "malformed_lines_max",
            "Lines of /versions that can't be read and are left out; with more it is taken for no index.",
        ),
        0..=*COUNT.end(),
        &mut limits.malformed_lines_max,
    );
    keys.size(
        Key::fixed("info_bytes_max", "Bytes of one /info; requests_max of them are held at once."),
        MEMORY,
        &mut limits.info_bytes_max,
    );
}

fn read_batches(keys: &mut Keys<'_>, limits: &mut MirrorLimits) {
    keys.number(
        Key::fixed("batch_gems", "Gems that are written in one transaction. More is quicker; pushes wait that much longer meanwhile."),
        1..=1_000_000,
        &mut limits.batch_gems,
    );
    keys.size(
        Key::fixed("batch_bytes", "Bytes of infos that are gathered for one transaction."),
        MEMORY,
        &mut limits.batch_bytes,
    );
}

fn read_times(keys: &mut Keys<'_>, limits: &mut MirrorLimits) {
    let mut wait =
        |name, field: &mut Duration, doc| keys.duration(Key::fixed(name, doc), WAIT, field);
    wait("connect_timeout", &mut limits.connect_timeout, "Name look-up, TCP and TLS together.");
    wait(
        "silence_timeout",
        &mut limits.silence_timeout,
        "How long an upstream may be silent, before an answer and in the middle of it.",
    );
    wait("info_timeout", &mut limits.info_timeout, "How long an /info may take.");
    wait(
        "download_timeout",
        &mut limits.download_timeout,
        "How long /versions or a .gem file may take.",
    );
    wait(
        "backoff_min",
        &mut limits.backoff_min,
        "The wait after the first failure; it doubles with every further one, less up to a half at random.",
    );
    wait("backoff_max", &mut limits.backoff_max, "That wait never grows beyond this.");
}

fn read_hooks(keys: &mut Keys<'_>, limits: &mut MirrorLimits) {
    keys.number(
        Key::fixed(
            "hooks_waiting_max",
            "Webhooks in the inbox; one more gets 503, and is sent again.",
        ),
        COUNT,
        &mut limits.hooks_waiting_max,
    );
    keys.number(
        Key::fixed("hook_attempts_max", "Attempts to find at the upstream what a webhook tells; then the next look at all of it finds it."),
        1..=1_000_000,
        &mut limits.hook_attempts_max,
    );
    keys.number(
        Key::fixed("hook_batch", "Webhooks that are worked off together."),
        1..=1_000_000,
        &mut limits.hook_batch,
    );
}

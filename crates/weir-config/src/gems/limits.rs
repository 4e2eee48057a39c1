//! `[gems.limits]`: every limit of requests, of pushed gems and of imports.

use std::ops::RangeInclusive;

use weir_gems::package::PackageLimits;
use weir_gems::settings::GemsLimits;

use super::super::keys::{Key, Keys, WAIT};

/// More of anything than a machine holds.
const COUNT: RangeInclusive<u64> = 1..=100_000_000;
/// What is held in memory.
const MEMORY: RangeInclusive<u64> = 1 << 10..=1 << 32;
/// What is on a disk.
const DISK: RangeInclusive<u64> = 1 << 10..=1 << 44;

pub(super) fn read(keys: &mut Keys<'_>, limits: &mut GemsLimits) {
    read_dependencies(keys, limits);
    read_bodies(keys, limits);
    read_wrong_keys(keys, limits);
    read_downloads(keys, limits);
    read_package(keys, &mut limits.package);
    keys.size(
        Key::live("import_line_bytes_max", "Bytes of one line of an imported file, which is a gem with its versions. The largest gem of rubygems.org takes 1.5MB."),
        MEMORY,
        &mut limits.import.line_bytes_max,
    );
}

/// Those of the dependency API.
fn read_dependencies(keys: &mut Keys<'_>, limits: &mut GemsLimits) {
    keys.number(
        Key::live("dependency_names_max", "Names in one request to the dependency API; more get 422. Bundler asks for 50 at a time."),
        COUNT,
        &mut limits.dependency_names_max,
    );
    keys.size(
        Key::live("dependency_answer_bytes_max", "Bytes of one answer of the dependency API. A longer one gets 413, and clients go on with the compact index."),
        MEMORY,
        &mut limits.dependency_answer_bytes_max,
    );
    keys.size(
        Key::live("dependency_memory_bytes_max", "Bytes of answers of the dependency API that their clients have not read yet, all together; one that finds no room gets 503."),
        MEMORY,
        &mut limits.dependency_memory_bytes_max,
    );
    keys.size(
        Key::live("info_memory_bytes_max", "The same of answers to /info that are not in memory anyway, of specifications and of pages."),
        MEMORY,
        &mut limits.info_memory_bytes_max,
    );
    keys.number(
        Key::live("client_memory_percent_max", "Of a hundred bytes of those two so many may be held by one client, and one answer in any case; one more gets 503. A client is an address, of IPv6 the /64 that it is in; whom front.trusted_proxies speak for count by their own; those of this machine are not counted. 100: all."),
        1..=100,
        &mut limits.client_memory_percent_max,
    );
    keys.duration(
        Key::live("answer_timeout", "How long a client may take for an answer that counts for those two, however steadily it reads; then its connection is cut, or its stream reset."),
        WAIT,
        &mut limits.answer_timeout,
    );
}

/// Those of clients that guess.
fn read_wrong_keys(keys: &mut Keys<'_>, limits: &mut GemsLimits) {
    keys.number(
        Key::live("wrong_keys_max", "Wrong API keys a minute from one client that are answered at once; after that every key from there that was not right before waits wrong_key_delay. A client is what it is for client_memory_percent_max; those of this machine count as one."),
        COUNT,
        &mut limits.wrong_keys_max,
    );
    keys.duration(
        Key::live(
            "wrong_key_delay",
            "How long a key from a client over wrong_keys_max waits for its check.",
        ),
        WAIT,
        &mut limits.wrong_key_delay,
    );
    keys.number(
        Key::live(
            "waiting_keys_max",
            "Keys that wait so at once, over all clients and cores; one more gets 429.",
        ),
        1..=10_000,
        &mut limits.waiting_keys_max,
    );
}

/// Those of what clients send.
fn read_bodies(keys: &mut Keys<'_>, limits: &mut GemsLimits) {
    keys.number(
        Key::live("pushes_max", "Pushes at once, over all cores; one more gets 503."),
        1..=10_000,
        &mut limits.pushes_max,
    );
    keys.duration(
        Key::live(
            "body_timeout",
            "How long a client may be silent in the middle of what it sends; then it gets 408.",
        ),
        WAIT,
        &mut limits.body_timeout,
    );
    keys.size(
        Key::live(
            "form_bytes_max",
            "Bytes of what is sent beside a gem, or of a yank; more get 413.",
        ),
        MEMORY,
        &mut limits.form_bytes_max,
    );
}

/// What is counted in memory.
fn read_downloads(keys: &mut Keys<'_>, limits: &mut GemsLimits) {
    keys.number(
        Key::live("downloads_waiting_max", "Releases whose downloads are counted in memory until they are written; others are not counted."),
        COUNT,
        &mut limits.downloads_waiting_max,
    );
}

/// What a pushed `.gem` file may have; one with more gets 413, or 422 if it is odd as well.
fn read_package(keys: &mut Keys<'_>, limits: &mut PackageLimits) {
    read_sizes(keys, limits);
    let mut count = |name, max, field: &mut usize, doc| {
        keys.number(Key::live(name, doc), 1..=max, field);
    };
    count(
        "entries_max",
        100_000_000,
        &mut limits.entries_max,
        "Files, folders and links in a gem.",
    );
    count("path_bytes_max", 65_536, &mut limits.path_bytes_max, "Bytes of one path in a gem.");
    count(
        "metadata_values_max",
        100_000_000,
        &mut limits.metadata_values_max,
        "Values in a gem's specification.",
    );
    count(
        "metadata_depth_max",
        1_000,
        &mut limits.metadata_depth_max,
        "How deep values of a gem's specification lie in each other.",
    );
    count(
        "metadata_aliases_max",
        100_000_000,
        &mut limits.metadata_aliases_max,
        "Uses of values of a gem's specification that are written once (YAML's aliases).",
    );
}

fn read_sizes(keys: &mut Keys<'_>, limits: &mut PackageLimits) {
    let mut size = |name, range, field: &mut u64, doc| {
        keys.size(Key::live(name, doc), range, field);
    };
    size("gem_bytes_max", DISK, &mut limits.gem_bytes_max, "Bytes of a .gem file that is pushed.");
    size(
        "unpacked_bytes_max",
        DISK,
        &mut limits.unpacked_bytes_max,
        "Bytes of all files in a gem, unpacked.",
    );
    size(
        "metadata_bytes_max",
        MEMORY,
        &mut limits.metadata_bytes_max,
        "Bytes of a gem's specification, unpacked.",
    );
    keys.number(
        Key::live(
            "unpacked_ratio_max",
            "How many times as large as packed a part of a gem may be unpacked, beyond 16MiB.",
        ),
        1..=10_000,
        &mut limits.unpacked_ratio_max,
    );
}

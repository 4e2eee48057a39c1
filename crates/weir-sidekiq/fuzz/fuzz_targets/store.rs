//! Whatever stands in Redis and whatever it replies: no panic, no job that a worker can't parse, and no
//! unknown member that changes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use weir_sidekiq::store::parsing;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    match kind % 4 {
        0 => payload(bytes),
        1 => _ = parsing::reply(bytes),
        2 => reservation(bytes),
        _ => _ = parsing::shown(bytes),
    }
});

fn payload(bytes: &[u8]) {
    let Some(parsed) = parsing::payload(bytes) else { return };
    let unknown = parsing::unknown_members(bytes).expect("it is a job");
    for text in [&parsed.enqueued, &parsed.failed] {
        assert!(parsing::payload(text).is_some(), "a stored job stays a job");
        assert_eq!(parsing::unknown_members(text).as_ref(), Some(&unknown));
    }
    // JSON that nests deeper than serde_json's limit is passed on unparsed.
    if serde_json::from_slice::<Value>(bytes).is_ok() {
        let job: Value = serde_json::from_slice(&parsed.delivered).expect("JSON");
        assert!(job["jobtype"].is_string() && job["jid"].is_string(), "{job}");
        assert_eq!(job["queue"], "q");
    }
}

fn reservation(bytes: &[u8]) {
    if let Some(payload) = parsing::reservation("0123456789ab-1:7", bytes) {
        assert!(bytes.ends_with(&payload));
        assert!(parsing::payload(&payload).is_some());
    }
}

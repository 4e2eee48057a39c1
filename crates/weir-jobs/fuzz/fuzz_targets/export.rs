//! Whatever a file for `weir jobs import` contains: no line panics, and what is written is one line
//! that is read as it was.
//!
//! Run with `cargo +nightly fuzz run export fuzz/corpus/export fuzz/seeds/export` in
//! `crates/weir-jobs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_jobs::export_lines::{ExportCheck, ExportLine, ExportTally, export_line};
use weir_jobs::view::{JobView, JobViewState};

fuzz_target!(|bytes: &[u8]| {
    let mut check = ExportCheck::default();
    let (mut tally, mut written) = (ExportTally::default(), Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Err(error) = check.add(line) {
            assert!(!error.to_string().contains('\n'));
        }
        let Ok(parsed) = ExportLine::parse(line) else { continue };
        let _ = parsed.end();
        if let (Some(place), Some(job)) = (&parsed.place, parsed.job) {
            let line = rewrite(place, job.get(), &parsed);
            tally.add_jobs(place, 1);
            tally.add_text(line.as_bytes());
            written.push(line);
        }
    }
    written.push(tally.end().line());
    let mut check = ExportCheck::default();
    written.iter().try_for_each(|line| check.add(line.as_bytes())).expect("a whole export");
    assert_eq!(check.finish(), Ok(()));
});

/// Writes a job again, and reads it.
fn rewrite(place: &str, payload: &str, parsed: &ExportLine<'_>) -> String {
    let job = JobView {
        jid: String::new(),
        jobtype: String::new(),
        queue: String::new(),
        state: JobViewState::Enqueued,
        at: 1_795_202_902.5,
        created_at: None,
        retry: 0,
        reserve_for_seconds: 0,
        failure: None,
        wid: None,
        payload: payload.to_owned(),
        key: parsed.key().unwrap_or_default(),
        features: None,
    };
    let line = export_line(place, &job);
    assert_eq!(line.find('\n'), Some(line.len() - 1));
    let again = ExportLine::parse(line.as_bytes()).expect("a written line is valid");
    assert_eq!(again.place.as_deref(), Some(place));
    assert_eq!(again.key().unwrap_or_default(), job.key);
    assert_eq!(again.job.expect("a job").get(), payload.replace(['\n', '\r'], " "));
    line
}

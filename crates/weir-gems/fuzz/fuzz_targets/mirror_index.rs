//! Parses arbitrary texts of an upstream. There must be no panic, the split into pieces must not
//! matter, and accepted entries must survive being written to an index and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_gems::index::info;
use weir_gems::mirror::policy::Policy;
use weir_gems::mirror::read::{VersionsLine, VersionsReader, read_info};

const LINE_BYTES_MAX: usize = 10_000;

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (kind, cut, bytes) = input;
    match kind % 3 {
        0 => assert_eq!(versions(&[bytes]), versions(&cut_at(bytes, cut))),
        1 => infos(bytes),
        _ => policies(bytes),
    }
});

/// Checks that a policy is read or rejected.
fn policies(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let _ = text.parse::<Policy>();
}

fn cut_at(bytes: &[u8], cut: u16) -> [&[u8]; 2] {
    let (before, after) = bytes.split_at(usize::from(cut).min(bytes.len()));
    [before, after]
}

fn versions(pieces: &[&[u8]]) -> Option<(Vec<(String, [u8; 16])>, u64)> {
    let mut reader = VersionsReader::new(LINE_BYTES_MAX);
    let (mut gems, mut malformed) = (Vec::new(), 0);
    for piece in pieces {
        let fed = reader.feed(piece, |line| match line {
            VersionsLine::Malformed => malformed += 1,
            VersionsLine::Gem { name, md5 } => {
                assert!(!name.contains(['\n', ' ', '/']) && name.len() <= 255);
                gems.push((name.to_owned(), md5));
            }
        });
        fed.ok()?;
    }
    reader.finish().ok()?;
    Some((gems, malformed))
}

fn infos(bytes: &[u8]) {
    let Ok(read) = read_info(bytes) else { return };
    let mut written = String::new();
    info::write(&mut written, &read.releases);
    let again = read_info(written.as_bytes()).expect("what is written is read");
    assert_eq!((again.releases.len(), again.left_out), (read.releases.len(), 0));
    let mut twice = String::new();
    info::write(&mut twice, &again.releases);
    assert_eq!(written, twice);
}

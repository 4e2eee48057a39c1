//! Reads `.gem` files with seeded damage: each is rejected, or is a valid gem.

use proptest::prelude::*;
use weir_gems::package::sample::{Sample, gzip, pack, tar};
use weir_gems::package::{PackageLimits, read};

const MUTATIONS: u64 = 1_000;

fn limits() -> PackageLimits {
    PackageLimits {
        gem_bytes_max: 1 << 20,
        unpacked_bytes_max: 4 << 20,
        entries_max: 100,
        metadata_bytes_max: 1 << 20,
        ..PackageLimits::default()
    }
}

/// Returns a gem with a version of its own, so that accepted gems don't conflict.
fn sample(seed: u64) -> Sample {
    Sample::new("mutant", &format!("1.2.{seed}")).with_dependency("rack", ">= 2, < 4")
}

/// Overwrites, truncates, duplicates or moves some bytes.
fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=random.usize(..4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(..bytes.len());
        let end = (at + random.usize(..600)).min(bytes.len());
        match random.u8(..6) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                let place = random.usize(..=bytes.len());
                bytes.splice(place..place, copy);
            }
            _ => bytes[at..end].fill(random.u8(..)),
        }
    }
}

/// Damages the whole file, or a member with corrected checksums, which reaches deeper code.
pub(crate) fn mutant(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sample = sample(seed);
    let mut metadata = sample.metadata().into_bytes();
    let mut data = tar(&[("lib/a.rb", b"a".to_vec()), ("lib/b.rb", b"b".to_vec())]);
    match seed % 4 {
        0 => {
            let mut file = sample.build();
            mutate(&mut random, &mut file);
            return file;
        }
        1 => mutate(&mut random, &mut metadata),
        2 => mutate(&mut random, &mut data),
        _ => {
            let mut packed = gzip(&data);
            mutate(&mut random, &mut packed);
            return pack(&gzip(&metadata), &packed);
        }
    }
    pack(&gzip(&metadata), &gzip(&data))
}

#[test]
fn damaged_gems_are_refused_or_in_order() {
    let (mut refused, mut read_well) = (0, 0);
    for seed in 0..MUTATIONS {
        match read(&mutant(seed)[..], &limits()) {
            Ok(package) => {
                // An accepted version can be written to a line.
                let version = package.specification.version.to_string();
                assert!(!version.contains(['\n', ' ', ',', '-']), "seed {seed}: {version:?}");
                read_well += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "seed {seed}");
                refused += 1;
            }
        }
    }
    // Both outcomes must occur, or the damage does not test anything.
    assert!(refused > 300 && read_well > 50, "{refused} refused, {read_well} read");
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        prop_assert!(read(&bytes[..], &limits()).is_err());
    }

    #[test]
    fn any_metadata_is_read_or_refused(text in "[a-z:{}\\[\\]\"'&*!<>|\\- \n]{0,200}") {
        let data = gzip(&tar(&[("a", Vec::new())]));
        let _ = read(&pack(&gzip(text.as_bytes()), &data)[..], &limits());
    }

    #[test]
    fn what_was_built_is_what_is_read(
        name in "[a-zA-Z][a-zA-Z0-9_-]{0,20}", version in "[0-9]{1,3}(\\.[0-9a-z]{1,3}){0,3}"
    ) {
        let package = read(&Sample::new(&name, &version).build()[..], &limits()).unwrap();
        prop_assert_eq!(package.specification.name.as_str(), name);
        prop_assert_eq!(package.specification.version.as_str(), version);
    }
}

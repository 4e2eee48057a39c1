//! One suite for every store. What is particular to one of them comes behind it.

mod contract;
mod killed;
mod mirror;
mod model;
mod sqlite;

pub(crate) use self::contract::assert_consistent;
use weir_base::clock::Timestamp;
use weir_gems::release::{Checksum, Identity, Release};
use weir_gems::store::{NewRelease, SqliteSettings, SqliteStore};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A store in a folder that lasts as long as the test.
pub(crate) fn sqlite() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
    (folder, store)
}

pub(crate) fn settings(folder: &tempfile::TempDir) -> SqliteSettings {
    SqliteSettings { import_batch: 2, ..SqliteSettings::new(folder.path().join("gems.db")) }
}

/// `1.0` or `1.0-java`.
pub(crate) fn identity(text: &str) -> Identity {
    let (number, platform) = text.split_once('-').unwrap_or((text, "ruby"));
    Identity { number: number.parse().unwrap(), platform: platform.parse().unwrap() }
}

pub(crate) fn release(version: &str, dependencies: &str) -> Release {
    Release {
        identity: identity(version),
        dependencies: dependencies.parse().unwrap(),
        checksum: Checksum([7; 32]),
        ruby: Some(">= 2.7".parse().unwrap()),
        rubygems: None,
        created_at: NOW,
    }
}

pub(crate) fn new(name: &str, version: &str) -> NewRelease {
    NewRelease {
        name: name.parse().unwrap(),
        release: release(version, "rack:>= 2&< 4"),
        bytes: 1_234,
        gemspec_rz: format!("{name} {version}").into_bytes(),
        about: "{}".to_owned(),
    }
}

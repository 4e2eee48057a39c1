//! One test suite for every store. Tests of a particular store are in its module.

/// Everything that every store promises, as tests of the one that `$open` makes: empty, with what
/// must live as long; None: it can't be tested here, and has said so.
macro_rules! suite {
    ($open:expr) => {
        suite! { $open;
            a_new_store_has_texts_without_gems
            a_push_is_everywhere_at_once
            a_release_is_pushed_once
            two_releases_never_share_a_file
            a_name_of_many_dashes_has_its_file
            names_that_look_alike_are_told
            a_yank_takes_a_release_out
            an_import_adds_what_is_not_there
            an_import_takes_a_gem_that_comes_twice
            pages_go_over_all_gems
            names_that_no_gem_has_are_not_found
            a_rebaseline_says_the_same_in_fewer_lines
            queries_are_measured_by_their_names
            keys::keys_are_found_by_their_digests
            webhooks::an_event_is_kept_with_its_change
            webhooks::each_endpoint_has_its_own_place
            webhooks::one_sender_has_an_endpoint
            webhooks::so_many_events_are_kept
            mirror::what_is_noted_is_work_until_it_is_applied
            mirror::digests_are_of_what_is_noted
            mirror::a_gem_becomes_what_its_upstream_says
            mirror::what_is_local_is_never_touched
            mirror::what_could_be_taken_for_ours_is_not_new_here
            mirror::when_looks_came_to_something_is_kept
            mirror::what_an_earlier_upstream_lists_is_not_taken
            mirror::a_mirrored_name_is_not_pushed_to
            mirror::what_was_taken_away_is_nobodys_and_may_come_again
            mirror::what_was_yanked_here_is_gone_for_good
            mirror::no_mirrored_release_takes_anothers_file
            mirror::of_new_releases_the_first_has_the_file
            mirror::what_is_refused_is_no_work_until_it_is_reconsidered
            mirror::what_is_known_of_a_name_is_told_whether_it_was_noted_or_not
            mirror::a_name_changes_hands_whole
            mirror::origins_and_missing_files_come_in_pages
            mirror::a_kept_file_belongs_to_its_checksum
            mirror::hooks_wait_in_their_order
            mirror::hooks_of_each_upstream_are_apart
            mirror::what_has_gone_is_counted_for_each_upstream
            mirror::many_gems_are_applied_together
            mirror::another_file_of_a_known_version_waits_for_an_operator
            mirror::a_version_that_goes_and_comes_has_the_file_that_it_had
        }
    };
    ($open:expr; $($name:ident $(:: $inner:ident)?)*) => { $(
        suite! { @test $open; $name $(:: $inner)? }
    )* };
    (@test $open:expr; $name:ident) => { suite! { @as $name; $open; $name } };
    (@test $open:expr; $module:ident :: $name:ident) => {
        suite! { @as $name; $open; $module::$name }
    };
    (@as $test:ident; $open:expr; $($path:tt)*) => {
        #[tokio::test]
        async fn $test() {
            let open = $open;
            let Some((_guard, store)) = open() else { return };
            crate::store::contract::$($path)*(store).await;
        }
    };
}

mod contract;
mod killed;
mod model;
mod postgres;
mod sqlite;

pub(crate) use self::contract::assert_consistent;
use weir_base::clock::Timestamp;
use weir_gems::release::{Checksum, Identity, Release};
use weir_gems::store::{NewRelease, PostgresStore, SqliteSettings, SqliteStore};

/// Returns a schema in Postgres, or None if Postgres is not installed, which is reported.
pub(crate) fn postgres_place() -> Option<postgres::Place> {
    postgres::Place::new()
}

/// Opens the store that another process described with [`postgres::Place::address`].
pub(crate) fn postgres_at(address: &str) -> PostgresStore {
    let (url, schema) = address.split_once(' ').unwrap();
    postgres::open(&postgres::settings(url, schema))
}

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Returns a store in a directory that exists until the end of the test.
pub(crate) fn sqlite() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&settings(&folder), NOW).unwrap();
    (folder, store)
}

pub(crate) fn settings(folder: &tempfile::TempDir) -> SqliteSettings {
    SqliteSettings { import_batch: 2, ..SqliteSettings::new(folder.path().join("gems.db")) }
}

/// Parses `1.0` or `1.0-java`.
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

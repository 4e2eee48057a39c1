//! Stores a mirror's data, in the same file as the gems.

mod apply;
mod changed;
mod files;
mod hooks;
mod lookalikes;
mod noted;
mod origins;
mod pending;
mod replaced;

use async_trait::async_trait;
use weir_base::clock::Timestamp;

use super::SqliteStore;
use super::database::Sqlite;
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::name::GemName;
use crate::release::Identity;
use crate::store::StoreError;
use crate::store::database::at_once;
use crate::store::mirror::{
    Applied, Gone, Hook, Inbox, LastLooks, MirrorCounts, MirrorStore, MirroredFile, MirroredGem,
    MirroredRelease, MissingFiles, NewHook, Noted, Origins, Pending, Position, Presence, Refusal,
    ReplacedRelease, Standing,
};
use crate::store::statements::{self, refusals, upstreams};

/// Tables of a mirror.
pub(super) const TABLES: &str = "
CREATE TABLE upstreams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    -- Counts what was noted.
    sequence INTEGER NOT NULL,
    -- How far /versions was read; NULL: never to its end.
    length INTEGER,
    state BLOB,
    overlap BLOB,
    etag TEXT
) STRICT;

-- What each upstream's /versions says.
CREATE TABLE upstream_gems (
    upstream INTEGER NOT NULL,
    name TEXT NOT NULL,
    -- NULL: the name is not there any more.
    md5 BLOB,
    -- What our releases are.
    applied BLOB,
    -- Why it is not taken.
    refusal INTEGER,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (upstream, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX upstream_gems_pending ON upstream_gems (upstream, sequence)
    WHERE md5 IS NOT applied AND refusal IS NULL;
CREATE INDEX upstream_gems_refused ON upstream_gems (upstream, name) WHERE refusal IS NOT NULL;

-- Gems that came from an upstream. All others were pushed or imported here.
CREATE TABLE origins (
    gem INTEGER PRIMARY KEY,
    upstream INTEGER NOT NULL
) STRICT;

CREATE TABLE hooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    upstream TEXT NOT NULL,
    is_removal INTEGER NOT NULL,
    name TEXT NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL
) STRICT;
CREATE INDEX hooks_due ON hooks (due_at);
";

/// Times of the last successful synchronizations; NULL if there was none.
pub(super) const LAST_LOOKS: &str = "
ALTER TABLE upstreams ADD COLUMN complete_at INTEGER;
ALTER TABLE upstreams ADD COLUMN compared_at INTEGER;
";

/// An index that finds the webhooks of one upstream without reading those of others.
pub(super) const HOOKS_BY_UPSTREAM: &str = "
DROP INDEX hooks_due;
CREATE INDEX hooks_due ON hooks (upstream, due_at);
";

/// Count of removed names and the start of its time window; NULL if none were removed.
pub(super) const GONE: &str = "
ALTER TABLE upstreams ADD COLUMN gone_since INTEGER;
ALTER TABLE upstreams ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
";

/// Checksums of files. Those of current releases are in their rows.
pub(super) const REPLACED: &str = "
-- Of releases that were taken away, and those that an operator has accepted.
CREATE TABLE pins (
    gem INTEGER NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (gem, number, platform)
) STRICT, WITHOUT ROWID;

-- Releases that are kept out, since their upstream has another file of them.
CREATE TABLE replaced_releases (
    gem INTEGER NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    pinned BLOB NOT NULL,
    offered BLOB NOT NULL,
    -- When the offered one was first seen.
    since INTEGER NOT NULL,
    PRIMARY KEY (gem, number, platform)
) STRICT, WITHOUT ROWID;
";

/// The policy: one row, or none.
pub(super) const POLICY: &str = "
CREATE TABLE mirror_policy (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    rules TEXT NOT NULL
) STRICT;
";

#[async_trait]
impl MirrorStore for SqliteStore {
    async fn position(&self, upstream: &str) -> Result<Option<Position>, StoreError> {
        self.read_once("position", |it| at_once(upstreams::position(&Sqlite(it), upstream)))
    }

    async fn note(
        &self,
        upstream: &str,
        noted: Vec<Noted>,
        position: Option<Position>,
    ) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        self.write("note", move |it| noted::note(it.0, &upstream, &noted, position)).await
    }

    async fn noted_digests(
        &self,
        upstream: &str,
    ) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError> {
        let upstream = upstream.to_owned();
        self.read_blocking("noted_digests", move |it| noted::digests(it.0, &upstream)).await
    }

    async fn noted(&self, upstream: &str, prefix: Prefix) -> Result<Vec<Noted>, StoreError> {
        let upstream = upstream.to_owned();
        self.read_blocking("noted", move |it| {
            at_once(statements::noted::of_prefix(it, &upstream, prefix))
        })
        .await
    }

    async fn pending(
        &self,
        upstream: &str,
        after: u64,
        names_max: usize,
    ) -> Result<Vec<Pending>, StoreError> {
        let upstream = upstream.to_owned();
        self.read_blocking("pending", move |it| pending::page(it.0, &upstream, after, names_max))
            .await
    }

    async fn refuse(
        &self,
        upstream: &str,
        names: Vec<(GemName, Refusal)>,
    ) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        self.write("refuse", move |it| pending::refuse(it.0, &upstream, &names)).await
    }

    async fn standing(&self, upstream: &str, name: &GemName) -> Result<Standing, StoreError> {
        self.read("standing", |connection| pending::standing(connection, upstream, name))
    }

    async fn reconsider(&self) -> Result<(), StoreError> {
        self.write("reconsider", move |it| at_once(refusals::reconsider(it))).await
    }

    async fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> Result<Vec<(String, Refusal)>, StoreError> {
        self.read_once("refused", |it| at_once(refusals::refused(&Sqlite(it), upstream, names_max)))
    }

    async fn replaced(
        &self,
        upstream: &str,
        releases_max: usize,
    ) -> Result<Vec<ReplacedRelease>, StoreError> {
        self.read_once("replaced", |it| {
            at_once(statements::replaced::of_upstream(&Sqlite(it), upstream, releases_max))
        })
    }

    async fn accept(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> Result<Option<ReplacedRelease>, StoreError> {
        let (name, identity) = (name.clone(), identity.clone());
        self.write("accept", move |it| replaced::accept(it.0, &name, &identity)).await
    }

    async fn apply(
        &self,
        upstream: &str,
        gems: Vec<MirroredGem>,
        now: Timestamp,
    ) -> Result<Applied, StoreError> {
        let upstream = upstream.to_owned();
        self.write("apply", move |it| apply::apply(it.0, &upstream, gems, now)).await
    }

    async fn origins(&self, from: u64, names_max: usize) -> Result<Origins, StoreError> {
        self.read_blocking("origins", move |it| at_once(upstreams::origins(it, from, names_max)))
            .await
    }

    async fn delete_mirrored(&self, names: Vec<GemName>) -> Result<(), StoreError> {
        self.write("delete_mirrored", move |it| apply::delete_mirrored(it.0, &names)).await
    }

    async fn last_looks(&self, upstream: &str) -> Result<LastLooks, StoreError> {
        self.read_once("last_looks", |it| at_once(upstreams::last_looks(&Sqlite(it), upstream)))
    }

    async fn keep_looks(&self, upstream: &str, looks: LastLooks) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        self.write("keep_looks", move |it| at_once(upstreams::keep_looks(it, upstream, looks)))
            .await
    }

    async fn gone(&self, upstream: &str) -> Result<Gone, StoreError> {
        self.read_once("gone", |it| at_once(upstreams::gone(&Sqlite(it), upstream)))
    }

    async fn keep_gone(&self, upstream: &str, gone: Gone) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        self.write("keep_gone", move |it| at_once(upstreams::keep_gone(it, upstream, gone))).await
    }

    async fn counts(&self, upstream: &str) -> Result<MirrorCounts, StoreError> {
        let upstream = upstream.to_owned();
        self.read_blocking("counts", move |it| at_once(upstreams::counts(it, &upstream))).await
    }

    async fn mirrored(&self, full_name: &str) -> Result<Option<MirroredRelease>, StoreError> {
        self.read("mirrored", |connection| files::mirrored(connection, full_name))
    }

    async fn presence(&self, name: &GemName, identity: &Identity) -> Result<Presence, StoreError> {
        self.read("presence", |it| {
            at_once(statements::files::presence(&Sqlite(it), name, identity))
        })
    }

    async fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
    ) -> Result<(), StoreError> {
        let release = release.clone();
        self.write("keep_file", move |it| at_once(statements::files::keep(it, release, file))).await
    }

    async fn forget_file(&self, release: &MirroredRelease) -> Result<(), StoreError> {
        let release = release.clone();
        self.write("forget_file", move |it| at_once(statements::files::forget(it, release))).await
    }

    async fn missing_files(
        &self,
        upstream: &str,
        from: u64,
        releases_max: usize,
    ) -> Result<MissingFiles, StoreError> {
        let upstream = upstream.to_owned();
        self.read_blocking("missing_files", move |it| {
            at_once(statements::files::missing(it, &upstream, from, releases_max))
        })
        .await
    }

    async fn take_hooks(&self, hooks: Vec<NewHook>, waiting_max: u64) -> Result<Inbox, StoreError> {
        self.write("take_hooks", move |it| hooks::take(it.0, &hooks, waiting_max)).await
    }

    async fn due_hooks(
        &self,
        upstream: &str,
        now: Timestamp,
        hooks_max: usize,
    ) -> Result<Vec<Hook>, StoreError> {
        let upstream = upstream.to_owned();
        self.read_blocking("due_hooks", move |it| {
            at_once(statements::hooks::due(it, &upstream, now, hooks_max))
        })
        .await
    }

    async fn next_hook(&self, upstream: &str) -> Result<Option<Timestamp>, StoreError> {
        self.read_once("next_hook", |it| at_once(statements::hooks::next(&Sqlite(it), upstream)))
    }

    async fn drop_hooks_of_others(&self, upstreams: Vec<String>) -> Result<u64, StoreError> {
        self.write("drop_hooks_of_others", move |it| {
            at_once(statements::hooks::drop_others(it, upstreams))
        })
        .await
    }

    async fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> Result<(), StoreError> {
        self.write("settle_hooks", move |it| hooks::settle(it.0, &done, &later)).await
    }

    async fn waiting_hooks(&self) -> Result<u64, StoreError> {
        self.read_once("waiting_hooks", |it| at_once(statements::hooks::waiting(&Sqlite(it))))
    }
}

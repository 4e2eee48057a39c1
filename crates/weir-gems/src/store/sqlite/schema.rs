//! The tables, and the version of their format.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::{mirror, webhook_tables};
use crate::store::StoreError;

/// "weir", which identifies the file as Weir's.
const APPLICATION_ID: i64 = 0x7765_6972;
/// The current format: the number of [`STEPS`].
const FORMAT: i64 = 9;

/// Infos have 1.4 KiB on average and are stored next to each other; larger pages waste less space.
const PAGE_BYTES: i64 = 16_384;

/// Migrations from format N to N + 1. A released step never changes.
const STEPS: [&str; 9] = [
    FIRST,
    mirror::TABLES,
    webhook_tables::TABLES,
    DOWNLOADS,
    mirror::LAST_LOOKS,
    mirror::HOOKS_BY_UPSTREAM,
    mirror::GONE,
    mirror::POLICY,
    mirror::REPLACED,
];

/// Nothing counts downloads any more. A store of this format has the table.
const DOWNLOADS: &str = "
CREATE TABLE downloads (
    full_name TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

const FIRST: &str = "
CREATE TABLE gems (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    skeleton TEXT NOT NULL,
    -- Releases that are not yanked.
    live INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX gems_by_skeleton ON gems (skeleton);

CREATE TABLE releases (
    gem INTEGER NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    dependencies TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    ruby TEXT,
    rubygems TEXT,
    created_at INTEGER NOT NULL,
    yanked_at INTEGER,
    -- Of its file; NULL: the file is not here.
    bytes INTEGER,
    PRIMARY KEY (gem, number, platform)
) STRICT, WITHOUT ROWID;

-- What was pushed with a release: not read for lists.
CREATE TABLE specifications (
    gem INTEGER NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    gemspec_rz BLOB NOT NULL,
    about TEXT NOT NULL,
    PRIMARY KEY (gem, number, platform)
) STRICT;

-- What follows from releases, written whenever they change.
CREATE TABLE infos (
    gem INTEGER PRIMARY KEY,
    md5 BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    content BLOB NOT NULL
) STRICT;
CREATE TABLE fragments (
    gem INTEGER PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;
CREATE TABLE texts (
    kind INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    length INTEGER NOT NULL,
    md5 BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    -- Where the digests go on.
    state BLOB NOT NULL
) STRICT;
CREATE TABLE pieces (
    kind INTEGER NOT NULL,
    start INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (kind, start)
) STRICT;

CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
";

/// Creates the tables, or migrates them to the newest format.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let number = |connection: &Connection, name: &str| -> Result<i64, StoreError> {
        Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
    };
    let (id, found) = (number(connection, "application_id")?, number(connection, "user_version")?);
    let path = || path.display().to_string();
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if id != APPLICATION_ID && (id != 0 || tables != 0) {
        return Err(StoreError::Foreign { path: path(), found: id });
    }
    if found > FORMAT {
        return Err(StoreError::TooNew { path: path(), found, known: FORMAT });
    }
    if tables == 0 {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    if (id, found) == (APPLICATION_ID, FORMAT) {
        // Return without writing, so that a full disk does not prevent reading.
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated the file meanwhile.
    let found = number(&transaction, "user_version")?;
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

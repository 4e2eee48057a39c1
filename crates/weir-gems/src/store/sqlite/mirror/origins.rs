//! Stores which gems came from upstreams.

use rusqlite::{Connection, OptionalExtension};

/// Returns the upstream that a gem came from, or [`crate::store::mirror::NOBODY`]. Returns None if
/// it was pushed or imported here.
pub(super) fn origin(connection: &Connection, gem: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT upstream FROM origins WHERE gem = ?1")?
        .query_row([gem], |row| row.get(0))
        .optional()
}

/// Makes a name pending for all upstreams that list it.
pub(super) fn mark_pending(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE upstream_gems SET applied = NULL
             WHERE upstream IN (SELECT id FROM upstreams) AND name = ?1 AND applied IS NOT NULL",
        )?
        .execute([name])?;
    Ok(())
}

//! Whose names are whose: the policy that was in force last, and names that are ours without one.

use rusqlite::{Connection, OptionalExtension};

use crate::store::StoreError;
use crate::store::column::signed;

/// A row, or none.
pub(in crate::store::sqlite) const POLICY: &str = "
CREATE TABLE mirror_policy (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    rules TEXT NOT NULL
) STRICT;
";

pub(super) fn policy(connection: &Connection) -> Result<Option<String>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT rules FROM mirror_policy")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

pub(super) fn keep_policy(connection: &Connection, rules: Option<&str>) -> Result<(), StoreError> {
    connection.execute("DELETE FROM mirror_policy", [])?;
    if let Some(rules) = rules {
        connection.execute("INSERT INTO mirror_policy (id, rules) VALUES (1, ?1)", [rules])?;
    }
    Ok(())
}

pub(super) fn local_names(
    connection: &Connection,
    names_max: usize,
) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM gems WHERE id NOT IN (SELECT gem FROM origins) ORDER BY id LIMIT ?1",
    )?;
    let names = statement.query_map([signed(names_max)], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

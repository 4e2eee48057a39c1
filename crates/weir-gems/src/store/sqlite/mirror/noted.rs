//! Stores the content of upstreams' `/versions`, by name.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::store::StoreError;
use crate::store::database::at_once;
use crate::store::mirror::{Noted, Position};
use crate::store::sqlite::database::Sqlite;
use crate::store::statements::upstreams::{id, id_or_new, set_position};

pub(super) fn note(
    connection: &Connection,
    upstream: &str,
    noted: &[Noted],
    position: Option<Position>,
) -> Result<(), StoreError> {
    let database = Sqlite(connection);
    let upstream = at_once(id_or_new(&database, upstream))?;
    let mut sequence: i64 = connection
        .prepare_cached("SELECT sequence FROM upstreams WHERE id = ?1")?
        .query_row([upstream], |row| row.get(0))?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO upstream_gems (upstream, name, md5, sequence) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (upstream, name) DO UPDATE SET md5 = ?3, sequence = ?4
         WHERE md5 IS NOT ?3",
    )?;
    for Noted { name, md5 } in noted {
        sequence += 1;
        statement.execute(params![upstream, name.as_str(), md5, sequence])?;
    }
    connection
        .prepare_cached("UPDATE upstreams SET sequence = ?2 WHERE id = ?1")?
        .execute(params![upstream, sequence])?;
    if let Some(position) = position {
        at_once(set_position(&database, upstream, position))?;
    }
    Ok(())
}

pub(super) fn digests(
    connection: &Connection,
    upstream: &str,
) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError> {
    let Some(upstream) = at_once(id(&Sqlite(connection), upstream))? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(
        "SELECT name, md5 FROM upstream_gems WHERE upstream = ?1 AND md5 IS NOT NULL",
    )?;
    let mut rows = statement.query([upstream])?;
    let mut digests = BTreeMap::<Prefix, PrefixDigest>::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        digests.entry(Prefix::of(name)).or_default().add(name, row.get(1)?);
    }
    Ok(digests.into_iter().collect())
}

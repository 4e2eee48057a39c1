//! What upstreams' `/versions` say, name by name.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::upstreams::{id, id_or_new, set_position};
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::store::StoreError;
use crate::store::column::name;
use crate::store::mirror::{Noted, Position};

pub(super) fn note(
    connection: &Connection,
    upstream: &str,
    noted: &[Noted],
    position: Option<&Position>,
) -> Result<(), StoreError> {
    let upstream = id_or_new(connection, upstream)?;
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
        set_position(connection, upstream, position)?;
    }
    Ok(())
}

pub(super) fn digests(
    connection: &Connection,
    upstream: &str,
) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError> {
    let Some(upstream) = id(connection, upstream)? else { return Ok(Vec::new()) };
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

pub(super) fn of_prefix(
    connection: &Connection,
    upstream: &str,
    prefix: Prefix,
) -> Result<Vec<Noted>, StoreError> {
    let Some(upstream) = id(connection, upstream)? else { return Ok(Vec::new()) };
    // Names are ASCII: all that begin with a text lie between it and itself with DEL behind it.
    let bytes: Vec<u8> = prefix.0.into_iter().filter(|byte| *byte != 0).collect();
    let first = String::from_utf8_lossy(&bytes).into_owned();
    let mut statement = connection.prepare_cached(
        "SELECT name, md5 FROM upstream_gems
         WHERE upstream = ?1 AND name BETWEEN ?2 AND ?2 || char(127) AND md5 IS NOT NULL",
    )?;
    let mut rows = statement.query(params![upstream, first])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let name = name(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?;
        if Prefix::of(name.as_str()) == prefix {
            all.push(Noted { name, md5: row.get(1)? });
        }
    }
    Ok(all)
}

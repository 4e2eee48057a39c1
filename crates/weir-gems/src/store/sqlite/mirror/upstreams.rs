//! Upstreams as rows, and which gems came from them.

use rusqlite::{Connection, OptionalExtension, params};
use weir_base::clock::Timestamp;

use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::mirror::{Gone, LastLooks, MirrorCounts, Origins, Position};
use crate::store::sqlite::rows::Time;

/// The number of an upstream; None: nothing was noted of it.
pub(super) fn id(connection: &Connection, upstream: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM upstreams WHERE name = ?1")?
        .query_row([upstream], |row| row.get(0))
        .optional()
}

pub(super) fn id_or_new(connection: &Connection, upstream: &str) -> rusqlite::Result<i64> {
    if let Some(id) = id(connection, upstream)? {
        return Ok(id);
    }
    connection.execute("INSERT INTO upstreams (name, sequence) VALUES (?1, 0)", [upstream])?;
    Ok(connection.last_insert_rowid())
}

pub(super) fn position(
    connection: &Connection,
    upstream: &str,
) -> Result<Option<Position>, StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT length, state, overlap, etag FROM upstreams
             WHERE name = ?1 AND length IS NOT NULL",
        )?
        .query_row([upstream], |row| {
            Ok(Position {
                length: unsigned(row.get(0)?),
                digest_state: row.get(1)?,
                overlap: row.get(2)?,
                etag: row.get(3)?,
            })
        })
        .optional()?;
    Ok(found)
}

pub(super) fn set_position(
    connection: &Connection,
    upstream: i64,
    position: &Position,
) -> rusqlite::Result<()> {
    let Position { length, digest_state, overlap, etag } = position;
    connection
        .prepare_cached(
            "UPDATE upstreams SET length = ?2, state = ?3, overlap = ?4, etag = ?5 WHERE id = ?1",
        )?
        .execute(params![upstream, signed(*length), digest_state, overlap, etag])?;
    Ok(())
}

pub(super) fn last_looks(connection: &Connection, upstream: &str) -> Result<LastLooks, StoreError> {
    let found = connection
        .prepare_cached("SELECT complete_at, compared_at FROM upstreams WHERE name = ?1")?
        .query_row([upstream], |row| {
            let at = |column: usize| -> rusqlite::Result<Option<Timestamp>> {
                Ok(row.get::<_, Option<Time>>(column)?.map(|at| at.0))
            };
            Ok(LastLooks { complete: at(0)?, compared: at(1)? })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

pub(super) fn keep_looks(
    connection: &Connection,
    upstream: &str,
    looks: LastLooks,
) -> Result<(), StoreError> {
    let upstream = id_or_new(connection, upstream)?;
    connection
        .prepare_cached("UPDATE upstreams SET complete_at = ?2, compared_at = ?3 WHERE id = ?1")?
        .execute(params![upstream, looks.complete.map(Time), looks.compared.map(Time)])?;
    Ok(())
}

pub(super) fn gone(connection: &Connection, upstream: &str) -> Result<Gone, StoreError> {
    let found = connection
        .prepare_cached("SELECT gone_since, gone FROM upstreams WHERE name = ?1")?
        .query_row([upstream], |row| {
            let since = row.get::<_, Option<Time>>(0)?.map(|at| at.0);
            Ok(Gone { since, names: unsigned(row.get(1)?) })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

pub(super) fn keep_gone(
    connection: &Connection,
    upstream: &str,
    gone: Gone,
) -> Result<(), StoreError> {
    let upstream = id_or_new(connection, upstream)?;
    connection
        .prepare_cached("UPDATE upstreams SET gone_since = ?2, gone = ?3 WHERE id = ?1")?
        .execute(params![upstream, gone.since.map(Time), signed(gone.names)])?;
    Ok(())
}

pub(super) fn counts(connection: &Connection, upstream: &str) -> Result<MirrorCounts, StoreError> {
    let Some(id) = id(connection, upstream)? else { return Ok(MirrorCounts::default()) };
    let counts = connection
        .prepare_cached(
            "SELECT count(md5), count(*) FILTER (WHERE md5 IS NOT applied AND refusal IS NULL),
                    count(refusal),
                    (SELECT count(*) FROM replaced_releases JOIN origins USING (gem)
                     WHERE origins.upstream = ?1)
             FROM upstream_gems WHERE upstream = ?1",
        )?
        .query_row([id], |row| {
            Ok(MirrorCounts {
                names: unsigned(row.get(0)?),
                pending: unsigned(row.get(1)?),
                refused: unsigned(row.get(2)?),
                replaced: unsigned(row.get(3)?),
            })
        })?;
    Ok(counts)
}

pub(super) fn origins(
    connection: &Connection,
    from: u64,
    names_max: usize,
) -> Result<Origins, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT gem, gems.name, upstreams.name FROM origins
         JOIN gems ON gems.id = gem JOIN upstreams ON upstreams.id = upstream
         WHERE gem >= ?1 ORDER BY gem LIMIT ?2",
    )?;
    let mut rows = statement.query(params![signed(from), signed(names_max)])?;
    let (mut names, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        last = Some(unsigned(row.get(0)?));
        names.push((name(&row.get::<_, String>(1)?)?, row.get(2)?));
    }
    let is_full = names.len() == names_max;
    Ok(Origins { names, next: last.filter(|_| is_full).map(|last| last + 1) })
}

/// The upstream that a gem came from, or [`crate::store::mirror::NOBODY`]; None: it was pushed or imported here.
pub(super) fn origin(connection: &Connection, gem: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT upstream FROM origins WHERE gem = ?1")?
        .query_row([gem], |row| row.get(0))
        .optional()
}

/// The same by names; None: it comes from none.
pub(in crate::store::sqlite) fn origin_of(
    connection: &Connection,
    gem: &str,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached(
            "SELECT upstreams.name FROM gems JOIN origins ON origins.gem = gems.id
             JOIN upstreams ON upstreams.id = origins.upstream WHERE gems.name = ?1",
        )?
        .query_row([gem], |row| row.get(0))
        .optional()
}

/// From now on it comes from nowhere else.
pub(in crate::store::sqlite) fn make_local(
    connection: &Connection,
    gem: i64,
) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM origins WHERE gem = ?1")?.execute([gem])?;
    Ok(())
}

/// What upstreams say of a name is work again, of all of them.
pub(super) fn unapply(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE upstream_gems SET applied = NULL
             WHERE upstream IN (SELECT id FROM upstreams) AND name = ?1 AND applied IS NOT NULL",
        )?
        .execute([name])?;
    Ok(())
}

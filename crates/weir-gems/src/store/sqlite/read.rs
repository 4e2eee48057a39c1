//! Queries for readers.

use rusqlite::{Connection, OptionalExtension, params};

use super::info_cache::Position;
use crate::index::digest::Digests;
use crate::store::pieces::number;
use crate::store::{Info, StoreError, TextKind};

/// Returns an info, and the position of `/versions` in the same state: a single query sees one
/// state.
pub(super) fn info(
    connection: &Connection,
    name: &str,
) -> Result<(Position, Option<Info>), StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT generation, length, content, infos.md5, infos.sha256 FROM texts
             LEFT JOIN gems ON name = ?1 LEFT JOIN infos ON infos.gem = gems.id WHERE kind = ?2",
        )?
        .query_row(params![name, number(TextKind::Versions)], |row| {
            let position = Position { generation: row.get(0)?, length: row.get(1)? };
            let Some(content) = row.get::<_, Option<Vec<u8>>>(2)? else {
                return Ok((position, None));
            };
            let digests = Digests { md5: row.get(3)?, sha256: row.get(4)? };
            Ok((position, Some(Info { content: content.into(), digests })))
        })?;
    Ok(found)
}

pub(super) fn fragments(
    connection: &Connection,
    names: &[&str],
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT content FROM gems JOIN fragments ON fragments.gem = gems.id WHERE name = ?1",
    )?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let content = statement.query_row([name], |row| row.get(0)).optional()?;
        found.extend(content.map(|content| ((*name).to_owned(), content)));
    }
    Ok(found)
}

//! Queries for readers.

use rusqlite::{Connection, OptionalExtension, params};

use super::info_cache::Position;
use crate::index::digest::Digests;
use crate::store::column::signed;
use crate::store::pieces::number;
use crate::store::{FragmentPage, Info, StoreError, TextKind};

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

pub(super) fn fragment_page(
    connection: &Connection,
    from: u64,
    gems_max: usize,
) -> Result<FragmentPage, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT gem, name, content FROM fragments JOIN gems ON gems.id = gem
         WHERE gem >= ?1 ORDER BY gem LIMIT ?2",
    )?;
    let (from, limit) = (signed(from), signed(gems_max));
    let mut rows = statement.query(params![from, limit])?;
    let mut page = FragmentPage::default();
    let mut last = None;
    while let Some(row) = rows.next()? {
        last = row.get::<_, i64>(0).ok();
        page.gems.push((row.get(1)?, row.get(2)?));
    }
    let is_full = page.gems.len() == gems_max;
    page.next = last.filter(|_| is_full).and_then(|last| u64::try_from(last + 1).ok());
    Ok(page)
}

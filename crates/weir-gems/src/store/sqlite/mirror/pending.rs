//! Stores pending and rejected names.

use rusqlite::{Connection, OptionalExtension, params};

use super::lookalikes::resembles_ours;
use crate::mirror::upstream_name::UpstreamName;
use crate::name::GemName;
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::database::at_once;
use crate::store::mirror::{Noted, Owner, Pending, Refusal, Standing};
use crate::store::sqlite::database::Sqlite;
use crate::store::statements::upstreams::id;

const PAGE: &str = "SELECT sequence, name, md5 FROM upstream_gems
     WHERE upstream = ?1 AND sequence > ?2 AND md5 IS NOT applied AND refusal IS NULL
     ORDER BY sequence LIMIT ?3";

const OWNER: &str = "SELECT live > 0, origins.upstream, owners.name FROM gems
     LEFT JOIN origins ON origins.gem = gems.id
     LEFT JOIN upstreams AS owners ON owners.id = origins.upstream
     WHERE gems.name = ?1";

/// CROSS JOIN fixes the join order: otherwise SQLite scans all names for each name.
const LISTED_BY: &str = "SELECT upstreams.name FROM upstreams
     CROSS JOIN upstream_gems ON upstream_gems.upstream = upstreams.id AND upstream_gems.name = ?2
     WHERE upstreams.name <> ?1 AND md5 IS NOT NULL";

const IS_LISTED: &str = "SELECT 1 FROM upstreams
     CROSS JOIN upstream_gems ON upstream_gems.upstream = upstreams.id AND upstream_gems.name = ?2
     WHERE upstreams.name = ?1 AND md5 IS NOT NULL";

pub(super) fn page(
    connection: &Connection,
    upstream: &str,
    after: u64,
    names_max: usize,
) -> Result<Vec<Pending>, StoreError> {
    let Some(id) = at_once(id(&Sqlite(connection), upstream))? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(PAGE)?;
    let mut rows = statement.query(params![id, signed(after), signed(names_max)])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let name = name(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
        let standing = standing(connection, upstream, &name)?;
        let sequence = unsigned(row.get(0)?);
        let noted = Noted { name, md5: row.get(2)? };
        all.push(Pending { sequence, noted, standing });
    }
    Ok(all)
}

pub(super) fn standing(
    connection: &Connection,
    upstream: &str,
    name: &GemName,
) -> Result<Standing, StoreError> {
    let owner = connection.prepare_cached(OWNER)?.query_row([name.as_str()], |row| {
        let origin: Option<i64> = row.get(1)?;
        let owner = match row.get(2)? {
            Some(owner) => Owner::Upstream(owner),
            None if origin.is_some() => Owner::Nobody,
            None => Owner::Local,
        };
        Ok((owner, row.get(0)?))
    });
    let (owner, has_versions) = owner.optional()?.unwrap_or((Owner::Nobody, false));
    let mut statement = connection.prepare_cached(LISTED_BY)?;
    let names = statement.query_map([upstream, name.as_str()], |row| row.get(0))?;
    let listed_by = names.collect::<rusqlite::Result<_>>()?;
    let resembles_ours = resembles_ours(connection, name)?;
    Ok(Standing { owner, has_versions, resembles_ours, listed_by })
}

/// Returns whether one of these upstreams lists the name.
pub(super) fn is_listed_by(
    connection: &Connection,
    upstreams: &[UpstreamName],
    name: &GemName,
) -> rusqlite::Result<bool> {
    for upstream in upstreams {
        let mut statement = connection.prepare_cached(IS_LISTED)?;
        if statement.exists([upstream.as_str(), name.as_str()])? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn refuse(
    connection: &Connection,
    upstream: &str,
    names: &[(GemName, Refusal)],
) -> Result<(), StoreError> {
    let Some(upstream) = at_once(id(&Sqlite(connection), upstream))? else { return Ok(()) };
    let mut statement = connection.prepare_cached(
        "UPDATE upstream_gems SET refusal = ?3, applied = NULL WHERE upstream = ?1 AND name = ?2",
    )?;
    for (name, refusal) in names {
        statement.execute(params![upstream, name.as_str(), refusal.number()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::mirror::TABLES;
    use crate::store::sqlite::mirror::lookalikes::RESEMBLES;

    #[test]
    fn what_is_asked_for_each_name_reads_no_table_from_end_to_end() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE gems (id INTEGER PRIMARY KEY, name TEXT UNIQUE, skeleton TEXT, live INT);
                 CREATE INDEX gems_by_skeleton ON gems (skeleton)",
            )
            .unwrap();
        connection.execute_batch(TABLES).unwrap();
        for sql in [PAGE, OWNER, LISTED_BY, IS_LISTED, RESEMBLES] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let arguments = statement.parameter_count();
            let values = rusqlite::params_from_iter(vec![1; arguments]);
            let steps = statement.query_map(values, |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<_> = steps.map(Result::unwrap).collect();
            // Upstreams are few.
            let is_scan = |step: &&String| {
                step.starts_with("SCAN ") && !step.starts_with("SCAN upstreams")
                    || step.contains("TEMP B-TREE")
            };
            assert_eq!(steps.iter().find(is_scan), None, "{sql}: {steps:?}");
        }
    }
}

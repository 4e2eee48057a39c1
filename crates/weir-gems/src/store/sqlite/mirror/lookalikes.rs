//! Finds local names that others could be confused with.

use rusqlite::{Connection, OptionalExtension};

use crate::name::GemName;

/// Selects by the skeleton, which is indexed and equal for all names with the same folded form.
pub(super) const RESEMBLES: &str = "SELECT 1 FROM gems LEFT JOIN origins ON origins.gem = gems.id
     WHERE skeleton = ?1 AND gems.name <> ?2 AND replace(lower(gems.name), '_', '-') = ?3
       AND origins.gem IS NULL LIMIT 1";

/// Returns whether a name could be confused with another one that was pushed or imported here.
pub(super) fn resembles_ours(connection: &Connection, name: &GemName) -> rusqlite::Result<bool> {
    let found = connection
        .prepare_cached(RESEMBLES)?
        .query_row([name.skeleton(), name.to_string(), name.folded()], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

//! A copy of the file for a backup, while other processes use it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::store::StoreError;

/// Writes the state of the database at `path`, as of one transaction, to a new file `copy`. Writers
/// go on meanwhile; what they add stays in the write-ahead log until the copy is complete.
///
/// The copy is not synced. Blocks.
///
/// # Errors
/// The database can't be read, or `copy` exists or can't be written.
pub fn back_up(path: &Path, copy: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(super::connections::BUSY_TIMEOUT)?;
    connection.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{SqliteSettings, SqliteStore};
    use weir_base::clock::Timestamp;

    #[test]
    fn a_copy_opens_as_a_store_and_replaces_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, copy) = (folder.path().join("index.db"), folder.path().join("copy.db"));
        let opened = SqliteStore::open(&SqliteSettings::new(&path), Timestamp::default());
        let _store = opened.expect("opened");
        back_up(&path, &copy).expect("copied");
        let format = |path: &Path| -> i64 {
            let connection = Connection::open(path).expect("opened");
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number")
        };
        assert_eq!(format(&copy), format(&path));
        SqliteStore::open(&SqliteSettings::new(&copy), Timestamp::default()).expect("a store");
        assert!(back_up(&path, &copy).is_err(), "an existing file is not replaced");
    }
}

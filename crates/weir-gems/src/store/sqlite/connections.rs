//! Connections to the file: one for writing, and one per thread that reads concurrently.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{SqliteSettings, schema};
use crate::store::StoreError;

/// How long a write waits for another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of prepared statements to cache per connection; there are about 30.
const STATEMENTS: usize = 64;
/// Number of idle connections to keep. More are opened when more threads read at once.
const IDLE_READERS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Connections {
    path: PathBuf,
    reader_cache_bytes: u64,
    mapped_bytes: u64,
    /// A std mutex, held during a write, on blocking threads.
    writer: Mutex<Connection>,
    /// A std mutex: it is locked only to take or return a connection.
    idle: Mutex<Vec<Connection>>,
}

/// A connection for reading, which is returned when dropped.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    connection: Option<Connection>,
    home: &'a Mutex<Vec<Connection>>,
}

impl Connections {
    pub(super) fn open(settings: &SqliteSettings) -> Result<Self, StoreError> {
        let path = settings.path.clone();
        if let Some(folder) = path.parent() {
            let failed = |error| StoreError::Io { path: folder.display().to_string(), error };
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut writer = Connection::open(&path)?;
        schema::prepare(&mut writer, &path)?;
        // Acknowledged means durable: the log is synced with each commit.
        writer.pragma_update(None, "synchronous", "FULL")?;
        configure(&writer, settings.writer_cache_bytes)?;
        Ok(Self {
            path,
            reader_cache_bytes: settings.reader_cache_bytes,
            mapped_bytes: settings.mapped_bytes,
            writer: Mutex::new(writer),
            idle: Mutex::default(),
        })
    }

    /// Locks the connection for writing. If a writer panicked, its transaction was rolled back.
    pub(super) fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reader(&self) -> Result<Reader<'_>, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open_reader()?,
        };
        Ok(Reader { connection: Some(connection), home: &self.idle })
    }

    fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        configure(&connection, self.reader_cache_bytes)?;
        connection.pragma_update(None, "query_only", true)?;
        // Only for reading: SQLite writes with system calls, so that a full disk is an error and
        // not a signal.
        let mapped = i64::try_from(self.mapped_bytes).unwrap_or(i64::MAX);
        connection.pragma_update(None, "mmap_size", mapped)?;
        Ok(connection)
    }
}

fn configure(connection: &Connection, cache_bytes: u64) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans here don't depend on values. Otherwise SQLite plans each statement again for each
    // value, which is a third of the work of a read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Negative: KiB instead of pages.
    let cache = i64::try_from(cache_bytes / 1_024).unwrap_or(i64::MAX);
    connection.pragma_update(None, "cache_size", -cache)?;
    Ok(())
}

impl Deref for Reader<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut idle = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_READERS_MAX {
            idle.extend(self.connection.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(mapped_bytes: u64) -> (tempfile::TempDir, Connections) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = SqliteSettings::new(folder.path().join("index.db"));
        settings.mapped_bytes = mapped_bytes;
        let connections = Connections::open(&settings).expect("opened");
        (folder, connections)
    }

    #[test]
    fn readers_map_as_much_as_the_setting_says_and_the_writer_nothing() {
        for mapped_bytes in [0, 1 << 20, SqliteSettings::MAPPED_MAX] {
            let (_folder, connections) = opened(mapped_bytes);
            let of = |connection: &Connection| -> i64 {
                let value = connection.pragma_query_value(None, "mmap_size", |row| row.get(0));
                value.expect("a number")
            };
            let of_a_reader = of(&connections.reader().expect("a reader"));
            assert_eq!(u64::try_from(of_a_reader), Ok(mapped_bytes));
            assert_eq!(of(&connections.writer()), 0);
        }
    }

    /// Reads a file while it outgrows its mapping.
    #[test]
    fn what_lies_behind_the_mapped_part_is_read_all_the_same() {
        let (_folder, connections) = opened(256 << 10);
        for round in 0..64_i64 {
            let content = vec![u8::try_from(round).expect("small"); 40_000];
            connections
                .writer()
                .execute(
                    "INSERT INTO fragments (gem, content) VALUES (?1, ?2)",
                    rusqlite::params![round, content],
                )
                .expect("written");
            if round % 8 == 0 {
                let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
                connections.writer().query_row(checkpoint, [], |_| Ok(())).expect("moved");
            }
            let reader = connections.reader().expect("a reader");
            let mut read = reader
                .prepare_cached("SELECT gem, content FROM fragments ORDER BY gem")
                .expect("a statement");
            let all: Vec<(i64, Vec<u8>)> = read
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
                .and_then(Iterator::collect)
                .expect("read");
            assert_eq!(i64::try_from(all.len()), Ok(round + 1));
            assert!(
                all.iter()
                    .all(|(gem, content)| content.iter().all(|byte| i64::from(*byte) == *gem))
            );
        }
    }
}

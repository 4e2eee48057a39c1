//! Connections to the file: one that writes, and one for each thread that reads at the same time.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{SqliteSettings, schema};
use crate::store::StoreError;

/// How long a write waits for another process's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Statements that a connection keeps ready; there are about 30.
const STATEMENTS: usize = 64;
/// Connections that are kept for later reads. More are opened when more threads read at once.
const IDLE_READERS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Connections {
    path: PathBuf,
    reader_cache_bytes: u64,
    /// std: held for a write, on threads that may wait.
    writer: Mutex<Connection>,
    /// std: held to take or to give back.
    idle: Mutex<Vec<Connection>>,
}

/// A connection that reads, until it is given back by being dropped.
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
            writer: Mutex::new(writer),
            idle: Mutex::default(),
        })
    }

    /// The connection that writes. A writer that panicked has rolled back.
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
        Ok(connection)
    }
}

fn configure(connection: &Connection, cache_bytes: u64) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans don't depend on values here. Otherwise SQLite plans each statement anew for each value,
    // a third of the work of a read.
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

//! Implements the common database interface for SQLite.

use std::future::{Future, ready};

use rusqlite::types::{FromSql, Value as Owned, ValueRef};
use rusqlite::{CachedStatement, Connection};

use crate::store::StoreError;
use crate::store::database::{Column, Database, Row, Values, WritableDatabase};

/// A connection, or a transaction on one.
pub(super) struct Sqlite<'a>(pub(super) &'a Connection);

pub(super) struct SqliteRow(Vec<Owned>);

impl Sqlite<'_> {
    fn prepare(&self, sql: &str, values: Values<'_>) -> rusqlite::Result<CachedStatement<'_>> {
        // SQLite takes `$1` for a name and `?1` for a number, which needs no lookup.
        let mut statement = self.0.prepare_cached(&sql.replace('$', "?"))?;
        for (index, value) in (1..).zip(values) {
            statement.raw_bind_parameter(index, value)?;
        }
        Ok(statement)
    }

    fn rows(&self, sql: &str, values: Values<'_>) -> rusqlite::Result<Vec<SqliteRow>> {
        let mut statement = self.prepare(sql, values)?;
        let columns = statement.column_count();
        let mut rows = statement.raw_query();
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let columns = (0..columns).map(|column| row.get(column));
            all.push(SqliteRow(columns.collect::<rusqlite::Result<_>>()?));
        }
        Ok(all)
    }

    fn change(&self, sql: &str, values: Values<'_>) -> rusqlite::Result<u64> {
        Ok(self.prepare(sql, values)?.raw_execute()? as u64)
    }
}

impl Database for Sqlite<'_> {
    type Row = SqliteRow;

    fn query(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> impl Future<Output = Result<Vec<SqliteRow>, StoreError>> + Send {
        ready(self.rows(sql, values).map_err(StoreError::from))
    }

    fn execute(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        ready(self.change(sql, values).map_err(StoreError::from))
    }
}

impl WritableDatabase for Sqlite<'_> {
    const STORE_INFO: &'static str =
        "INSERT OR REPLACE INTO infos (gem, md5, sha256, content) VALUES ($1, $3, $4, $5)";
    const STORE_FRAGMENT: &'static str =
        "INSERT OR REPLACE INTO fragments (gem, content) VALUES ($1, $3)";
    const HAS_ITS_NAME: &'static str = "true";
}

impl Row for SqliteRow {
    fn get<T: Column>(&self, column: usize) -> Result<T, StoreError> {
        let value = self.0.get(column).map_or(ValueRef::Null, ValueRef::from);
        let read = <T as FromSql>::column_result(value);
        Ok(read.map_err(rusqlite::Error::from)?)
    }
}

impl Row for rusqlite::Row<'_> {
    fn get<T: Column>(&self, column: usize) -> Result<T, StoreError> {
        Ok(rusqlite::Row::get(self, column)?)
    }
}

//! The interface between statements and databases. SQL that both databases understand is written
//! once, in [`statements`](super::statements), with `$1` and so on as placeholders for values.
//!
//! SQLite statements never wait: their futures are ready at the first poll ([`at_once`]).

use std::future::Future;

use futures_util::FutureExt;
use rusqlite::types::FromSql as FromSqlite;
use tokio_postgres::types::FromSql as FromPostgres;
use weir_base::clock::Timestamp;

use super::StoreError;
use super::column::{signed, unsigned};
use crate::platform::Platform;
use crate::release::Identity;
use crate::version::Version;

/// A value that both databases accept.
pub(super) trait Value: rusqlite::ToSql + tokio_postgres::types::ToSql {}

impl<T: rusqlite::ToSql + tokio_postgres::types::ToSql + ?Sized> Value for T {}

/// The values of a statement: `$1` is the first.
pub(super) type Values<'a> = &'a [&'a (dyn Value + Sync)];

/// A type that columns of both databases can be read as.
pub(super) trait Column: FromSqlite + for<'a> FromPostgres<'a> {}

impl<T: FromSqlite + for<'a> FromPostgres<'a>> Column for T {}

/// A row of a statement's result.
pub(super) trait Row {
    fn get<T: Column>(&self, column: usize) -> Result<T, StoreError>;

    /// Returns a number that is never negative.
    fn number(&self, column: usize) -> Result<u64, StoreError> {
        self.get(column).map(unsigned)
    }

    fn time(&self, column: usize) -> Result<Option<Timestamp>, StoreError> {
        let micros: Option<i64> = self.get(column)?;
        Ok(micros.map(|micros| Timestamp::from_micros(unsigned(micros))))
    }

    /// Returns a digest of `N` bytes.
    fn digest<const N: usize>(&self, column: usize) -> Result<[u8; N], StoreError> {
        let bytes: Vec<u8> = self.get(column)?;
        let length = bytes.len();
        let wrong = |_| StoreError::Damaged(format!("a digest has {length} bytes instead of {N}"));
        bytes.try_into().map_err(wrong)
    }

    /// Returns a release's number and platform from two columns, without validating them again.
    fn identity(&self, first: usize) -> Result<Identity, StoreError> {
        Ok(Identity {
            number: Version::from_checked(self.get(first)?),
            platform: Platform::from_checked(self.get(first + 1)?),
        })
    }
}

/// A connection, or a transaction on one.
pub(super) trait Database {
    type Row: Row;

    /// Runs a statement and returns all rows of its result.
    fn query(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send;

    /// Runs a statement and returns the number of rows that it changed.
    fn execute(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

/// A transaction that may change the index.
pub(super) trait WritableDatabase: Database {
    /// Replaces an info. The values are the gem's id, its name, which only Postgres stores with the
    /// info, MD5, SHA-256 and the content.
    const STORE_INFO: &'static str;
    /// Replaces a fragment. The values are the gem's id, its name and the content.
    const STORE_FRAGMENT: &'static str;
    /// Whether the stored info and fragment of a gem have its name, as an expression.
    const HAS_ITS_NAME: &'static str;
}

/// Runs a statement and returns the first row of its result, if there is one.
pub(super) async fn query_one<D: Database>(
    database: &D,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<D::Row>, StoreError> {
    Ok(database.query(sql, values).await?.into_iter().next())
}

/// Converts a time to microseconds, as stored in columns.
pub(super) fn micros(time: Timestamp) -> i64 {
    signed(time.as_micros())
}

/// Returns the result of a future that is ready at its first poll.
pub(super) fn at_once<T>(asked: impl Future<Output = T>) -> T {
    asked.now_or_never().expect("SQLite answers at once")
}

//! The seam between statements and databases. What both of them understand alike is written once, in
//! [`statements`](super::statements); texts of statements have `$1` and so on in the place of values.
//!
//! In SQLite statements never wait: what is asked of it is there when it is first polled ([`at_once`]).

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

/// What both databases take as a value.
pub(super) trait Value: rusqlite::ToSql + tokio_postgres::types::ToSql {}

impl<T: rusqlite::ToSql + tokio_postgres::types::ToSql + ?Sized> Value for T {}

/// The values of a statement: `$1` is the first.
pub(super) type Values<'a> = &'a [&'a (dyn Value + Sync)];

/// What columns of both databases are read as.
pub(super) trait Column: FromSqlite + for<'a> FromPostgres<'a> {}

impl<T: FromSqlite + for<'a> FromPostgres<'a>> Column for T {}

/// What a statement answers.
pub(super) trait Row {
    fn get<T: Column>(&self, column: usize) -> Result<T, StoreError>;

    /// A number that is never negative.
    fn number(&self, column: usize) -> Result<u64, StoreError> {
        self.get(column).map(unsigned)
    }

    fn time(&self, column: usize) -> Result<Option<Timestamp>, StoreError> {
        let micros: Option<i64> = self.get(column)?;
        Ok(micros.map(|micros| Timestamp::from_micros(unsigned(micros))))
    }

    /// A digest of `N` bytes.
    fn digest<const N: usize>(&self, column: usize) -> Result<[u8; N], StoreError> {
        let bytes: Vec<u8> = self.get(column)?;
        let length = bytes.len();
        let wrong = |_| StoreError::Damaged(format!("a digest has {length} bytes instead of {N}"));
        bytes.try_into().map_err(wrong)
    }

    /// A release's number and platform, in two columns. What was checked when it was written is not
    /// checked again.
    fn identity(&self, first: usize) -> Result<Identity, StoreError> {
        Ok(Identity {
            number: Version::from_checked(self.get(first)?),
            platform: Platform::from_checked(self.get(first + 1)?),
        })
    }
}

/// A connection, or a transaction of one.
pub(super) trait Database {
    type Row: Row;

    /// All rows that a statement answers.
    fn query(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send;

    /// How many rows a statement changes.
    fn execute(
        &self,
        sql: &str,
        values: Values<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

/// The first row that a statement answers, if there is one.
pub(super) async fn query_one<D: Database>(
    database: &D,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<D::Row>, StoreError> {
    Ok(database.query(sql, values).await?.into_iter().next())
}

/// As columns have it: microseconds.
pub(super) fn micros(time: Timestamp) -> i64 {
    signed(time.as_micros())
}

/// What is asked of a database that does not wait.
pub(super) fn at_once<T>(asked: impl Future<Output = T>) -> T {
    asked.now_or_never().expect("SQLite answers at once")
}

//! Implements the common database interface for Postgres.

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use super::pool::Lease;
use crate::store::StoreError;
use crate::store::database::{Column, Database, Row, Values, WritableDatabase};

type PostgresRow = tokio_postgres::Row;

async fn query(
    client: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<Vec<PostgresRow>, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, &own(values)).await?)
}

async fn execute(
    client: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<u64, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, &own(values)).await?)
}

fn own<'a>(values: Values<'a>) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| *value as &(dyn ToSql + Sync)).collect()
}

impl Database for Transaction<'_> {
    type Row = PostgresRow;

    async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<PostgresRow>, StoreError> {
        query(self, sql, values).await
    }

    async fn execute(&self, sql: &str, values: Values<'_>) -> Result<u64, StoreError> {
        execute(self, sql, values).await
    }
}

impl Database for Lease {
    type Row = PostgresRow;

    async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<PostgresRow>, StoreError> {
        query(self.client(), sql, values).await
    }

    async fn execute(&self, sql: &str, values: Values<'_>) -> Result<u64, StoreError> {
        execute(self.client(), sql, values).await
    }
}

impl WritableDatabase for Transaction<'_> {
    const STORE_INFO: &'static str = "INSERT INTO infos (gem, name, md5, sha256, content)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (gem) DO UPDATE SET name = excluded.name, md5 = excluded.md5,
             sha256 = excluded.sha256, content = excluded.content";
    const STORE_FRAGMENT: &'static str = "INSERT INTO fragments (gem, name, content)
         VALUES ($1, $2, $3)
         ON CONFLICT (gem) DO UPDATE SET name = excluded.name, content = excluded.content";
    const HAS_ITS_NAME: &'static str = "infos.name = gems.name AND fragments.name = gems.name";
}

impl Row for PostgresRow {
    fn get<T: Column>(&self, column: usize) -> Result<T, StoreError> {
        Ok(self.try_get(column)?)
    }
}

//! Implements the common database interface for Postgres.

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use super::pool::Lease;
use crate::store::StoreError;
use crate::store::database::{Column, Database, Row, Values};

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

impl Row for PostgresRow {
    fn get<T: Column>(&self, column: usize) -> Result<T, StoreError> {
        Ok(self.try_get(column)?)
    }
}

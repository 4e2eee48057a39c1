//! The schema, and its tables in the newest format.

use std::time::Duration;

use refinery::error::Kind;
use refinery::{Migration, Runner};
use weir_base::clock::Timestamp;

use super::pool::Lease;
use super::settings::for_server;
use super::{SchemaName, index};
use crate::store::StoreError;
use crate::store::column::signed;

/// What makes format N out of format N - 1. A step that was released never changes.
const STEPS: [(&str, &str); 9] = [
    ("V1__gems", include_str!("migrations/V1__gems.sql")),
    ("V2__webhooks", include_str!("migrations/V2__webhooks.sql")),
    ("V3__mirror", include_str!("migrations/V3__mirror.sql")),
    ("V4__downloads", include_str!("migrations/V4__downloads.sql")),
    ("V5__last_looks", include_str!("migrations/V5__last_looks.sql")),
    ("V6__hooks_by_upstream", include_str!("migrations/V6__hooks_by_upstream.sql")),
    ("V7__gone", include_str!("migrations/V7__gone.sql")),
    ("V8__mirror_policy", include_str!("migrations/V8__mirror_policy.sql")),
    ("V9__replaced", include_str!("migrations/V9__replaced.sql")),
];
/// Where is written which of them were taken.
const TABLE: &str = "formats";
/// "weir", with the number of what is locked. Beside it the schema is in the lock.
const PREPARE_LOCK: i32 = 0x7765_6900;

/// Makes what is missing, one process at a time. The connection is to be closed afterwards: it has
/// the lock, and timeouts of its own.
pub(super) async fn prepare(
    lease: &mut Lease,
    schema: &SchemaName,
    time: Duration,
    now: Timestamp,
) -> Result<(), StoreError> {
    let time = for_server(time);
    let begin = format!(
        "SET statement_timeout = {time}; SET lock_timeout = {time};
         SELECT pg_advisory_lock({PREPARE_LOCK}, hashtext('{schema}'))"
    );
    lease.batch_execute(&begin).await?;
    make_schema(lease, schema).await?;
    let client: &mut tokio_postgres::Client = lease;
    runner()?.run_async(client).await.map_err(|error| of_steps(&error, schema))?;
    let transaction = lease.transaction().await?;
    index::begin_if_missing(&transaction, now).await?;
    Ok(transaction.commit().await?)
}

/// Only if it is missing: who may not make schemas may use one that somebody has made.
async fn make_schema(lease: &Lease, schema: &SchemaName) -> Result<(), StoreError> {
    let row = lease
        .query_one(
            "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
                    current_setting('server_encoding')",
            &[&schema.as_str()],
        )
        .await?;
    let encoding: String = row.try_get(1)?;
    if encoding != "UTF8" {
        let text = format!("the database's encoding is {encoding}; make one with encoding UTF8");
        return Err(StoreError::Engine(text.into()));
    }
    if !row.try_get::<_, bool>(0)? {
        lease.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    Ok(())
}

fn runner() -> Result<Runner, StoreError> {
    let mut steps = Vec::with_capacity(STEPS.len());
    for (name, sql) in STEPS {
        let step = Migration::unapplied(name, sql);
        steps.push(step.map_err(|error| StoreError::Engine(Box::new(error)))?);
    }
    let mut runner = Runner::new(&steps);
    runner.set_migration_table_name(TABLE);
    Ok(runner)
}

fn of_steps(error: &refinery::Error, schema: &SchemaName) -> StoreError {
    let path = format!("in the schema {schema} of Postgres");
    let known = signed(STEPS.len());
    match error.kind() {
        Kind::MissingVersion(step) if i64::from(step.version()) > known => {
            StoreError::TooNew { path, found: i64::from(step.version()), known }
        }
        Kind::MissingVersion(step) | Kind::DivergentVersion(step, _) => StoreError::Damaged(
            format!("{path} the step {step} was taken, which is none of this Weir's"),
        ),
        Kind::Connection(_, error) => match error.downcast_ref::<tokio_postgres::Error>() {
            Some(error) => super::failure::of(error),
            None => StoreError::Engine(error.to_string().into()),
        },
        _ => StoreError::Engine(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_from_one() {
        let runner = runner().unwrap();
        let versions: Vec<_> = runner.get_migrations().iter().map(Migration::version).collect();
        let expected: Vec<i32> = (1..).take(STEPS.len()).collect();
        assert_eq!(versions, expected);
    }
}

//! Creates the schema, and migrates its tables to the newest format.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use weir_base::clock::Timestamp;

use super::SchemaName;
use super::pool::Lease;
use super::settings::for_server;
use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::statements::index;

/// A migration from the previous format.
struct Step {
    number: i32,
    name: &'static str,
    sql: &'static str,
}

/// Migrations in order. A released step never changes.
const STEPS: [Step; 9] = [
    Step { number: 1, name: "gems", sql: include_str!("migrations/V1__gems.sql") },
    Step { number: 2, name: "webhooks", sql: include_str!("migrations/V2__webhooks.sql") },
    Step { number: 3, name: "mirror", sql: include_str!("migrations/V3__mirror.sql") },
    Step { number: 4, name: "downloads", sql: include_str!("migrations/V4__downloads.sql") },
    Step { number: 5, name: "last_looks", sql: include_str!("migrations/V5__last_looks.sql") },
    Step {
        number: 6,
        name: "hooks_by_upstream",
        sql: include_str!("migrations/V6__hooks_by_upstream.sql"),
    },
    Step { number: 7, name: "gone", sql: include_str!("migrations/V7__gone.sql") },
    Step {
        number: 8,
        name: "mirror_policy",
        sql: include_str!("migrations/V8__mirror_policy.sql"),
    },
    Step { number: 9, name: "replaced", sql: include_str!("migrations/V9__replaced.sql") },
];
/// The applied migrations. Columns and checksums are those of refinery 0.10, which earlier versions
/// of Weir used: they can still open a schema whose format they know.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS formats(
    version int4 PRIMARY KEY, name varchar(255), applied_on varchar(255), checksum varchar(255))";
const APPLIED: &str = "SELECT version, name, checksum FROM formats ORDER BY version";
const RECORD: &str = "INSERT INTO formats (version, name, applied_on, checksum) VALUES
    ($1, $2, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), $3)";
/// First number of the advisory lock: "wei", followed by a byte for the kind. The second number is
/// the schema.
const PREPARE_LOCK: i32 = 0x7765_6900;

/// Creates what is missing, in one process at a time. Close the connection afterwards: it holds the
/// lock and has other timeouts.
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
    apply_missing(lease, schema).await?;
    let transaction = lease.transaction().await?;
    index::begin_if_missing(&transaction, now).await?;
    Ok(transaction.commit().await?)
}

/// Creates the schema only if it is missing, so that a user without the right to create schemas can
/// use an existing one.
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

/// Applies missing migrations, each in a transaction with its record.
async fn apply_missing(lease: &mut Lease, schema: &SchemaName) -> Result<(), StoreError> {
    lease.batch_execute(TABLE).await?;
    let mut applied = 0;
    for row in lease.query(APPLIED, &[]).await? {
        let (number, name) = (row.try_get(0)?, row.try_get(1)?);
        let (name, checksum): (String, String) = (name, row.try_get(2)?);
        check(schema, applied + 1, number, &name, &checksum)?;
        applied = number;
    }
    for step in STEPS.iter().filter(|step| step.number > applied) {
        let transaction = lease.transaction().await?;
        transaction.batch_execute(step.sql).await?;
        let checksum = step.checksum().to_string();
        transaction.execute(RECORD, &[&step.number, &step.name, &checksum]).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Checks that an applied migration is the one that this version of Weir has as number `expected`.
fn check(
    schema: &SchemaName,
    expected: i32,
    number: i32,
    name: &str,
    checksum: &str,
) -> Result<(), StoreError> {
    let path = format!("in the schema {schema} of Postgres");
    let known = signed(STEPS.len());
    if i64::from(number) > known {
        return Err(StoreError::TooNew { path, found: i64::from(number), known });
    }
    let is_known = |step: &Step| {
        step.number == number && step.name == name && step.checksum().to_string() == checksum
    };
    if number == expected && STEPS.iter().any(is_known) {
        return Ok(());
    }
    Err(StoreError::Damaged(format!(
        "{path} the step V{number}__{name} was taken, which is none of this Weir's"
    )))
}

impl Step {
    /// Returns the checksum as refinery 0.10 computes it: SipHash 1-3 of name, number and text,
    /// each as `Hash` writes it.
    fn checksum(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        self.name.hash(&mut hasher);
        self.number.hash(&mut hasher);
        self.sql.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_from_one() {
        let numbers: Vec<_> = STEPS.iter().map(|step| step.number).collect();
        let expected: Vec<i32> = (1..).take(STEPS.len()).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn checksums_are_those_that_earlier_versions_wrote() {
        let computed: Vec<_> = STEPS.iter().map(Step::checksum).collect();
        let written = [
            7_951_649_543_906_471_700,
            17_079_405_065_321_295_504,
            7_390_577_943_923_763_082,
            5_060_988_752_681_283_578,
            4_973_470_618_444_355_990,
            10_741_149_378_984_089_940,
            5_045_280_479_116_996_216,
            11_969_323_478_967_594_745,
            3_727_647_261_668_473_797,
        ];
        assert_eq!(computed, written);
    }
}

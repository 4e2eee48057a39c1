//! Writes the derived data of many gems at once.

use deadpool_postgres::Transaction;

use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::derived::Derived;

/// Replaces the derived data of gems.
#[derive(Default)]
pub(super) struct Replacing<'a> {
    gems: Vec<i64>,
    names: Vec<&'a str>,
    live: Vec<i64>,
    md5: Vec<Vec<u8>>,
    sha256: Vec<Vec<u8>>,
    infos: Vec<Vec<u8>>,
    fragments: Vec<Vec<u8>>,
}

impl<'a> Replacing<'a> {
    pub(super) fn add(&mut self, gem: i64, name: &'a str, derived: Derived, live: usize) {
        self.gems.push(gem);
        self.names.push(name);
        self.live.push(signed(live));
        self.md5.push(derived.digests.md5.to_vec());
        self.sha256.push(derived.digests.sha256.to_vec());
        self.infos.push(derived.info.into_bytes());
        self.fragments.push(derived.fragment);
    }

    pub(super) async fn write(self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        if self.gems.is_empty() {
            return Ok(());
        }
        let statement = transaction
            .prepare_cached(
                "INSERT INTO infos (gem, name, md5, sha256, content)
                 SELECT * FROM
                     unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[])
                 ON CONFLICT (gem) DO UPDATE SET name = excluded.name, md5 = excluded.md5,
                     sha256 = excluded.sha256, content = excluded.content",
            )
            .await?;
        transaction
            .execute(&statement, &[&self.gems, &self.names, &self.md5, &self.sha256, &self.infos])
            .await?;
        let statement = transaction
            .prepare_cached(
                "INSERT INTO fragments (gem, name, content)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
                 ON CONFLICT (gem) DO UPDATE SET name = excluded.name, content = excluded.content",
            )
            .await?;
        transaction.execute(&statement, &[&self.gems, &self.names, &self.fragments]).await?;
        let statement = transaction
            .prepare_cached(
                "UPDATE gems SET live = new.live
                 FROM unnest($1::bigint[], $2::bigint[]) AS new (gem, live)
                 WHERE gems.id = new.gem",
            )
            .await?;
        transaction.execute(&statement, &[&self.gems, &self.live]).await?;
        Ok(())
    }
}

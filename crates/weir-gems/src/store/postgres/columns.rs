//! Passes many rows to one statement, as arrays of columns.

use deadpool_postgres::Transaction;
use hashbrown::HashMap;
use tokio_postgres::types::ToSql;
use weir_base::clock::Timestamp;

use super::rows::micros;
use crate::name::GemName;
use crate::release::{Identity, Release, RequirementLine};
use crate::store::StoreError;

/// A parameter of a statement.
type Parameter<'a> = &'a (dyn ToSql + Sync);

/// Columns of releases.
#[derive(Default)]
pub(super) struct ReleaseColumns<'a> {
    keys: KeyColumns<'a>,
    dependencies: Vec<&'a str>,
    sha256: Vec<&'a [u8]>,
    ruby: Vec<Option<&'a str>>,
    rubygems: Vec<Option<&'a str>>,
    created_at: Vec<i64>,
}

impl<'a> ReleaseColumns<'a> {
    /// The columns as a table, in a statement with [`Self::parameters`]: the gem's id, and the
    /// columns of [`super::rows::RELEASE`].
    pub(super) const TABLE: &'static str =
        "unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[],
                $7::text[], $8::bigint[])
         AS new (gem, number, platform, dependencies, sha256, ruby, rubygems, created_at)";

    pub(super) fn add(&mut self, gem: i64, release: &'a Release) {
        self.keys.add(gem, &release.identity);
        self.dependencies.push(release.dependencies.as_str());
        self.sha256.push(&release.checksum.0);
        self.ruby.push(release.ruby.as_ref().map(RequirementLine::as_str));
        self.rubygems.push(release.rubygems.as_ref().map(RequirementLine::as_str));
        self.created_at.push(micros(release.created_at));
    }

    pub(super) fn len(&self) -> usize {
        self.keys.gems.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 8] {
        let [gems, numbers, platforms] = self.keys.parameters();
        [
            gems,
            numbers,
            platforms,
            &self.dependencies,
            &self.sha256,
            &self.ruby,
            &self.rubygems,
            &self.created_at,
        ]
    }
}

/// Columns of the keys of releases.
#[derive(Default)]
pub(super) struct KeyColumns<'a> {
    gems: Vec<i64>,
    numbers: Vec<&'a str>,
    platforms: Vec<&'a str>,
}

impl<'a> KeyColumns<'a> {
    /// The columns as a table, in a statement with [`Self::parameters`].
    pub(super) const TABLE: &'static str =
        "unnest($1::bigint[], $2::text[], $3::text[]) AS key (gem, number, platform)";

    pub(super) fn add(&mut self, gem: i64, identity: &'a Identity) {
        self.gems.push(gem);
        self.numbers.push(identity.number.as_str());
        self.platforms.push(identity.platform.as_str());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gems.is_empty()
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 3] {
        [&self.gems, &self.numbers, &self.platforms]
    }
}

/// Adds gems in this order and returns their ids.
pub(super) async fn add_gems(
    transaction: &Transaction<'_>,
    names: &[&GemName],
    now: Timestamp,
) -> Result<HashMap<String, i64>, StoreError> {
    let (names, skeletons): (Vec<_>, Vec<_>) =
        names.iter().map(|name| (name.as_str(), name.skeleton())).unzip();
    let statement = transaction
        .prepare_cached(
            "INSERT INTO gems (name, skeleton, live, created_at)
             SELECT name, skeleton, 0, $3 FROM unnest($1::text[], $2::text[])
                 WITH ORDINALITY AS new (name, skeleton, place) ORDER BY place
             RETURNING name, id",
        )
        .await?;
    let mut added = HashMap::with_capacity(names.len());
    for row in transaction.query(&statement, &[&names, &skeletons, &micros(now)]).await? {
        added.insert(row.try_get(0)?, row.try_get(1)?);
    }
    Ok(added)
}

//! Detects releases that can't be added because their file would have the name of another gem's
//! file.

use deadpool_postgres::Transaction;
use hashbrown::HashSet;

use super::apply::Taken;
use super::changed::Stored;
use crate::release::{Identity, Release};
use crate::store::cuts::{cuts, may_clash};
use crate::store::{ImportedGem, StoreError};

/// Possible splits of full names into releases of other gems, as columns.
#[derive(Default)]
struct Readings {
    full_names: Vec<String>,
    names: Vec<String>,
    numbers: Vec<String>,
    platforms: Vec<String>,
}

/// Removes new releases whose file would have the name of another gem's file. Existing releases
/// keep their file name; of several new ones, the first gets it. Returns the number of removed
/// releases.
pub(super) async fn leave_out(
    transaction: &Transaction<'_>,
    taken: &mut [Taken],
    stored: &Stored,
) -> Result<u64, StoreError> {
    let mut readings = Readings::default();
    for Taken { gem, name, wanted, .. } in taken.iter() {
        let known = known(stored, gem.id);
        for release in wanted.iter().filter(|it| !known.contains(&it.identity)) {
            readings.add(name.as_str(), format!("{name}-{}", release.identity));
        }
    }
    let mut files = readings.stored(transaction).await?;
    let mut left_out = 0;
    for Taken { gem, name, wanted, .. } in taken {
        let (known, before) = (known(stored, gem.id), wanted.len());
        wanted.retain(|Release { identity, .. }| {
            known.contains(identity) || files.insert(format!("{name}-{identity}"))
        });
        left_out += (before - wanted.len()) as u64;
    }
    Ok(left_out)
}

/// Like [`leave_out`], for imported gems.
pub(in crate::store::postgres) async fn leave_out_imported(
    transaction: &Transaction<'_>,
    gems: &mut [&mut ImportedGem],
) -> Result<u64, StoreError> {
    let mut readings = Readings::default();
    for ImportedGem { name, releases } in gems.iter().map(|gem| &**gem) {
        for Release { identity, .. } in releases {
            if may_clash(name.as_str(), identity) {
                readings.add(name.as_str(), format!("{name}-{identity}"));
            }
        }
    }
    let mut files = readings.stored(transaction).await?;
    let mut left_out = 0;
    for ImportedGem { name, releases } in gems.iter_mut().map(|gem| &mut **gem) {
        let before = releases.len();
        releases.retain(|Release { identity, .. }| {
            !may_clash(name.as_str(), identity) || files.insert(format!("{name}-{identity}"))
        });
        left_out += (before - releases.len()) as u64;
    }
    Ok(left_out)
}

fn known(stored: &Stored, gem: i64) -> HashSet<&Identity> {
    let releases = stored.get(&gem).into_iter().flatten();
    releases.map(|it| &it.release.identity).collect()
}

impl Readings {
    fn add(&mut self, name: &str, full_name: String) {
        for cut in cuts(&full_name).filter(|cut| cut.name != name) {
            self.full_names.push(full_name.clone());
            self.names.push(cut.name.to_owned());
            self.numbers.push(cut.identity.number.as_str().to_owned());
            self.platforms.push(cut.identity.platform.as_str().to_owned());
        }
    }

    /// Returns the full names that are also those of an existing release, yanked or not.
    async fn stored(self, transaction: &Transaction<'_>) -> Result<HashSet<String>, StoreError> {
        if self.names.is_empty() {
            return Ok(HashSet::new());
        }
        let statement = transaction
            .prepare_cached(
                "SELECT full_name FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
                     AS cut (full_name, name, number, platform)
                 JOIN gems ON gems.name = cut.name
                 JOIN releases ON releases.gem = gems.id AND releases.number = cut.number
                      AND releases.platform = cut.platform",
            )
            .await?;
        let rows = transaction
            .query(&statement, &[&self.full_names, &self.names, &self.numbers, &self.platforms])
            .await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }
}

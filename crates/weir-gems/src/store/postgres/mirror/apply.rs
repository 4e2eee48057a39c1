//! Applies an upstream's gems: several in each transaction, including their index.

use deadpool_postgres::Transaction;
use weir_base::clock::Timestamp;

use super::earlier::listed_earlier;
use super::lookalikes::Ours;
use super::origins::mark_pending;
use super::settled::Settled;
use super::{changed, clashes, replaced};
use crate::name::GemName;
use crate::release::Release;
use crate::store::StoreError;
use crate::store::column::unsigned;
use crate::store::mirror::{Applied, Changes, MirroredGem, Noted, Refusal};
use crate::store::postgres::analyze::has_doubled;
use crate::store::postgres::columns::add_gems;
use crate::store::postgres::indexing::Indexing;
use crate::store::postgres::rows::{self, Gem, KnownGem};
use crate::store::statements::upstreams::id_or_new;

pub(super) struct Done {
    pub(super) applied: Applied,
    /// Whether the number of gems has doubled.
    pub(super) has_doubled: bool,
}

/// A gem to take, with the upstream's releases.
pub(super) struct Taken {
    pub(super) gem: Gem,
    pub(super) name: GemName,
    pub(super) wanted: Vec<Release>,
    /// The previous upstream, or `NOBODY`; None if there was no such gem.
    origin: Option<i64>,
}

/// A gem whose releases change.
pub(super) struct Changing {
    pub(super) gem: Gem,
    pub(super) name: GemName,
    pub(super) changes: Changes,
}

pub(super) async fn apply(
    transaction: &Transaction<'_>,
    upstream: String,
    gems: Vec<MirroredGem>,
    now: Timestamp,
) -> Result<Done, StoreError> {
    let upstream = id_or_new(transaction, &upstream).await?;
    let mut applied = Applied::default();
    let mut settled = Settled::default();
    let mut taken = take(transaction, gems, now, &mut applied, &mut settled).await?;
    let has_doubled = own(transaction, upstream, &taken).await?;
    let mut stored = changed::stored(transaction, &taken).await?;
    applied.clashing = clashes::leave_out(transaction, &mut taken, &stored).await?;
    let known: Vec<i64> =
        taken.iter().filter(|it| it.origin.is_some()).map(|it| it.gem.id).collect();
    let mut pins = replaced::pins(transaction, &known).await?;
    let (mut changing, mut kept_out) = (Vec::new(), Vec::new());
    for Taken { gem, name, wanted, origin } in taken {
        let stored = stored.remove(&gem.id).unwrap_or_default();
        let pins = pins.remove(&gem.id).unwrap_or_default();
        let mut changes = Changes::between(&stored, &pins, wanted, now);
        applied.count(&changes);
        kept_out.extend(std::mem::take(&mut changes.kept_out).into_iter().map(|it| (gem.id, it)));
        // A new gem gets an info even if none of its releases is taken.
        if !changes.is_empty() || origin.is_none() {
            changing.push(Changing { gem, name, changes });
        }
    }
    changed::write(transaction, &changing).await?;
    replaced::keep_out(transaction, &known, &kept_out, now).await?;
    let mut indexing = Indexing::begin(transaction).await?;
    for Changing { gem, name, changes } in &changing {
        indexing.gem(*gem, name.as_str(), &changes.line, &changes.live).await?;
    }
    indexing.finish().await?;
    settled.write(transaction, upstream).await?;
    Ok(Done { applied, has_doubled })
}

/// Selects the gems that may be taken, and adds missing rows.
async fn take(
    transaction: &Transaction<'_>,
    mut gems: Vec<MirroredGem>,
    now: Timestamp,
    applied: &mut Applied,
    settled: &mut Settled,
) -> Result<Vec<Taken>, StoreError> {
    let names: Vec<&str> = gems.iter().map(|it| it.noted.name.as_str()).collect();
    let known = rows::gems(transaction, &names).await?;
    let is_new = |it: &MirroredGem| {
        let has_versions =
            known.get(it.noted.name.as_str()).is_some_and(|known| known.gem.live > 0);
        !it.is_invited && !has_versions && !it.releases.is_empty()
    };
    let new = gems.iter().filter(|it| is_new(it)).map(|it| &it.noted.name);
    let ours = Ours::like(transaction, new).await?;
    let shadowed = listed_earlier(transaction, &gems).await?;
    gems.retain(|gem @ MirroredGem { noted, releases, .. }| {
        let known = known.get(noted.name.as_str());
        // It may have been pushed since the decision.
        let refusal = if known.is_some_and(|known| known.origin.is_none()) {
            Some(Refusal::Local)
        } else if shadowed.contains(noted.name.as_str()) {
            // The earlier upstream's `/versions` was read at the same time as this one's.
            Some(Refusal::Shadowed)
        } else {
            (is_new(gem) && ours.resemble(&noted.name)).then_some(Refusal::Lookalike)
        };
        settled.add(noted, refusal);
        match refusal {
            Some(_) => applied.refused += 1,
            None => applied.gems += 1,
        }
        // A gem that exists neither here nor at the upstream needs no change.
        refusal.is_none() && (known.is_some() || !releases.is_empty())
    });
    let new = gems.iter().map(|it| &it.noted.name);
    let new: Vec<_> = new.filter(|name| !known.contains_key(name.as_str())).collect();
    let added = add_gems(transaction, &new, now).await?;
    let missing = || StoreError::Damaged("a gem was added and is not there".to_owned());
    let rows =
        gems.into_iter().map(|MirroredGem { noted: Noted { name, .. }, releases, .. }| {
            let (gem, origin) = match known.get(name.as_str()) {
                Some(KnownGem { gem, origin }) => (*gem, *origin),
                None => (Gem { id: *added.get(name.as_str()).ok_or_else(missing)?, live: 0 }, None),
            };
            Ok(Taken { gem, name, wanted: releases, origin })
        });
    rows.collect()
}

/// Sets this upstream as the origin of gems. Returns whether the number of gems has doubled.
async fn own(
    transaction: &Transaction<'_>,
    upstream: i64,
    taken: &[Taken],
) -> Result<bool, StoreError> {
    let others = taken.iter().filter(|it| it.origin != Some(upstream));
    let gems: Vec<i64> = others.map(|it| it.gem.id).collect();
    let statement = transaction
        .prepare_cached(
            "INSERT INTO origins (gem, upstream)
             SELECT gem, $2::bigint FROM unnest($1::bigint[]) AS gem
             ON CONFLICT (gem) DO UPDATE SET upstream = excluded.upstream",
        )
        .await?;
    transaction.execute(&statement, &[&gems, &upstream]).await?;
    let others = taken.iter().filter(|it| it.origin.is_some_and(|from| from != upstream));
    let names: Vec<&str> = others.map(|it| it.name.as_str()).collect();
    mark_pending(transaction, &names).await?;
    let new = || taken.iter().filter(|it| it.origin.is_none()).map(|it| unsigned(it.gem.id));
    let (first, last) = (new().min().unwrap_or_default(), new().max().unwrap_or_default());
    Ok(has_doubled(first.saturating_sub(1), last))
}

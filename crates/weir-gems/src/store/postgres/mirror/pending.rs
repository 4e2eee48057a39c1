//! Stores pending and rejected names.

use deadpool_postgres::Transaction;
use hashbrown::HashMap;
use tokio_postgres::Row;

use super::lookalikes::Ours;
use crate::name::GemName;
use crate::store::StoreError;
use crate::store::column::{name, signed, unsigned};
use crate::store::mirror::{Noted, Owner, Pending, Refusal, Standing};
use crate::store::postgres::pool::Lease;
use crate::store::postgres::rows::digest;

const PAGE: &str = "SELECT sequence, name, md5 FROM upstream_gems
     WHERE upstream = $1 AND sequence > $2 AND md5 IS DISTINCT FROM applied AND refusal IS NULL
     ORDER BY sequence LIMIT $3";

const OWNERS: &str = "SELECT gems.name, owners.name, origins.upstream, live > 0 FROM gems
     LEFT JOIN origins ON origins.gem = gems.id
     LEFT JOIN upstreams AS owners ON owners.id = origins.upstream
     WHERE gems.name = ANY($1)";

/// Selects by ids instead of a join, so that each name is one index lookup, whatever the plan.
const LISTED_BY: &str = "SELECT name, upstream FROM upstream_gems
     WHERE upstream = ANY($1) AND name = ANY($2) AND md5 IS NOT NULL ORDER BY upstream";

pub(super) async fn page(
    lease: &Lease,
    upstream: &str,
    after: u64,
    names_max: usize,
) -> Result<Vec<Pending>, StoreError> {
    let upstreams = upstreams(lease).await?;
    let id = upstreams.iter().find(|(_, name)| *name == upstream).map(|(id, _)| *id);
    let Some(id) = id else { return Ok(Vec::new()) };
    let statement = lease.prepare_cached(PAGE).await?;
    let rows = lease.query(&statement, &[&id, &signed(after), &signed(names_max)]).await?;
    let names: Vec<GemName> =
        rows.iter().map(|row| name(row.try_get(1)?)).collect::<Result<_, StoreError>>()?;
    let mut standings = standings(lease, upstreams, upstream, &names).await?;
    rows.iter()
        .zip(names)
        .map(|(row, name)| {
            Ok(Pending {
                sequence: unsigned(row.try_get(0)?),
                standing: standings(&name),
                noted: Noted { md5: md5(row, 2)?, name },
            })
        })
        .collect()
}

pub(super) async fn standing(
    lease: &Lease,
    upstream: &str,
    name: &GemName,
) -> Result<Standing, StoreError> {
    let upstreams = upstreams(lease).await?;
    let mut standings = standings(lease, upstreams, upstream, std::slice::from_ref(name)).await?;
    Ok(standings(name))
}

/// Loads what is known about names. The returned function may be called once for each of them.
async fn standings(
    lease: &Lease,
    mut upstreams: HashMap<i64, String>,
    upstream: &str,
    names: &[GemName],
) -> Result<impl FnMut(&GemName) -> Standing + use<>, StoreError> {
    upstreams.retain(|_, name| name != upstream);
    let ours = Ours::like(lease.client(), names.iter()).await?;
    let names: Vec<&str> = names.iter().map(GemName::as_str).collect();
    let mut owners = owners(lease, &names).await?;
    let mut listed_by = listed_by(lease, &upstreams, &names).await?;
    Ok(move |name: &GemName| {
        let resembles_ours = ours.resemble(name);
        let name = name.as_str();
        let (owner, has_versions) = owners.remove(name).unwrap_or((Owner::Nobody, false));
        let listed_by = listed_by.remove(name).unwrap_or_default();
        Standing { owner, has_versions, resembles_ours, listed_by }
    })
}

/// Returns the names of all upstreams that ever existed by their ids; these are few.
async fn upstreams(lease: &Lease) -> Result<HashMap<i64, String>, StoreError> {
    let statement = lease.prepare_cached("SELECT id, name FROM upstreams").await?;
    let rows = lease.query(&statement, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

fn md5(row: &Row, column: usize) -> Result<Option<[u8; 16]>, StoreError> {
    match row.try_get::<_, Option<&[u8]>>(column)? {
        None => Ok(None),
        Some(_) => digest(row, column).map(Some),
    }
}

/// Returns the owner of each name that is a gem, and whether it has versions.
async fn owners(
    lease: &Lease,
    names: &[&str],
) -> Result<HashMap<String, (Owner, bool)>, StoreError> {
    let statement = lease.prepare_cached(OWNERS).await?;
    let mut owners = HashMap::new();
    for row in lease.query(&statement, &[&names]).await? {
        let owner = match (row.try_get(1)?, row.try_get::<_, Option<i64>>(2)?) {
            (Some(owner), _) => Owner::Upstream(owner),
            (None, Some(_)) => Owner::Nobody,
            (None, None) => Owner::Local,
        };
        owners.insert(row.try_get(0)?, (owner, row.try_get(3)?));
    }
    Ok(owners)
}

/// Returns which of the upstreams list the names.
async fn listed_by(
    lease: &Lease,
    upstreams: &HashMap<i64, String>,
    names: &[&str],
) -> Result<HashMap<String, Vec<String>>, StoreError> {
    let mut listed: HashMap<String, Vec<String>> = HashMap::new();
    let ids: Vec<i64> = upstreams.keys().copied().collect();
    if ids.is_empty() {
        return Ok(listed);
    }
    let statement = lease.prepare_cached(LISTED_BY).await?;
    for row in lease.query(&statement, &[&ids, &names]).await? {
        let by = upstreams.get(&row.try_get::<_, i64>(1)?).cloned();
        listed.entry(row.try_get(0)?).or_default().extend(by);
    }
    Ok(listed)
}

pub(super) async fn refuse(
    transaction: &Transaction<'_>,
    upstream: String,
    names: Vec<(GemName, Refusal)>,
) -> Result<(), StoreError> {
    let (names, refusals): (Vec<_>, Vec<_>) =
        names.iter().map(|(name, refusal)| (name.as_str(), refusal.number())).unzip();
    let statement = transaction
        .prepare_cached(
            "UPDATE upstream_gems SET refusal = new.refusal, applied = NULL
             FROM unnest($2::text[], $3::bigint[]) AS new (name, refusal)
             WHERE upstream = (SELECT id FROM upstreams WHERE upstreams.name = $1)
               AND upstream_gems.name = new.name",
        )
        .await?;
    transaction.execute(&statement, &[&upstream, &names, &refusals]).await?;
    Ok(())
}

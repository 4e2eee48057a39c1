//! Computes the hit ratio of shared buffers between two samples.

use weir_advisor::observation::Fact;

use super::session::PostgresSession;

const WHAT: &str = "Postgres' cache hits";
const QUESTION: &str = "SELECT coalesce(sum(blks_hit), 0), coalesce(sum(blks_read), 0) \
    FROM pg_stat_database WHERE datname = current_database()";
/// With fewer blocks, the ratio is too imprecise.
const BLOCKS_MIN: u64 = 10_000;

/// Counters since the last reset of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    hit: u64,
    read: u64,
}

pub(super) async fn blocks(session: &mut PostgresSession) -> Fact<Blocks> {
    match session.query(QUESTION).await {
        Ok(rows) => {
            let number = |at| rows.first()?.get(at)?.parse().ok();
            let blocks = || Some(Blocks { hit: number(0)?, read: number(1)? });
            blocks().map_or(Fact::NotAsked, Fact::Known)
        }
        Err(error) => Fact::Unknown(session.missing(WHAT, &error)),
    }
}

/// Returns the hit ratio between two samples, or [`Fact::NotAsked`] if there was too little
/// traffic.
pub(super) fn hit_ratio(before: &Fact<Blocks>, after: Fact<Blocks>) -> Fact<f64> {
    let (before, after) = match (before, after) {
        (Fact::Known(before), Fact::Known(after)) => (before, after),
        (Fact::Unknown(missing), _) => return Fact::Unknown(missing.clone()),
        (_, Fact::Unknown(missing)) => return Fact::Unknown(missing),
        _ => return Fact::NotAsked,
    };
    let hit = after.hit.saturating_sub(before.hit);
    let all = after.read.saturating_sub(before.read).saturating_add(hit);
    if all < BLOCKS_MIN { Fact::NotAsked } else { Fact::Known(hit as f64 / all as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_in_between_counts() {
        let blocks = |hit, read| Fact::Known(Blocks { hit, read });
        let ratio = |hit, read| hit_ratio(&blocks(1_000_000, 5), blocks(hit, read));
        assert_eq!(ratio(1_015_000, 5_005), Fact::Known(0.75));
        assert_eq!(ratio(1_009_999, 5), Fact::NotAsked, "too few");
        assert_eq!(ratio(100, 50_000), Fact::Known(0.0), "the statistics were reset");
    }
}

//! Draws jobs of a queue or set uniformly over all shards.

use weir_jobs::metrics::StoreOperation;
use weir_jobs::model::JobLocation;
use weir_jobs::store::{Sample, StoreError};

use super::shard::Shard;
use super::sharded_core::ShardedCore;
use crate::store::sample::DRAWS_MAX;

impl ShardedCore {
    /// Draws up to `count` jobs: for each the shard first, by the number of jobs that it has there.
    pub(super) async fn sample(
        &self,
        place: &JobLocation,
        count: usize,
    ) -> Result<Sample, StoreError> {
        self.check_open()?;
        let lengths = self.on_all(async |shard: &Shard| shard.core().place_length(place).await);
        let lengths = lengths.await;
        let mut missing = lengths.missing_text();
        let draws = draws(&lengths.any_done()?, self.shards.len(), count.min(DRAWS_MAX));
        let samples = self.on_all(async |shard: &Shard| {
            let number = self.shards.iter().position(|it| std::ptr::eq(it, shard));
            match number.map_or(0, |number| draws[number]) {
                0 => Ok(Vec::new()),
                draws => shard.timed(StoreOperation::Scan, shard.core().sample(place, draws)).await,
            }
        });
        let samples = samples.await;
        missing = missing.or_else(|| samples.missing_text());
        let jobs = samples.any_done()?.into_iter().flat_map(|(_, jobs)| jobs).collect();
        Ok(Sample { jobs, missing })
    }
}

/// Returns the number of draws for each of `shards` shards, of which some have told their lengths.
fn draws(lengths: &[(usize, usize)], shards: usize, count: usize) -> Vec<usize> {
    let mut draws = vec![0; shards];
    let total: usize = lengths.iter().map(|(_, length)| length).sum();
    if total == 0 {
        return draws;
    }
    for _ in 0..count {
        let mut position = fastrand::usize(..total);
        for (shard, length) in lengths {
            if position < *length {
                draws[*shard] += 1;
                break;
            }
            position -= length;
        }
    }
    draws
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_drawn_by_their_lengths() {
        let draws = draws(&[(0, 1_000), (2, 3_000), (3, 0)], 4, 10_000);
        assert_eq!(draws.iter().sum::<usize>(), 10_000);
        assert_eq!((draws[1], draws[3]), (0, 0));
        // Six standard deviations.
        assert!((2_240..=2_760).contains(&draws[0]), "{draws:?}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(draws(&[(0, 0)], 2, 10), [0, 0]);
    }
}

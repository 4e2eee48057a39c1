//! What is known of tracked jobs. A job is tracked on the shard that has it; one that was pushed to several shards
//! one after the other has a track on each, of which the latest counts.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;
use weir_jobs::store::StoreError;
use weir_jobs::tracks::{Track, TrackUpdate};

use super::sharded_core::{ShardOutcomes, ShardedCore};

impl ShardedCore {
    pub(super) async fn track(&self, jid: &str) -> Result<Option<Track>, StoreError> {
        self.check_open()?;
        let found = self.on_all(async |shard| shard.core().track(jid).await).await;
        let ShardOutcomes { done, missing } = found;
        let latest = done.into_iter().filter_map(|(_, track)| track).max_by_key(|it| it.updated_at);
        match missing.into_iter().next() {
            // It may be known there.
            Some(error) if latest.is_none() => Err(error),
            _ => Ok(latest),
        }
    }

    /// Notes the progress of a job on the shard that tracks it.
    pub(super) async fn set_track(&self, jid: &str, update: TrackUpdate) -> Result<(), StoreError> {
        self.check_open()?;
        let set = self.on_all(async |shard| shard.core().set_track(jid, update.clone()).await);
        set.await.any_done().map(drop)
    }

    /// Replaces what is known of a job, on the shards that have it, or on one of them.
    pub(super) async fn import_track(&self, jid: &str, track: Track) -> Result<(), StoreError> {
        self.check_open()?;
        let known = self.on_all(async |shard| shard.core().track(jid).await).await.any_done()?;
        let mut places: Vec<usize> =
            known.iter().filter(|(_, track)| track.is_some()).map(|(place, _)| *place).collect();
        if places.is_empty() {
            let among = self.pushable();
            if among.is_empty() {
                return Err(self.none_usable());
            }
            places.push(self.placement.home(jid, among));
        }
        for place in places {
            let shard = &self.shards[place];
            shard.note(shard.core().import_track(jid, track.clone()).await)?;
        }
        Ok(())
    }

    /// Returns up to `limit` tracks after `after`. Of a job with several, the latest.
    pub(super) async fn export_tracks(
        &self,
        after: Option<(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError> {
        self.check_open()?;
        let read =
            self.on_all(async |shard| shard.core().export_tracks(after.clone(), limit).await);
        let ShardOutcomes { done, missing } = read.await;
        if let Some(error) = missing.into_iter().next() {
            return Err(error);
        }
        let tracks = done.into_iter().flat_map(|(_, tracks)| tracks);
        let in_order: BTreeMap<(Timestamp, Box<str>), Track> =
            tracks.map(|(jid, track)| ((track.updated_at, jid), track)).collect();
        Ok(in_order.into_iter().take(limit).map(|((_, jid), track)| (jid, track)).collect())
    }
}

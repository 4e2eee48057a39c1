//! PUSH and PUSHB: store jobs.

use super::error::FaktoryError;
use super::replies::FaktoryReply;
use crate::server::{JobService, push_each, push_one};
use crate::settings::JobServerSettings;
use crate::store::Store;

/// Runs `PUSH job`. Replies `+OK` once it is stored.
pub(super) async fn push<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let mut batch = service.take_batch();
    let stored = match batch.parse_one(json, service.clock.now(), &settings.limits) {
        Ok(job) => push_one(service, settings, job).await.map_err(FaktoryError::from),
        Err(error) => Err(error.into()),
    };
    service.recycle_batch(batch);
    stored.map(|()| FaktoryReply::Ok)
}

/// Runs consecutive PUSHes of one connection as one batch. Returns a reply for each.
pub(super) async fn push_batch<'a, S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    texts: impl Iterator<Item = &'a [u8]>,
) -> Vec<Result<FaktoryReply, FaktoryError>> {
    let mut batch = service.take_batch();
    let now = service.clock.now();
    let parsed: Vec<_> = texts.map(|json| batch.add(json, now, &settings.limits)).collect();
    let mut stored = push_each(service, settings, &batch.jobs()).await.into_iter();
    service.recycle_batch(batch);
    let to_reply = |result: Result<(), _>| {
        result.map_err(FaktoryError::from)?;
        Ok(stored.next().unwrap_or(Ok(())).map(|()| FaktoryReply::Ok)?)
    };
    parsed.into_iter().map(to_reply).collect()
}

/// Runs `PUSHB [job, ..]`. Replies with a bulk `{jid: error}` for those that were not stored.
pub(super) async fn pushb<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let mut batch = service.take_batch();
    let result = match batch.parse_array(json, service.clock.now(), &settings.limits) {
        Ok(rejections) => {
            let jobs = batch.jobs();
            let stored = push_each(service, settings, &jobs).await;
            let unstored = jobs.iter().zip(stored).filter_map(|(job, stored)| {
                stored.err().map(|error| (job.jid.to_owned(), FaktoryError::from(error).text()))
            });
            let rejected = rejections.into_iter().map(|rejection| {
                if let Some(limit) = FaktoryError::from(rejection.error.clone()).limit() {
                    service.metrics.limit_hit(limit);
                }
                (rejection.jid, rejection.error.to_string())
            });
            Ok(FaktoryReply::errors(rejected.chain(unstored)))
        }
        Err(error) => Err(error.into()),
    };
    service.recycle_batch(batch);
    result
}

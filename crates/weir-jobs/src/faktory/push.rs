//! PUSH and PUSHB: store jobs.

use super::error::FaktoryError;
use super::queue_limit::Admitted;
use super::replies::FaktoryReply;
use crate::model::NewJob;
use crate::server::JobService;
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
        Ok(job) => push_one(service, settings, job).await,
        Err(error) => Err(error.into()),
    };
    service.recycle_batch(batch);
    stored.map(|()| FaktoryReply::Ok)
}

async fn push_one<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    job: NewJob<'_>,
) -> Result<(), FaktoryError> {
    Admitted::default().admit(&job, service, settings)?;
    Ok(service.store.push(&[job]).await?)
}

/// Stores each job whose queue has room. Returns the outcomes in order.
async fn push_each<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    jobs: &[NewJob<'_>],
) -> Vec<Result<(), FaktoryError>> {
    let mut admitted = Admitted::default();
    let rejections: Vec<_> =
        jobs.iter().map(|job| admitted.admit(job, service, settings).err()).collect();
    if rejections.iter().all(Option::is_none) {
        let stored = service.store.push_each(jobs).await;
        return stored.into_iter().map(|outcome| outcome.map_err(FaktoryError::from)).collect();
    }
    let with_room = jobs.iter().zip(&rejections).filter(|(_, rejection)| rejection.is_none());
    let with_room: Vec<NewJob<'_>> = with_room.map(|(job, _)| *job).collect();
    let mut stored = service.store.push_each(&with_room).await.into_iter();
    let outcome = |rejection: Option<_>| match rejection {
        Some(full) => Err(FaktoryError::from(full)),
        None => stored.next().unwrap_or(Ok(())).map_err(FaktoryError::from),
    };
    rejections.into_iter().map(outcome).collect()
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
        stored.next().unwrap_or(Ok(())).map(|()| FaktoryReply::Ok)
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
                stored.err().map(|error| (job.jid.to_owned(), error.text()))
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

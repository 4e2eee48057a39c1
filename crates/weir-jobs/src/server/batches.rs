//! Batches as plain data.

use weir_base::clock::Timestamp;

use super::JobService;
use crate::batches::{BatchStatus, CallbackState, ExportedBatch};
use crate::custom::BatchId;
use crate::handle::HandleError;
use crate::store::{Store, StoreError};
use crate::view;

/// Returns a page of batches behind `after`.
pub(super) async fn list<S: Store>(
    service: &JobService<S>,
    after: Option<&str>,
    limit: usize,
) -> Result<view::BatchListPage, HandleError> {
    let after = after.map(parse_id).transpose()?;
    let limit = limit.clamp(1, service.settings().limits.page_jobs_max);
    let exported = service.store.export_batches(after, limit).await?;
    let last = exported.last().filter(|_| exported.len() == limit).map(|batch| batch.id);
    let mut batches = Vec::with_capacity(exported.len());
    for batch in exported {
        batches.extend(read(service, &batch).await?);
    }
    Ok(view::BatchListPage {
        now: service.clock.now().as_secs_f64(),
        batches,
        next: last.map(|id| id.to_string()),
        total: service.store.counts().await.batches,
    })
}

/// Returns one batch, if there is one with this id.
pub(super) async fn show<S: Store>(
    service: &JobService<S>,
    bid: &str,
) -> Result<Option<view::BatchView>, HandleError> {
    let Some(BatchId(number)) = BatchId::parse(bid) else { return Ok(None) };
    // Ids are numbers, so the one before is where a page with this batch begins.
    let after = number.checked_sub(1).map(BatchId);
    let found = service.store.export_batches(after, 1).await?.pop();
    match found.filter(|batch| batch.id == BatchId(number)) {
        Some(batch) => read(service, &batch).await,
        None => Ok(None),
    }
}

/// Returns `None` if the batch has ended meanwhile.
async fn read<S: Store>(
    service: &JobService<S>,
    batch: &ExportedBatch,
) -> Result<Option<view::BatchView>, HandleError> {
    match service.store.batch_status(batch.id).await {
        Ok(status) => Ok(Some(view_of(batch, status))),
        Err(StoreError::NoSuchBatch(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn parse_id(text: &str) -> Result<BatchId, HandleError> {
    BatchId::parse(text)
        .ok_or_else(|| HandleError::Invalid(format!("{text:?} is no id of a batch")))
}

fn view_of(batch: &ExportedBatch, status: BatchStatus) -> view::BatchView {
    view::BatchView {
        bid: batch.id.to_string(),
        parent_bid: status.parent.map(|parent| parent.to_string()),
        description: status.description.clone(),
        state: state(batch, &status).to_owned(),
        created_at: batch.created_at.as_secs_f64(),
        expires_at: Timestamp::as_secs_f64(batch.expires_at),
        total: status.total,
        pending: status.pending,
        failed: status.failed,
        succeeded: batch.succeeded,
        lost: batch.lost,
        complete: callback(status.complete).to_owned(),
        success: callback(status.success).to_owned(),
    }
}

/// A parent whose own jobs have ended may still wait for its children: it runs.
fn state(batch: &ExportedBatch, status: &BatchStatus) -> &'static str {
    let is_over = |state| matches!(state, CallbackState::Absent | CallbackState::Done);
    match () {
        () if !batch.committed => "open",
        () if status.pending > status.failed => "running",
        () if batch.lost > 0 => "failed",
        () if status.pending > 0 => "waiting",
        () if is_over(status.complete) && is_over(status.success) => "succeeded",
        () if is_over(status.complete) => "completed",
        () => "running",
    }
}

const fn callback(state: CallbackState) -> &'static str {
    match state {
        CallbackState::Absent => "none",
        CallbackState::Pending => "pending",
        CallbackState::Enqueued => "enqueued",
        CallbackState::Done => "succeeded",
    }
}

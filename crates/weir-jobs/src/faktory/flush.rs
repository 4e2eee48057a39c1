//! FLUSH: deletes all jobs, if that is allowed.

use super::error::FaktoryError;
use super::replies::FaktoryReply;
use crate::server::JobService;
use crate::settings::JobServerSettings;
use crate::store::Store;

/// Runs `FLUSH`. Replies `+OK` once all jobs are deleted.
pub(super) async fn flush<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
) -> Result<FaktoryReply, FaktoryError> {
    if !settings.allow_flush {
        return Err(FaktoryError::FlushNotAllowed);
    }
    tracing::warn!("FLUSH: a client made the server forget all jobs (jobs.allow_flush is true)");
    service.store.flush().await?;
    Ok(FaktoryReply::Ok)
}

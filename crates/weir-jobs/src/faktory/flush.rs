//! FLUSH: forget everything, where that is allowed.

use super::refusal::Refusal;
use super::replies::Answer;
use crate::server::Service;
use crate::settings::Settings;
use crate::store::Store;

/// `FLUSH`: `+OK` once all jobs are gone.
pub(super) async fn flush<S: Store>(
    service: &Service<S>,
    settings: &Settings,
) -> Result<Answer, Refusal> {
    if !settings.allow_flush {
        return Err(Refusal::FlushNotAllowed);
    }
    tracing::warn!("FLUSH: a client made the server forget all jobs (jobs.allow_flush is true)");
    service.store.flush().await?;
    Ok(Answer::Ok)
}

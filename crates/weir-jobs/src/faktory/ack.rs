//! ACK: acknowledges a job.

use std::borrow::Cow;

use serde::Deserialize;

use super::error::FaktoryError;
use super::payload;
use super::replies::FaktoryReply;
use crate::model::Wid;
use crate::server::JobService;
use crate::store::Store;

#[derive(Deserialize)]
struct AckText<'a> {
    #[serde(borrow)]
    jid: Cow<'a, str>,
}

/// Runs `ACK {"jid":..}`. Replies `+OK`, even for a jid without a reservation.
pub(super) async fn ack<S: Store>(
    service: &JobService<S>,
    reporter: Option<&Wid>,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let jid = parse(json)?;
    service.store.ack_from(reporter, &[&*jid]).await?;
    service.note_ended(reporter, &[&*jid]);
    Ok(FaktoryReply::Ok)
}

/// Runs consecutive ACKs of one connection as one batch. Returns a reply for each.
pub(super) async fn ack_batch<'a, S: Store>(
    service: &JobService<S>,
    reporter: Option<&Wid>,
    texts: impl Iterator<Item = &'a [u8]>,
) -> Vec<Result<FaktoryReply, FaktoryError>> {
    let parsed: Vec<_> = texts.map(parse).collect();
    let jids: Vec<&str> = parsed.iter().filter_map(|jid| jid.as_deref().ok()).collect();
    let done = match jids.is_empty() {
        true => Ok(()),
        false => service.store.ack_from(reporter, &jids).await.map(drop),
    };
    if done.is_ok() {
        service.note_ended(reporter, &jids);
    }
    parsed
        .into_iter()
        .map(|jid| {
            jid?;
            done.clone().map(|()| FaktoryReply::Ok).map_err(FaktoryError::from)
        })
        .collect()
}

fn parse(json: &[u8]) -> Result<Cow<'_, str>, FaktoryError> {
    payload::parse("ACK", json).map(|ack: AckText<'_>| ack.jid)
}

//! Webhooks of upstreams. A webhook is authenticated, saved to disk and then acknowledged. The
//! webhooks of an upstream are processed in order: the new end of its `/versions` is fetched, and
//! `/info` for names that are not in it yet. Upstreams don't wait for each other. A webhook only
//! triggers a synchronization; its content is never added to the index.

mod inbox;
mod settle;
mod shape;

pub(super) use self::inbox::Inbox;
pub use self::settle::HooksDone;
use self::shape::Shape;
use super::Mirror;
use super::door::{HookAnswer, HookRoute};
use crate::metrics::Outcome;
use crate::store::StoreError;
use crate::store::mirror as kept;

pub(super) async fn receive(
    mirror: &Mirror,
    route: HookRoute,
    authorization: Option<&str>,
    body: &[u8],
) -> Result<HookAnswer, StoreError> {
    let answer = judge_and_keep(mirror, route, authorization, body).await;
    match &answer {
        Ok(HookAnswer::Taken) => mirror.metrics.hook(Outcome::Taken),
        Ok(HookAnswer::Denied) => mirror.metrics.hook(Outcome::Denied),
        Ok(HookAnswer::Malformed(_)) => mirror.metrics.hook(Outcome::Malformed),
        Ok(HookAnswer::Full) => mirror.metrics.hook(Outcome::Full),
        Err(_) => mirror.metrics.hook(Outcome::Failed),
    }
    answer
}

async fn judge_and_keep(
    mirror: &Mirror,
    route: HookRoute,
    authorization: Option<&str>,
    body: &[u8],
) -> Result<HookAnswer, StoreError> {
    let shape = match Shape::parse(route, body) {
        Ok(shape) => shape,
        Err(problem) => return Ok(HookAnswer::Malformed(problem)),
    };
    let secrets = mirror
        .settings
        .upstreams
        .iter()
        .filter_map(|upstream| Some((&upstream.name, upstream.hook_secret.as_ref()?)));
    let Some(upstream) = shape.sender(authorization, secrets) else {
        return Ok(HookAnswer::Denied);
    };
    let hook = match shape.hook(upstream, mirror.clock.now()) {
        Ok(hook) => hook,
        Err(problem) => return Ok(HookAnswer::Malformed(problem)),
    };
    Ok(match mirror.inbox.take(&mirror.store, hook, mirror.limits.hooks_waiting_max).await? {
        kept::Inbox::Taken => HookAnswer::Taken,
        kept::Inbox::Full => HookAnswer::Full,
    })
}

//! Webhooks of upstreams: who sends them is proved, then they are on disk, then they are answered.
//! Those of an upstream are worked off in their order: its `/versions` is asked for its tail, and for
//! what is not in there yet the `/info` itself. No upstream waits for another. A hook is a hint to look: what it says is never taken.

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

//! Requests that query channels.

use hyper::StatusCode;

use super::SignedCall;
use super::response::ApiFailure;
use crate::broker::Broker as _;
use crate::pusher::api::{self, ApiError, CachedEvent, ChannelInfo, InfoRequest, ListRequest};
use crate::pusher::channel::{ChannelKind, ChannelName};
use crate::shard::Shard;
use crate::shared_log::SharedCounts;

/// Returns all channels with subscribers.
pub(super) async fn list_channels(
    shard: &Shard,
    call: &SignedCall<'_>,
) -> Result<Vec<u8>, ApiFailure> {
    let request = ListRequest::parse(call.query).map_err(ApiError::from)?;
    let limits = shard.hub.settings().limits.pusher.clone();
    let listed = shard.hub.list_channels(call.app, request).await?;
    let occupied: Vec<_> = listed
        .iter()
        .filter_map(|(name, info)| {
            let kind = ChannelName::parse(name, &limits).ok()?.kind();
            Some((&**name, counts(*info, kind, request.info)))
        })
        .collect();
    let mut body = Vec::new();
    api::write_channels(&mut body, occupied.iter().cloned());
    Ok(body)
}

/// Returns one channel. A channel that does not exist is reported as not occupied.
pub(super) async fn channel(
    shard: &Shard,
    call: &SignedCall<'_>,
    name: &ChannelName,
) -> Result<Vec<u8>, ApiFailure> {
    let request = InfoRequest::parse(call.query.get("info")).map_err(ApiError::from)?;
    let asks_for_cache = request.cache && name.kind().caches;
    if asks_for_cache {
        shard.await_copy(call, name).await?;
    }
    let info = shard.hub.channel_counts(call.app, std::slice::from_ref(name)).await?;
    let info = info.first().copied().unwrap_or_default();
    let mut response = counts(info, name.kind(), request);
    let channel = call.app.channels.get(name.as_str());
    let cached = channel.filter(|_| asks_for_cache).and_then(|channel| {
        let age_max = call.app.settings().cache_age_max;
        channel.cached(age_max, shard.hub.clock.now())
    });
    if asks_for_cache {
        response.cache = Some(
            cached
                .as_ref()
                .map(|(data, remaining)| CachedEvent { data, ttl_seconds: remaining.as_secs() }),
        );
    }
    let mut body = Vec::new();
    let is_occupied = info.subscriptions > 0 || info.users > 0;
    api::write_channel(&mut body, is_occupied, &response);
    Ok(body)
}

/// Returns the users of a presence channel.
pub(super) fn users(
    shard: &Shard,
    call: &SignedCall<'_>,
    name: &ChannelName,
) -> Result<Vec<u8>, ApiFailure> {
    if !name.kind().has_presence() {
        let text = "only presence channels have users";
        return Err(ApiFailure::new(StatusCode::BAD_REQUEST, text));
    }
    let list = shard.hub.broker.members(call.app, name.as_str(), None);
    let mut body = Vec::new();
    let members = list.as_ref().map_or(&[][..], |list| &list.members);
    api::write_users(&mut body, members.iter().map(|member| &*member.user_id));
    Ok(body)
}

/// Returns the requested attributes, as far as a channel of this kind has them.
pub(super) fn counts(
    info: SharedCounts,
    kind: ChannelKind,
    request: InfoRequest,
) -> ChannelInfo<'static> {
    ChannelInfo {
        user_count: (request.user_count && kind.has_presence()).then_some(info.users),
        subscription_count: request.subscription_count.then_some(info.subscriptions),
        cache: None,
    }
}

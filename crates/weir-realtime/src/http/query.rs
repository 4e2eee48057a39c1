//! Requests that query channels.

use hyper::StatusCode;

use super::SignedCall;
use super::response::ApiFailure;
use crate::broker::Broker as _;
use crate::channel::ChannelCounts;
use crate::pusher::api::{self, ApiError, CachedEvent, ChannelInfo, InfoRequest, ListRequest};
use crate::pusher::channel::{ChannelKind, ChannelName};
use crate::shard::Shard;

/// Returns all channels with subscribers.
pub(super) fn list_channels(_: &Shard, call: &SignedCall<'_>) -> Result<Vec<u8>, ApiFailure> {
    let request = ListRequest::parse(call.query).map_err(ApiError::from)?;
    let channels = call.app.channels.with_prefix(request.filter_by_prefix);
    let occupied: Vec<_> = channels
        .iter()
        .filter_map(|channel| {
            let info = channel.info();
            let counts = counts(Some(&info), channel.kind, request.info);
            (info.subscribers > 0).then_some((channel.name.as_str(), counts))
        })
        .collect();
    let mut body = Vec::new();
    api::write_channels(&mut body, occupied.iter().cloned());
    Ok(body)
}

/// Returns one channel. A channel that does not exist is reported as not occupied.
pub(super) fn channel(
    shard: &Shard,
    call: &SignedCall<'_>,
    name: &ChannelName,
) -> Result<Vec<u8>, ApiFailure> {
    let request = InfoRequest::parse(call.query.get("info")).map_err(ApiError::from)?;
    let channel = call.app.channels.get(name.as_str());
    let info = channel.as_ref().map(|channel| channel.info());
    let mut response = counts(info.as_ref(), name.kind(), request);
    let asks_for_cache = request.cache && name.kind().caches;
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
    let is_occupied = info.is_some_and(|info| info.subscribers > 0 || info.users > 0);
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
    info: Option<&ChannelCounts>,
    kind: ChannelKind,
    request: InfoRequest,
) -> ChannelInfo<'static> {
    ChannelInfo {
        user_count: (request.user_count && kind.has_presence())
            .then(|| info.map_or(0, |info| info.users)),
        subscription_count: request
            .subscription_count
            .then(|| info.map_or(0, |info| info.subscribers)),
        cache: None,
    }
}

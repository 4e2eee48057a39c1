//! Pages of a presence channel's members, for its subscribers.

use super::Shard;
use super::messages::write_error;
use super::state::ShardState;
use crate::broker::Broker as _;
use crate::channel::ListedMember;
use crate::cores::SessionKey;
use crate::frame::append_text;
use crate::pusher::client_message::MembersRequest;
use crate::pusher::server_message::{self, MembersPage};

impl Shard {
    pub(super) fn list_members(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: &MembersRequest,
        output: &mut Vec<u8>,
    ) {
        let index = state.subscription_to(key, &request.channel);
        let subscription = index.map(|index| &state.sessions[key as usize].subscriptions[index]);
        let Some(subscription) = subscription.filter(|one| one.user_id.is_some()) else {
            let reason =
                format!("not subscribed to {}, or not a presence channel", request.channel);
            return write_error(output, &reason);
        };
        let local = &state.channels[subscription.channel as usize];
        let limits = local.app.settings().presence;
        let name = local.channel.name.as_str();
        let list = self.hub.broker.members(&local.app, name, request.version);
        let Some(list) = list else {
            return write_error(output, &format!("{name} has no members"));
        };
        // If the requested version is no longer stored, start over with the present one.
        let is_same = request.version.is_none_or(|version| version == list.version);
        let start = if is_same { request.start.min(list.members.len()) } else { 0 };
        let limit = request.limit.unwrap_or(limits.page_max).min(limits.page_max);
        let members = list.members[start..].iter().take(limit).map(ListedMember::as_member);
        let page = MembersPage { version: list.version, start, count: list.members.len() };
        append_text(output, |out| {
            server_message::members_page(out, name, page, members);
        });
    }
}

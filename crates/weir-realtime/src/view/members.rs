//! The users of a presence channel, in pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::broker::Broker as _;
use crate::channel::ListedMember;
use crate::hub::Hub;

/// A user on a presence channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberView {
    /// The user's id.
    pub user_id: String,
    /// Information about the user from the application, as JSON.
    pub user_info: Option<String>,
}

/// A page of a channel's users, ordered by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberPage {
    /// The users on this page.
    pub members: Vec<MemberView>,
    /// Number of all users.
    pub total: usize,
    /// The id after which the next page begins, or None on the last page.
    pub next: Option<String>,
}

impl Hub {
    /// Returns at most `limit` users of a presence channel whose ids come after `after`. None if
    /// the channel does not exist or is not a presence channel. The list of a large channel may be
    /// as old as the interval at which changes are gathered.
    #[must_use]
    pub fn members(
        &self,
        app_id: &str,
        channel: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Option<MemberPage> {
        let app = self.app_by_id(app_id)?;
        app.channels.get(channel).filter(|channel| channel.kind.has_presence())?;
        let list = self.broker.members(&app, channel, None)?.members;
        let is_later = |member: &&ListedMember| after.is_none_or(|after| &*member.user_id > after);
        let mut later: Vec<&ListedMember> = list.iter().filter(is_later).collect();
        let limit = limit.max(1);
        let has_more = later.len() > limit;
        if has_more {
            // Selecting takes linear time, and only the page itself is then sorted.
            later.select_nth_unstable_by(limit, |one, other| one.user_id.cmp(&other.user_id));
            later.truncate(limit);
        }
        later.sort_unstable_by(|one, other| one.user_id.cmp(&other.user_id));
        let next = later.last().filter(|_| has_more).map(|last| last.user_id.to_string());
        let members = later.into_iter().map(MemberView::new).collect();
        Some(MemberPage { members, total: list.len(), next })
    }
}

impl MemberView {
    fn new(member: &ListedMember) -> Self {
        Self {
            user_id: member.user_id.to_string(),
            user_info: member.user_info.as_ref().map(|info| info.get().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_base::clock::{Clock, Timestamp};

    use super::*;
    use crate::channel::JoinRequest;
    use crate::hub::single_core::hub;
    use crate::pusher::channel::ChannelName;

    fn join(hub: &Hub, channel: &str, user_id: &str) {
        let app = hub.app_by_id("1").unwrap();
        let name = ChannelName::parse(channel, &hub.settings().limits.pusher).unwrap();
        let member = Some(ListedMember { user_id: Arc::from(user_id), user_info: None });
        let now = hub.clock.now();
        let joining = JoinRequest {
            core: 0,
            member,
            recover: None,
            needs_position: true,
            wants_member_changes: false,
            now,
        };
        hub.broker.subscribe(&app, &name, &joining, |_, _| {}).unwrap();
    }

    #[test]
    fn member_pages_list_every_user_once_in_order() {
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        for number in [7, 3, 9, 1, 5, 0, 8, 2, 6, 4, 3] {
            join(&hub, "presence-a", &number.to_string());
        }
        let (mut after, mut seen) = (None, Vec::new());
        for _ in 0..9 {
            let page = hub.members("1", "presence-a", after.as_deref(), 3).unwrap();
            assert_eq!(page.total, 10);
            assert!(page.members.len() <= 3);
            seen.extend(page.members.into_iter().map(|member| member.user_id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen.concat(), "0123456789");
        assert_eq!(after, None, "the last page says so");
    }

    #[test]
    fn only_presence_channels_have_members() {
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        join(&hub, "plain", "1");
        assert_eq!(hub.members("1", "plain", None, 9), None);
        assert_eq!(hub.members("1", "presence-none", None, 9), None);
    }
}

//! The users of a presence channel, in pages.

use serde::{Deserialize, Serialize};

use crate::broker::Broker as _;
use crate::channel::ListedMember;
use crate::hub::Hub;

/// A user on a presence channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// Who.
    pub user_id: String,
    /// What the application says about them: JSON.
    pub user_info: Option<String>,
}

/// Some of a channel's users, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberPage {
    /// Those of this page.
    pub members: Vec<MemberView>,
    /// How many there are in all.
    pub total: usize,
    /// After whom the next page begins; None: there is none.
    pub next: Option<String>,
}

impl Hub {
    /// Users of a presence channel whose ids come after `after`, at most `limit`. None: nobody knows
    /// the channel, or it has no users. Of a large channel the list may be as old as changes are
    /// gathered.
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
            // In time that grows with the number: only the page itself is sorted.
            later.select_nth_unstable_by(limit, |one, other| one.user_id.cmp(&other.user_id));
            later.truncate(limit);
        }
        later.sort_unstable_by(|one, other| one.user_id.cmp(&other.user_id));
        let next = later.last().filter(|_| has_more).map(|last| last.user_id.to_string());
        let members = later.into_iter().map(MemberView::of).collect();
        Some(MemberPage { members, total: list.len(), next })
    }
}

impl MemberView {
    fn of(member: &ListedMember) -> Self {
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
    use crate::channel::Joining;
    use crate::hub::alone::hub;
    use crate::pusher::channel::ChannelName;

    fn join(hub: &Hub, channel: &str, user_id: &str) {
        let app = hub.app_by_id("1").unwrap();
        let name = ChannelName::parse(channel, &hub.settings().limits.pusher).unwrap();
        let member = Some(ListedMember { user_id: Arc::from(user_id), user_info: None });
        let now = hub.clock.now();
        let joining = Joining { core: 0, member, recover: None, wants_member_changes: false, now };
        hub.broker.subscribe(&app, &name, &joining, |_, _| {}).unwrap();
    }

    #[test]
    fn pages_hold_every_user_once_in_order() {
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
    fn only_presence_channels_have_users() {
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        join(&hub, "plain", "1");
        assert_eq!(hub.members("1", "plain", None, 9), None);
        assert_eq!(hub.members("1", "presence-none", None, 9), None);
    }
}

//! The users of a presence channel, and the number of connections of each.
//!
//! Each user that joins or leaves gives the members a new version. A client that follows a large
//! channel fetches one version in pages and applies the changes after it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::pusher::server_message::MemberData;

/// Number of lists stored for clients that read them in pages. With one new list per `gather`, a
/// client has four times that interval to read all pages before it must start over.
const LISTS_MAX: usize = 4;

/// The most users that left a large channel and are reported later: ten times the default of
/// `list_max`. Users beyond it are not reported: clients that replace their list learn of them from
/// the list, others show them until they return.
const LEAVERS_MAX: usize = 10_000;

/// The users of one channel.
#[derive(Debug, Default)]
pub(crate) struct MemberSet {
    users: HashMap<Arc<str>, PresentUser, foldhash::fast::RandomState>,
    version: u64,
    /// Lists by age, the newest last.
    lists: VecDeque<VersionedList>,
    /// The changes since the last reported difference.
    difference: Difference,
    /// Set while the channel is too large to report single users. Clients that don't follow changes
    /// may know the users up to this version. It remains set until all clients receive the list
    /// again, even if the channel is small by then.
    reported_up_to: Option<u64>,
    /// Users that such clients know and that have left since.
    unreported_leavers: HashSet<Arc<str>, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct PresentUser {
    user_info: Option<Arc<RawValue>>,
    connections: u32,
    /// The version that the user's arrival created. 0 if clients have known the user from an
    /// earlier arrival.
    since: u64,
}

/// All users at one moment. Cheap to clone, and unaffected by later changes.
pub(crate) type MemberList = Arc<[ListedMember]>;

/// The users of one version.
#[derive(Clone, Debug)]
pub(crate) struct VersionedList {
    pub(crate) version: u64,
    pub(crate) members: MemberList,
    made_at: Timestamp,
}

/// The net changes between two versions: users that are present at the end, or absent.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// The version before the first change.
    pub(crate) from: u64,
    changes: HashMap<Arc<str>, Option<ListedMember>, foldhash::fast::RandomState>,
}

/// A user with owned data.
#[derive(Clone, Debug)]
pub(crate) struct ListedMember {
    pub(crate) user_id: Arc<str>,
    pub(crate) user_info: Option<Arc<RawValue>>,
}

impl ListedMember {
    /// Returns the user as messages represent it.
    pub(crate) fn as_member(&self) -> MemberData<'_> {
        MemberData { user_id: &self.user_id, user_info: self.user_info.as_deref() }
    }
}

/// The effect of adding or removing a user's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberChange {
    /// The user joined or left.
    User,
    /// The user was already present, or remains present, through another connection.
    Connection,
}

impl Difference {
    /// Returns the users that joined.
    pub(crate) fn added(&self) -> impl Iterator<Item = MemberData<'_>> + Clone {
        self.changes.values().flatten().map(ListedMember::as_member)
    }

    /// Returns the users that left. They may include users that joined and left in between.
    pub(crate) fn removed(&self) -> impl Iterator<Item = &str> + Clone {
        self.changes.iter().filter(|(_, member)| member.is_none()).map(|(user_id, _)| &**user_id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl MemberSet {
    /// Adds a connection of a user. The user's info is that of the first connection.
    pub(crate) fn add(&mut self, member: ListedMember) -> MemberChange {
        match self.users.entry(Arc::clone(&member.user_id)) {
            Entry::Occupied(mut present) => {
                present.get_mut().connections += 1;
                MemberChange::Connection
            }
            Entry::Vacant(vacant) => {
                self.version += 1;
                let is_still_known = self.unreported_leavers.remove(&member.user_id);
                let since = if is_still_known { 0 } else { self.version };
                vacant.insert(PresentUser {
                    user_info: member.user_info.clone(),
                    connections: 1,
                    since,
                });
                self.difference.changes.insert(Arc::clone(&member.user_id), Some(member));
                MemberChange::User
            }
        }
    }

    /// Removes a connection of a user.
    pub(crate) fn remove(&mut self, user_id: &str) -> MemberChange {
        let Some(presence) = self.users.get_mut(user_id) else {
            debug_assert!(false, "{user_id} leaves without having come");
            return MemberChange::Connection;
        };
        presence.connections -= 1;
        if presence.connections > 0 {
            return MemberChange::Connection;
        }
        if let Some((user_id, presence)) = self.users.remove_entry(user_id) {
            self.version += 1;
            let is_known = self.reported_up_to.is_some_and(|reported| presence.since <= reported);
            if is_known && self.unreported_leavers.len() < LEAVERS_MAX {
                self.unreported_leavers.insert(Arc::clone(&user_id));
            }
            self.difference.changes.insert(user_id, None);
        }
        MemberChange::User
    }

    /// Stops reporting single users.
    pub(crate) fn become_large(&mut self) {
        self.reported_up_to.get_or_insert(self.version);
    }

    /// Notes that a client received the full list: clients may know all present users.
    pub(crate) fn mark_list_sent(&mut self) {
        if let Some(reported) = &mut self.reported_up_to {
            *reported = self.version;
        }
    }

    /// Returns whether single users are not reported.
    pub(crate) const fn is_large(&self) -> bool {
        self.reported_up_to.is_some()
    }

    /// Resumes reporting single users. Returns the users that left unreported.
    pub(crate) fn become_small(&mut self) -> impl Iterator<Item = Arc<str>> + use<> {
        self.reported_up_to = None;
        std::mem::take(&mut self.unreported_leavers).into_iter()
    }

    /// Returns whether the user is present.
    pub(crate) fn contains(&self, user_id: &str) -> bool {
        self.users.contains_key(user_id)
    }

    /// Returns the number of users.
    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }

    /// Returns the present version: the number of changes so far.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_difference(&mut self) -> Difference {
        let next = Difference { from: self.version, changes: HashMap::default() };
        std::mem::replace(&mut self.difference, next)
    }

    /// Returns the list of `version` if it is still stored, otherwise one that was made at most
    /// `age_max` ago.
    pub(crate) fn list(
        &mut self,
        version: Option<u64>,
        age_max: Duration,
        now: Timestamp,
    ) -> VersionedList {
        if let Some(requested) = self.lists.iter().find(|list| Some(list.version) == version) {
            return requested.clone();
        }
        // The list must include the last reported difference: a client that has just joined does
        // not receive earlier ones.
        let is_fresh = |list: &&VersionedList| {
            let is_young = now.since(list.made_at) < age_max;
            list.version == self.version || (is_young && list.version >= self.difference.from)
        };
        if let Some(list) = self.lists.back().filter(is_fresh) {
            return list.clone();
        }
        if self.lists.len() >= LISTS_MAX {
            self.lists.pop_front();
        }
        let list = self.make_list(now);
        self.lists.push_back(list.clone());
        list
    }

    fn make_list(&self, made_at: Timestamp) -> VersionedList {
        let listed = self.users.iter().map(|(user_id, presence)| ListedMember {
            user_id: Arc::clone(user_id),
            user_info: presence.user_info.clone(),
        });
        VersionedList { version: self.version, members: listed.collect(), made_at }
    }

    /// Removes lists that are too old to be read in pages.
    pub(crate) fn remove_expired(&mut self, age_max: Duration, now: Timestamp) {
        let max_age = age_max.saturating_mul(u32::try_from(LISTS_MAX).unwrap_or(u32::MAX));
        self.lists.retain(|list| now.since(list.made_at) < max_age);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn member(user_id: &str) -> ListedMember {
        ListedMember { user_id: Arc::from(user_id), user_info: None }
    }

    #[test]
    fn a_user_is_present_from_the_first_connection_to_the_last() {
        let mut members = MemberSet::default();
        assert_eq!(members.add(member("a")), MemberChange::User);
        assert_eq!(members.add(member("a")), MemberChange::Connection);
        assert_eq!(members.add(member("b")), MemberChange::User);
        assert_eq!(members.len(), 2);
        assert_eq!(members.remove("a"), MemberChange::Connection);
        assert!(members.contains("a"));
        assert_eq!(members.remove("a"), MemberChange::User);
        assert!(!members.contains("a"));
    }

    #[test]
    fn a_member_list_is_a_snapshot_that_is_reused_for_a_while() {
        let mut members = MemberSet::default();
        let second = Duration::from_secs(1);
        members.add(member("a"));
        let before = members.list(None, second, NOW);
        members.add(member("b"));
        let soon = members.list(None, second, NOW + second / 2);
        assert!(Arc::ptr_eq(&before.members, &soon.members), "not made again");
        let later = members.list(None, second, NOW + second);
        assert_eq!((before.members.len(), later.members.len()), (1, 2));
        members.add(member("c"));
        members.take_difference();
        let reported = members.list(None, second, NOW + second);
        assert_eq!(reported.members.len(), 3, "who comes now is not told of c any more");
        let asked = members.list(Some(before.version), second, NOW + second);
        assert!(Arc::ptr_eq(&before.members, &asked.members), "by its version");
        members.remove_expired(second, NOW + second * 10);
        assert!(members.lists.is_empty());
    }

    #[test]
    fn the_number_of_stored_member_lists_is_limited() {
        let mut members = MemberSet::default();
        for user in 0..20 {
            members.add(member(&user.to_string()));
            members.list(None, Duration::ZERO, NOW);
        }
        assert_eq!(members.lists.len(), LISTS_MAX);
    }

    proptest! {
        /// A list, with the differences after it applied, equals the present users.
        #[test]
        fn a_list_with_all_later_differences_equals_the_members(
            steps in prop::collection::vec((0_u8..6, any::<bool>(), any::<bool>()), 1..80),
        ) {
            let mut members = MemberSet::default();
            let mut connections = [0_u32; 6];
            let list = members.list(None, Duration::ZERO, NOW);
            let mut known: BTreeSet<String> =
                list.members.iter().map(|member| member.user_id.to_string()).collect();
            let mut version = list.version;
            for (user, comes, tells) in steps {
                let id = user.to_string();
                if comes {
                    members.add(member(&id));
                    connections[user as usize] += 1;
                } else if connections[user as usize] > 0 {
                    members.remove(&id);
                    connections[user as usize] -= 1;
                }
                if tells {
                    let difference = members.take_difference();
                    prop_assert_eq!(difference.from, version);
                    version = members.version();
                    known.extend(difference.added().map(|member| member.user_id.to_owned()));
                    for user_id in difference.removed() {
                        known.remove(user_id);
                    }
                    let expected: BTreeSet<String> = (0..6_usize)
                        .filter(|user| connections[*user] > 0)
                        .map(|user| user.to_string())
                        .collect();
                    prop_assert_eq!(&known, &expected);
                }
            }
        }
    }
}

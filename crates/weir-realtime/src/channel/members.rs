//! Who is on a presence channel: users, each with as many connections as it has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::pusher::server_message::Member;

/// The users of one channel.
#[derive(Debug, Default)]
pub(crate) struct Members {
    users: HashMap<Arc<str>, Presence, foldhash::fast::RandomState>,
    /// As of the last change; made when somebody asks.
    list: Option<MemberList>,
}

#[derive(Debug)]
struct Presence {
    user_info: Option<Arc<RawValue>>,
    connections: u32,
}

/// All users at one moment. Cheap to clone; a change of the channel doesn't change it.
pub(crate) type MemberList = Arc<[ListedMember]>;

/// A user, owned.
#[derive(Clone, Debug)]
pub(crate) struct ListedMember {
    pub(crate) user_id: Arc<str>,
    pub(crate) user_info: Option<Arc<RawValue>>,
}

impl ListedMember {
    /// As messages name it.
    pub(crate) fn as_member(&self) -> Member<'_> {
        Member { user_id: &self.user_id, user_info: self.user_info.as_deref() }
    }
}

/// What a user's connection changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The user was not there before, or is not there any more.
    User,
    /// It was there already, or is still there, with another connection.
    Connection,
}

impl Members {
    /// One connection more. What is shown of a user is what its first connection brought.
    pub(crate) fn add(&mut self, member: ListedMember) -> Change {
        match self.users.entry(member.user_id) {
            Entry::Occupied(mut present) => {
                present.get_mut().connections += 1;
                Change::Connection
            }
            Entry::Vacant(place) => {
                place.insert(Presence { user_info: member.user_info, connections: 1 });
                self.list = None;
                Change::User
            }
        }
    }

    /// One connection less.
    pub(crate) fn remove(&mut self, user_id: &str) -> Change {
        let Some(presence) = self.users.get_mut(user_id) else {
            debug_assert!(false, "{user_id} leaves without having come");
            return Change::Connection;
        };
        presence.connections -= 1;
        if presence.connections > 0 {
            return Change::Connection;
        }
        self.users.remove(user_id);
        self.list = None;
        Change::User
    }

    /// Whether the user is there.
    pub(crate) fn contains(&self, user_id: &str) -> bool {
        self.users.contains_key(user_id)
    }

    /// How many users.
    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }

    /// All of them.
    pub(crate) fn list(&mut self) -> MemberList {
        let users = &self.users;
        let list = self.list.get_or_insert_with(|| {
            let listed = users.iter().map(|(user_id, presence)| ListedMember {
                user_id: Arc::clone(user_id),
                user_info: presence.user_info.clone(),
            });
            listed.collect()
        });
        Arc::clone(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(user_id: &str) -> ListedMember {
        ListedMember { user_id: Arc::from(user_id), user_info: None }
    }

    #[test]
    fn a_user_is_there_from_the_first_connection_to_the_last() {
        let mut members = Members::default();
        assert_eq!(members.add(member("a")), Change::User);
        assert_eq!(members.add(member("a")), Change::Connection);
        assert_eq!(members.add(member("b")), Change::User);
        assert_eq!(members.len(), 2);
        assert_eq!(members.remove("a"), Change::Connection);
        assert!(members.contains("a"));
        assert_eq!(members.remove("a"), Change::User);
        assert!(!members.contains("a"));
    }

    #[test]
    fn a_list_stays_as_it_was() {
        let mut members = Members::default();
        members.add(member("a"));
        let before = members.list();
        assert!(Arc::ptr_eq(&before, &members.list()), "made once");
        members.add(member("b"));
        assert_eq!((before.len(), members.list().len()), (1, 2));
    }
}

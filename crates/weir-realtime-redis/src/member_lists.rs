//! Member lists that are too long for one reply. They are read one after the other, a part at a time, and
//! other messages are delivered in between.
//!
//! A list is read as of a version, although members may change meanwhile: changes after that version
//! arrive as messages, which wait for the end of the list and are applied then. Each of them replaces
//! what the list has of its users.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use redis::RedisResult;
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::shared_log::{ChannelKey, MembersMessage, SharedMember};

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::record;
use crate::scripts;

/// Users of a channel that are read in one reply, with those of other channels: 1 MiB with information of
/// 1 kB. More are read in parts of this size.
pub(crate) const USERS_MAX: usize = 1_000;
/// Users that may change while a list is read. Beyond that the list is read again.
const CHANGES_MAX: usize = 10_000;

/// The lists that are to be read. Bounded by the number of channels that the node holds.
#[derive(Debug, Default)]
pub(crate) struct MemberLists {
    waiting: VecDeque<ChannelKey>,
    /// Those that wait.
    keys: HashSet<ChannelKey>,
    reading: Option<MemberListReader>,
}

/// The list that is being read.
#[derive(Debug)]
pub(crate) struct MemberListReader {
    pub(crate) key: ChannelKey,
    version: Option<ChannelPosition>,
    /// Nodes whose users are left to read. The last one is read at `cursor`.
    left: Vec<Arc<str>>,
    cursor: u64,
    read: Vec<(Arc<str>, Vec<SharedMember>)>,
    /// Changes that arrived meanwhile.
    changes: Vec<MembersMessage>,
    changed_users: usize,
}

/// A list that was read.
#[derive(Debug)]
pub(crate) struct MemberList {
    pub(crate) key: ChannelKey,
    pub(crate) version: Option<ChannelPosition>,
    /// The users of each node.
    pub(crate) nodes: Vec<(Arc<str>, Vec<SharedMember>)>,
    /// Changes to apply afterwards.
    pub(crate) changes: Vec<MembersMessage>,
}

impl MemberLists {
    /// Requests a list, unless it is requested already.
    pub(crate) fn add(&mut self, key: &ChannelKey) {
        let is_read = self.reading.as_ref().is_some_and(|reader| reader.key == *key);
        if !is_read && self.keys.insert(key.clone()) {
            self.waiting.push_back(key.clone());
        }
    }

    /// Returns whether there is a list to read.
    pub(crate) fn has_work(&self) -> bool {
        self.reading.is_some() || !self.waiting.is_empty()
    }

    /// Takes a change of a channel whose list is requested: it is in that list, or is applied after it.
    /// Returns false for other channels.
    pub(crate) fn take_change(&mut self, message: &MembersMessage) -> bool {
        let Some(reader) = self.reading.as_mut().filter(|reader| reader.key == message.key) else {
            return self.keys.contains(&message.key);
        };
        reader.changed_users += message.changes.added.len() + message.changes.removed.len();
        if reader.changed_users > CHANGES_MAX {
            self.reading = None;
            self.add(&message.key);
        } else {
            reader.changes.push(message.clone());
        }
        true
    }

    /// Takes the next list, unless one is being read.
    pub(crate) fn next(&mut self) -> Option<ChannelKey> {
        if self.reading.is_some() {
            return None;
        }
        let key = self.waiting.pop_front()?;
        self.keys.remove(&key);
        Some(key)
    }

    /// Stops reading the list that is being read. Returns its channel.
    pub(crate) fn stop(&mut self) -> Option<ChannelKey> {
        self.reading.take().map(|reader| reader.key)
    }

    /// Begins to read a list that these nodes have.
    pub(crate) fn begin(
        &mut self,
        key: ChannelKey,
        version: Option<ChannelPosition>,
        nodes: Vec<Arc<str>>,
    ) {
        self.reading = Some(MemberListReader {
            key,
            version,
            left: nodes,
            cursor: 0,
            read: Vec::new(),
            changes: Vec::new(),
            changed_users: 0,
        });
    }

    /// Reads the next part. Returns the list after the last one.
    pub(crate) async fn step(
        &mut self,
        keys: &Keys,
        connection: &mut CommandConnection,
    ) -> RedisResult<Option<MemberList>> {
        let Some(reader) = &mut self.reading else { return Ok(None) };
        if let Some(node) = reader.left.last().cloned() {
            let command = scripts::scan_members(keys, &node, &reader.key, reader.cursor, USERS_MAX);
            let reply: (u64, Vec<String>) = command.query_async(connection).await?;
            reader.add_part(&node, reply);
        }
        if !reader.left.is_empty() {
            return Ok(None);
        }
        let finished = self.reading.take();
        Ok(finished.map(|MemberListReader { key, version, read, changes, .. }| MemberList {
            key,
            version,
            nodes: read,
            changes,
        }))
    }
}

impl MemberListReader {
    fn add_part(&mut self, node: &Arc<str>, (cursor, words): (u64, Vec<String>)) {
        let users = record::parse_users(&words);
        match self.read.last_mut().filter(|(last, _)| last == node) {
            Some((_, read)) => read.extend(users),
            None => self.read.push((Arc::clone(node), users)),
        }
        self.cursor = cursor;
        if cursor == 0 {
            self.left.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_realtime::pusher::position::Epoch;
    use weir_realtime::shared_log::MemberChanges;

    use super::*;

    fn key(channel: &str) -> ChannelKey {
        ChannelKey { app: "1".into(), channel: channel.into() }
    }

    fn change(channel: &str, users: usize) -> MembersMessage {
        let version = ChannelPosition { epoch: Epoch(1), offset: 1 };
        let removed = (0..users).map(|user| user.to_string().into()).collect();
        let changes = MemberChanges { added: Vec::new(), removed };
        MembersMessage { key: key(channel), node: "n".into(), version, changes }
    }

    #[test]
    fn changes_of_a_list_that_is_read_wait_and_are_limited() {
        let mut lists = MemberLists::default();
        assert!(!lists.take_change(&change("a", 1)));
        lists.add(&key("a"));
        lists.add(&key("a"));
        lists.add(&key("b"));
        assert!(lists.take_change(&change("a", 1)), "it will be in the list");
        assert_eq!(lists.next(), Some(key("a")));
        lists.begin(key("a"), None, vec!["n".into()]);
        lists.add(&key("a"));
        assert_eq!(lists.next(), None, "one at a time");
        assert!(lists.take_change(&change("a", CHANGES_MAX)));
        assert_eq!(lists.reading.as_ref().map(|reader| reader.changes.len()), Some(1));
        assert!(lists.take_change(&change("a", 1)));
        assert!(lists.reading.is_none(), "it is read again");
        assert_eq!(
            [lists.next(), lists.next(), lists.next()],
            [Some(key("b")), Some(key("a")), None]
        );
    }

    #[test]
    fn parts_of_one_node_are_one_list() {
        let mut lists = MemberLists::default();
        lists.begin(key("a"), None, vec!["n1".into(), "n2".into()]);
        let reader = lists.reading.as_mut().unwrap();
        let part = |user: &str, cursor| (cursor, vec![user.to_owned(), String::new()]);
        let n2: Arc<str> = "n2".into();
        reader.add_part(&n2, part("u", 7));
        assert_eq!((reader.cursor, reader.left.len()), (7, 2));
        reader.add_part(&n2, part("v", 0));
        assert_eq!((reader.read.len(), reader.read[0].1.len(), reader.left.len()), (1, 2, 1));
    }
}

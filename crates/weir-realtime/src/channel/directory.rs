//! The directory of an app's users who are signed in to any of the nodes that share a log.
//!
//! Each part of it is a channel of the log without subscribers, whose members are users. So the log's rules
//! for members hold for signed-in users as well: a user is reported once, however many nodes the user has
//! connections to, and removed when a node has ended. A node sends its own users to all parts that have any,
//! and knows the users of other nodes only in parts that it follows: those with users that its clients watch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::Channel;
use crate::pusher::channel::ChannelName;

/// The number of parts. All nodes must agree on it for ever.
const PARTS: usize = 64;

/// The parts that have, or had, users of this node or users whom its clients watch.
#[derive(Debug)]
pub(crate) struct UserDirectory([OnceLock<DirectoryPart>; PARTS]);

#[derive(Debug)]
pub(crate) struct DirectoryPart {
    pub(crate) channel: Arc<Channel>,
    /// Whether the users of other nodes are known, or requested. Never reset: an app with one watchlist
    /// soon has another one.
    is_followed: AtomicBool,
}

impl Default for UserDirectory {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl UserDirectory {
    /// Returns the part that has a user.
    pub(crate) fn part_of(
        &self,
        user_id: &str,
        new: impl FnOnce(ChannelName) -> Arc<Channel>,
    ) -> &DirectoryPart {
        let number = crc32c::crc32c(user_id.as_bytes()) as usize % PARTS;
        self.0[number].get_or_init(|| DirectoryPart {
            channel: new(ChannelName::of_directory(number)),
            is_followed: AtomicBool::new(false),
        })
    }

    /// Returns the part of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&DirectoryPart> {
        self.parts().find(|part| part.channel.name.as_str() == name)
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &DirectoryPart> {
        self.0.iter().filter_map(OnceLock::get)
    }

    /// Returns whether the log has all users that are signed in to this node, and no others.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.parts().all(|part| part.channel.is_all_sent())
    }
}

impl DirectoryPart {
    /// Begins to follow the users of other nodes. Returns false if it has begun.
    pub(crate) fn follow(&self) -> bool {
        !self.is_followed.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::SeqCst)
    }
}

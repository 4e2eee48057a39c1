//! The signed-in users of one app, and who watches whom.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;

use crate::pusher::socket_id::SocketId;

/// All users that are signed in or watched.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<HashMap<Arc<str>, User>>);

#[derive(Debug, Default)]
struct User {
    /// Signed in as that user.
    connections: Vec<SocketId>,
    /// To be told when the user comes or goes.
    watchers: Vec<SocketId>,
}

/// A connection's user.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) user_id: Arc<str>,
    /// What members of presence channels are shown.
    pub(crate) user_info: Option<Arc<RawValue>>,
    pub(crate) watchlist: Box<[Arc<str>]>,
}

/// What it changed that somebody signed in or left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// It was the user's first connection, or its last: these watch the user.
    pub(crate) watchers: Vec<SocketId>,
    /// Whom of the watchlist is signed in; on sign-in.
    pub(crate) online: Vec<Arc<str>>,
}

impl Users {
    fn users(&self) -> MutexGuard<'_, HashMap<Arc<str>, User>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection is this user's from now on. `tell` is called under the lock, as coming and going
    /// of one user have to be told in their order, from whatever core.
    pub(crate) fn sign_in(
        &self,
        socket_id: SocketId,
        who: &SignedIn,
        tell: impl FnOnce(&Presence),
    ) {
        let mut users = self.users();
        let user = users.entry(Arc::clone(&who.user_id)).or_default();
        user.connections.push(socket_id);
        let is_first = user.connections.len() == 1;
        let watchers = if is_first { user.watchers.clone() } else { Vec::new() };
        let mut online = Vec::new();
        for watched in &who.watchlist {
            let user = users.entry(Arc::clone(watched)).or_default();
            user.watchers.push(socket_id);
            if !user.connections.is_empty() {
                online.push(Arc::clone(watched));
            }
        }
        tell(&Presence { watchers, online });
    }

    /// A connection is gone. `tell` is called as on [`Users::sign_in`].
    pub(crate) fn sign_out(
        &self,
        socket_id: SocketId,
        who: &SignedIn,
        tell: impl FnOnce(&Presence),
    ) {
        let mut users = self.users();
        for watched in &who.watchlist {
            forget(&mut users, watched, |user| remove(&mut user.watchers, socket_id));
        }
        let mut watchers = Vec::new();
        forget(&mut users, &who.user_id, |user| {
            remove(&mut user.connections, socket_id);
            if user.connections.is_empty() {
                watchers.clone_from(&user.watchers);
            }
        });
        tell(&Presence { watchers, online: Vec::new() });
    }

    /// The user's connections.
    pub(crate) fn connections(&self, user_id: &str) -> Vec<SocketId> {
        self.users().get(user_id).map(|user| user.connections.clone()).unwrap_or_default()
    }

    /// How many users are signed in or watched.
    pub(crate) fn known(&self) -> usize {
        self.users().len()
    }

    /// How many users are signed in.
    pub(crate) fn signed_in(&self) -> usize {
        self.users().values().filter(|user| !user.connections.is_empty()).count()
    }
}

/// Changes a user, and forgets it if nothing is left to know.
fn forget(users: &mut HashMap<Arc<str>, User>, id: &str, change: impl FnOnce(&mut User)) {
    let Some(user) = users.get_mut(id) else { return };
    change(user);
    if user.connections.is_empty() && user.watchers.is_empty() {
        users.remove(id);
    }
}

fn remove(sockets: &mut Vec<SocketId>, socket_id: SocketId) {
    if let Some(index) = sockets.iter().position(|candidate| *candidate == socket_id) {
        sockets.swap_remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn socket(second: u64) -> SocketId {
        SocketId { first: 1, second }
    }

    fn user(id: &str, watchlist: &[&str]) -> SignedIn {
        let watchlist = watchlist.iter().map(|id| Arc::from(*id)).collect();
        SignedIn { user_id: Arc::from(id), user_info: None, watchlist }
    }

    /// Says what is told, and that nobody can change the users meanwhile.
    fn told(users: &Users, change: impl FnOnce(&mut dyn FnMut(&Presence))) -> Presence {
        let mut told = None;
        change(&mut |presence| {
            assert!(users.0.try_lock().is_err(), "another core could tell in between");
            told = Some(presence.clone());
        });
        told.unwrap()
    }

    fn sign_in(users: &Users, socket_id: SocketId, who: &SignedIn) -> Presence {
        told(users, |tell| users.sign_in(socket_id, who, tell))
    }

    fn sign_out(users: &Users, socket_id: SocketId, who: &SignedIn) -> Presence {
        told(users, |tell| users.sign_out(socket_id, who, tell))
    }

    #[test]
    fn watchers_are_told_of_the_first_connection_and_the_last() {
        let users = Users::default();
        let (watcher, ada) = (user("grace", &["ada"]), user("ada", &[]));
        assert_eq!(sign_in(&users, socket(1), &watcher), Presence::default());
        assert_eq!(sign_in(&users, socket(2), &ada).watchers, [socket(1)]);
        assert_eq!(sign_in(&users, socket(3), &ada).watchers, []);
        assert_eq!(sign_out(&users, socket(2), &ada).watchers, []);
        assert_eq!(sign_out(&users, socket(3), &ada).watchers, [socket(1)]);
    }

    #[test]
    fn who_is_there_already_is_told_at_once() {
        let users = Users::default();
        sign_in(&users, socket(1), &user("ada", &[]));
        let told = sign_in(&users, socket(2), &user("grace", &["ada", "alan"]));
        assert_eq!(told.online, [Arc::from("ada")]);
    }

    #[test]
    fn nothing_is_kept_of_who_is_gone_and_not_watched() {
        let users = Users::default();
        let watcher = user("grace", &["ada"]);
        sign_in(&users, socket(1), &watcher);
        assert_eq!(users.connections("grace"), [socket(1)]);
        sign_out(&users, socket(1), &watcher);
        assert!(users.users().is_empty());
    }
}

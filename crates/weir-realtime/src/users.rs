//! The signed-in users of one app, and their watchers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;

use crate::pusher::socket_id::SocketId;

/// All users that are signed in or watched, and the users of other nodes that this one follows.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<HashMap<Arc<str>, User>>);

#[derive(Debug, Default)]
struct User {
    /// Connections that are signed in as the user.
    connections: Vec<SocketId>,
    /// Connections to notify when the user goes online or offline.
    watchers: Vec<SocketId>,
    /// Whether the user is signed in to another node, if nodes share a log and this one follows the user.
    is_remote: bool,
}

impl User {
    const fn is_online(&self) -> bool {
        self.is_remote || !self.connections.is_empty()
    }
}

/// A connection's user.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) user_id: Arc<str>,
    /// Information that members of presence channels receive.
    pub(crate) user_info: Option<Arc<RawValue>>,
    pub(crate) watchlist: Box<[Arc<str>]>,
}

impl Users {
    fn users(&self) -> MutexGuard<'_, HashMap<Arc<str>, User>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs a connection in as this user, unless `admit` returns an error. `admit` gets the
    /// watchers to notify, if the user was offline. `notify` gets the users of the watchlist that
    /// are online. Both are called under the lock, so that all cores send one user's online and
    /// offline events in order.
    pub(crate) fn sign_in<A, E>(
        &self,
        socket_id: SocketId,
        signed_in: &SignedIn,
        admit: impl FnOnce(&[SocketId]) -> Result<A, E>,
        notify: impl FnOnce(A, &[Arc<str>]),
    ) -> Result<(), E> {
        let mut users = self.users();
        let offline = users.get(&signed_in.user_id).filter(|user| !user.is_online());
        let admitted = admit(offline.map_or(&[], |user| &user.watchers))?;
        users.entry(Arc::clone(&signed_in.user_id)).or_default().connections.push(socket_id);
        let mut online = Vec::new();
        for watched in &signed_in.watchlist {
            let user = users.entry(Arc::clone(watched)).or_default();
            user.watchers.push(socket_id);
            if user.is_online() {
                online.push(Arc::clone(watched));
            }
        }
        notify(admitted, &online);
        Ok(())
    }

    /// Signs a connection out. `notify` gets the watchers to notify if the user went offline. It is
    /// called under the lock, as in [`Users::sign_in`].
    pub(crate) fn sign_out(
        &self,
        socket_id: SocketId,
        signed_in: &SignedIn,
        notify: impl FnOnce(&[SocketId]),
    ) {
        let mut users = self.users();
        for watched in &signed_in.watchlist {
            forget(&mut users, watched, |user| remove(&mut user.watchers, socket_id));
        }
        let mut watchers = Vec::new();
        forget(&mut users, &signed_in.user_id, |user| {
            remove(&mut user.connections, socket_id);
            if !user.is_online() {
                watchers.clone_from(&user.watchers);
            }
        });
        notify(&watchers);
    }

    /// Notes whether a user is signed in to other nodes. `notify` gets the watchers to notify if the user
    /// went online or offline. It is called under the lock, as in [`Users::sign_in`].
    pub(crate) fn set_remote(
        &self,
        user_id: &str,
        is_remote: bool,
        notify: impl FnOnce(&[SocketId]),
    ) {
        let mut users = self.users();
        if is_remote && !users.contains_key(user_id) {
            users.insert(Arc::from(user_id), User::default());
        }
        forget(&mut users, user_id, |user| {
            let was_online = user.is_online();
            user.is_remote = is_remote;
            if user.is_online() != was_online {
                notify(&user.watchers);
            }
        });
    }

    /// Returns the user's connections.
    pub(crate) fn connections(&self, user_id: &str) -> Vec<SocketId> {
        self.users().get(user_id).map(|user| user.connections.clone()).unwrap_or_default()
    }

    /// Returns the number of users that are signed in, here or as far as known to other nodes, or watched.
    pub(crate) fn len(&self) -> usize {
        self.users().len()
    }

    /// Returns the number of users that are signed in.
    pub(crate) fn signed_in(&self) -> usize {
        self.users().values().filter(|user| !user.connections.is_empty()).count()
    }
}

/// Changes a user, and removes it if it has neither connections nor watchers.
fn forget(users: &mut HashMap<Arc<str>, User>, id: &str, change: impl FnOnce(&mut User)) {
    let Some(user) = users.get_mut(id) else { return };
    change(user);
    if !user.is_online() && user.watchers.is_empty() {
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

    /// Asserts that the users are locked.
    fn check_locked(users: &Users) {
        assert!(users.0.try_lock().is_err(), "another core could tell in between");
    }

    /// Signs in and returns the notified watchers and the users reported as online.
    fn sign_in(
        users: &Users,
        socket_id: SocketId,
        signed_in: &SignedIn,
    ) -> (Vec<SocketId>, Vec<Arc<str>>) {
        let mut told = None;
        let admit = |watchers: &[SocketId]| Ok::<_, ()>(watchers.to_vec());
        let signed_in = users.sign_in(socket_id, signed_in, admit, |watchers, online| {
            check_locked(users);
            told = Some((watchers, online.to_vec()));
        });
        signed_in.unwrap();
        told.unwrap()
    }

    fn sign_out(users: &Users, socket_id: SocketId, signed_in: &SignedIn) -> Vec<SocketId> {
        let mut told = None;
        users.sign_out(socket_id, signed_in, |watchers| {
            check_locked(users);
            told = Some(watchers.to_vec());
        });
        told.unwrap()
    }

    #[test]
    fn a_rejected_sign_in_changes_nothing() {
        let users = Users::default();
        let (watcher, ada) = (user("grace", &["ada"]), user("ada", &["alan"]));
        sign_in(&users, socket(1), &watcher);
        let refused = users.sign_in(socket(2), &ada, |_| Err("no"), |(), _| panic!("told"));
        assert_eq!(refused, Err("no"));
        assert_eq!(users.len(), 2, "grace, and ada whom she watches");
        assert_eq!(sign_in(&users, socket(2), &ada).0, [socket(1)], "still the first");
    }

    #[test]
    fn watchers_are_notified_of_the_first_and_the_last_connection() {
        let users = Users::default();
        let (watcher, ada) = (user("grace", &["ada"]), user("ada", &[]));
        assert_eq!(sign_in(&users, socket(1), &watcher), (vec![], vec![]));
        assert_eq!(sign_in(&users, socket(2), &ada).0, [socket(1)]);
        assert_eq!(sign_in(&users, socket(3), &ada).0, []);
        assert_eq!(sign_out(&users, socket(2), &ada), []);
        assert_eq!(sign_out(&users, socket(3), &ada), [socket(1)]);
    }

    #[test]
    fn online_users_of_a_watchlist_are_reported_at_sign_in() {
        let users = Users::default();
        sign_in(&users, socket(1), &user("ada", &[]));
        let told = sign_in(&users, socket(2), &user("grace", &["ada", "alan"]));
        assert_eq!(told.1, [Arc::from("ada")]);
    }

    #[test]
    fn watchers_are_notified_once_of_a_user_with_connections_to_several_nodes() {
        let users = Users::default();
        let set_remote = |is_remote| {
            let mut told = Vec::new();
            users.set_remote("ada", is_remote, |watchers| {
                check_locked(&users);
                told = watchers.to_vec();
            });
            told
        };
        assert_eq!(set_remote(true), []);
        let (watcher, ada) = (user("grace", &["ada"]), user("ada", &[]));
        assert_eq!(sign_in(&users, socket(1), &watcher).1, [Arc::from("ada")]);
        assert_eq!(sign_in(&users, socket(2), &ada).0, []);
        assert_eq!(set_remote(false), []);
        assert_eq!(set_remote(true), []);
        assert_eq!(sign_out(&users, socket(2), &ada), []);
        assert_eq!(set_remote(false), [socket(1)]);
        assert_eq!(set_remote(false), []);
        assert_eq!(set_remote(true), [socket(1)]);
        sign_out(&users, socket(1), &watcher);
        assert_eq!(users.len(), 1, "ada");
        assert_eq!(set_remote(false), []);
        assert!(users.users().is_empty());
    }

    #[test]
    fn offline_and_unwatched_users_are_forgotten() {
        let users = Users::default();
        let watcher = user("grace", &["ada"]);
        sign_in(&users, socket(1), &watcher);
        assert_eq!(users.connections("grace"), [socket(1)]);
        sign_out(&users, socket(1), &watcher);
        assert!(users.users().is_empty());
    }
}

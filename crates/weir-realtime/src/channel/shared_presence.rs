//! Presence channels of the shared log, whose members are those of all nodes.
//!
//! [`MemberSet`](super::members::MemberSet) counts a user's connections; each other node counts as one.
//! So users are added and removed once, however many nodes have them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_base::clock::Timestamp;

use super::home::Home;
use super::members::{ListedMember, MemberChange};
use super::shared_members::RemoteChange;
use super::{Channel, SubscriberMessage};
use crate::cores::{Audience, Cores};
use crate::frame::Frame;
use crate::pusher::server_message::{self, WatchlistChange};
use crate::settings::AppSettings;
use crate::shared_log::{
    Delivery, HeldMembers, MemberChanges, MembersMessage, MembersState, SharedMember, UnsentMembers,
};
use crate::watchlist;

impl Channel {
    /// Returns at most `max` changes of this node's members to send to the log, and whether there are
    /// more.
    pub(crate) fn take_member_changes(&self, max: usize) -> (UnsentMembers, bool) {
        let mut home = self.home();
        home.shared.as_mut().map(|shared| shared.take_unsent(max)).unwrap_or_default()
    }

    /// Notes which of the requested users the log has admitted.
    pub(crate) fn settle_admissions(&self, requested: &[SharedMember], rejected: &[String]) {
        if let Some(shared) = &mut self.home().shared {
            shared.settle_admissions(requested, rejected);
        }
    }

    /// Ends the request of a user that does not join. Returns whether there was one.
    pub(crate) fn cancel_admission(&self, user_id: &str) -> bool {
        self.home().shared.as_mut().is_some_and(|shared| shared.cancel_admission(user_id))
    }

    /// Returns the number of subscriptions that the log is told. A user that waits to be admitted to a channel
    /// without subscribers counts as one, so that the channel is occupied before it has a member.
    pub(crate) fn counted_subscribers(&self) -> usize {
        let home = self.home();
        let has_admissions = home.shared.as_ref().is_some_and(|shared| shared.has_admissions());
        home.total().max(usize::from(has_admissions))
    }

    /// Adds a connection of a user who has signed in, to a part of the directory of users.
    pub(crate) fn user_signed_in(&self, user_id: &Arc<str>) {
        let member = ListedMember { user_id: Arc::clone(user_id), user_info: None };
        if let Some(shared) = &mut self.home().shared {
            shared.join(&member);
        }
    }

    /// Removes a connection of a user who has signed out, or left.
    pub(crate) fn user_signed_out(&self, user_id: &str) {
        if let Some(shared) = &mut self.home().shared {
            shared.leave(user_id);
        }
    }

    /// Returns whether the log has all changes of this node's members.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.home().shared.as_ref().is_none_or(|shared| shared.is_all_sent())
    }

    /// Returns whether the cores have room for changes of members: those with subscribers, or all, because
    /// the watchers of a user may be anywhere.
    pub(super) fn has_room_for_members(&self, home: &Home, cores: &Cores) -> bool {
        match self.users {
            None => home.has_room(cores),
            Some(_) => cores.iter().all(|core| core.budget.is_half_empty()),
        }
    }

    /// Notifies the watchers of a user who is online on other nodes from now on, or is not any more.
    fn report_user(&self, user_id: &str, change: WatchlistChange, cores: &Cores) {
        if let Some(users) = &self.users {
            users.set_remote(user_id, change == WatchlistChange::Online, |watchers| {
                watchlist::notify_always(cores, watchers, change, user_id);
            });
        }
    }

    /// Takes back changes that were not sent. Returns false if this is no presence channel.
    pub(crate) fn return_member_changes(&self, unsent: UnsentMembers) -> bool {
        self.home().shared.as_mut().map(|shared| shared.return_unsent(unsent)).is_some()
    }

    /// Begins a connection to the log. Returns whether this is a presence channel.
    pub(crate) fn begin_members(&self) -> bool {
        self.home().shared.as_mut().map(|shared| shared.begin()).is_some()
    }

    /// Notes that the connection to the log has ended.
    pub(crate) fn end_members(&self) {
        if let Some(shared) = &mut self.home().shared {
            shared.end();
        }
    }

    /// Returns what is known of the members of other nodes.
    pub(crate) fn held_members(&self) -> HeldMembers {
        match &self.home().shared {
            None => HeldMembers::None,
            Some(shared) if shared.is_compared && !shared.keeps_absent => {
                HeldMembers::Known(shared.version)
            }
            Some(_) => HeldMembers::Unknown,
        }
    }

    /// Applies changes of another node's members, or only notes those of this node.
    pub(crate) fn deliver_members(
        &self,
        message: &MembersMessage,
        is_own: bool,
        app: &AppSettings,
        cores: &Cores,
        now: Timestamp,
    ) -> Delivery {
        let mut home = self.home();
        if home.is_gone || !home.is_synchronized {
            return Delivery::NotNeeded;
        }
        let room = self.has_room_for_members(&home, cores);
        let Some(shared) = &mut home.shared else { return Delivery::NotNeeded };
        if shared.is_compared && shared.is_old(message.version) {
            return Delivery::NotNeeded;
        }
        if !shared.is_compared || !shared.is_next(message.version) {
            return Delivery::Hole;
        }
        if !room {
            return Delivery::Busy;
        }
        shared.version = Some(message.version);
        if !is_own {
            let MemberChanges { added, removed } = &message.changes;
            for member in added {
                self.add_remote(&mut home, &message.node, member, app, cores, now);
            }
            for user_id in removed {
                self.remove_remote(&mut home, &message.node, user_id, cores, now);
            }
            self.report_changes(&mut home, cores, now);
        }
        Delivery::Delivered
    }

    /// Makes the members of the other nodes equal to those of the log. Adds first, so that a user who
    /// moved to another node stays.
    pub(super) fn replace_members(
        &self,
        home: &mut Home,
        state: &MembersState,
        app: &AppSettings,
        cores: &Cores,
        now: Timestamp,
    ) {
        for (node, members) in &state.nodes {
            for member in members {
                self.add_remote(home, node, member, app, cores, now);
            }
        }
        for (node, user_id) in absent(home, state) {
            self.remove_remote(home, &node, &user_id, cores, now);
        }
        self.report_changes(home, cores, now);
        let Some(shared) = &mut home.shared else { return };
        shared.remote.retain(|_, users| !users.is_empty());
        let is_listed = |node: &Arc<str>| state.nodes.iter().any(|(listed, _)| listed == node);
        shared.keeps_absent = !shared.remote.keys().all(is_listed);
        (shared.version, shared.is_compared) = (state.version, true);
    }

    fn add_remote(
        &self,
        home: &mut Home,
        node: &Arc<str>,
        member: &SharedMember,
        app: &AppSettings,
        cores: &Cores,
        now: Timestamp,
    ) {
        let Some(shared) = &mut home.shared else { return };
        match shared.set_remote(node, member) {
            RemoteChange::None => return,
            RemoteChange::Joined => {}
            // Without another connection, the user is a new member, as on a single node.
            RemoteChange::Rejoined => self.remove_user(home, &member.user_id, cores, now),
        }
        let SharedMember { user_id, user_info } = member.clone();
        let member = ListedMember { user_id, user_info };
        let is_new = !home.members.contains(&member.user_id);
        if is_new && home.members.len() >= app.presence.list_max {
            home.members.become_large();
        }
        if is_new && !home.members.is_large() {
            let frame = Frame::text(|out| {
                server_message::member_added(out, self.name.as_str(), member.as_member());
            });
            let message = SubscriberMessage::new(server_message::MEMBER_ADDED, frame, now);
            let audience = Audience::MemberEvents;
            self.send_always(home, cores, SubscriberMessage { audience, ..message });
        }
        home.is_count_due |= is_new;
        if is_new {
            self.report_user(&member.user_id, WatchlistChange::Online, cores);
        }
        home.members.add(member);
    }

    fn remove_remote(
        &self,
        home: &mut Home,
        node: &str,
        user_id: &str,
        cores: &Cores,
        now: Timestamp,
    ) {
        let Some(shared) = &mut home.shared else { return };
        let removed = shared.remote.get_mut(node).and_then(|users| users.remove(user_id));
        if removed.is_some() {
            self.remove_user(home, user_id, cores, now);
        }
    }

    /// Removes a node from those that have a user, and the user if it was the last one.
    fn remove_user(&self, home: &mut Home, user_id: &str, cores: &Cores, now: Timestamp) {
        if home.members.remove(user_id) == MemberChange::Connection {
            return;
        }
        home.is_count_due = true;
        self.report_user(user_id, WatchlistChange::Offline, cores);
        if !home.members.is_large() {
            self.send_removed(home, user_id, cores, now);
        }
    }

    /// Sends changes of a small channel to subscribers that follow them. Those of a large one are sent
    /// at intervals.
    fn report_changes(&self, home: &mut Home, cores: &Cores, now: Timestamp) {
        if home.total() == 0 {
            drop(home.members.become_small());
        }
        if !home.members.is_large() {
            self.send_changes(home, cores, now);
        }
    }
}

/// Returns the members of other nodes that the log does not have, unless they stay for now.
fn absent(home: &Home, state: &MembersState) -> Vec<(Arc<str>, Arc<str>)> {
    let Some(shared) = &home.shared else { return Vec::new() };
    let listed: HashMap<&str, HashSet<&str>> = state
        .nodes
        .iter()
        .map(|(node, members)| (&**node, members.iter().map(|it| &*it.user_id).collect()))
        .collect();
    let mut absent = Vec::new();
    for (node, users) in &shared.remote {
        let listed = listed.get(&**node);
        if listed.is_none() && state.keeps_absent {
            continue;
        }
        let is_absent = |user: &&Arc<str>| !listed.is_some_and(|listed| listed.contains(&***user));
        absent.extend(users.keys().filter(is_absent).map(|it| (Arc::clone(node), Arc::clone(it))));
    }
    absent
}

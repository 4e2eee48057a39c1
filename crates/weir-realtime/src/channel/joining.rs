//! Joining and leaving a channel, and notifying the other subscribers.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::admissions::Admission;
use super::exchange::{
    ChannelGone, Departure, Join, JoinError, JoinRequest, LeaveRequest, TooManyMembers,
};
use super::home::Home;
use super::members::{ListedMember, MemberChange};
use super::{Channel, SubscriberMessage, difference};
use crate::cores::{Audience, Cores};
use crate::frame::Frame;
use crate::pusher::server_message::{self, Joined};
use crate::settings::AppSettings;

/// The shortest time between two full lists to all subscribers. Without it, a channel whose count
/// moves around `list_max` would send a long list to each subscriber every time.
const LIST_INTERVAL: Duration = Duration::from_secs(30);

impl Channel {
    /// Adds a subscriber. Calls `notify` under the lock, so that joins and leaves are reported in
    /// order across all cores.
    pub(crate) fn join(
        &self,
        joining: JoinRequest,
        app: &AppSettings,
        cores: &Cores,
        notify: impl FnOnce(&Join),
    ) -> Result<Join, JoinError> {
        let mut home = self.home();
        home.check_not_gone().map_err(|ChannelGone| JoinError::Gone)?;
        if joining.needs_position && home.is_behind(joining.recover, joining.now) {
            return Err(JoinError::Unsynchronized);
        }
        let JoinRequest { core, member, recover, wants_member_changes, now, .. } = joining;
        let is_new_member = match &member {
            Some(member) => self.admit(&mut home, member, app, cores, now)?,
            None => false,
        };
        if let (Some(member), Some(shared)) = (&member, &mut home.shared) {
            shared.join(member);
        }
        let was_empty = home.total() == 0;
        home.subscribers[core] += 1;
        home.is_count_due |= is_new_member || home.changes_count(self.kind);
        home.member_followers += u32::from(wants_member_changes);
        let history_before = home.history.bytes();
        home.history.trim(now, &app.history);
        let (mut joined, missed) = home.recover(recover, &app.history);
        home.has_sent_position |= joined.position.is_some();
        joined.members_version = wants_member_changes.then(|| home.members.version());
        let join = Join {
            sequence: home.sequence,
            joined,
            missed,
            cache: self.cache_state(&home, app.cache_age_max, now),
            members: member.map(|member| home.listing(member, app.presence.list_max, now)),
            is_new_member,
            was_empty,
            subscribers: home.total(),
            history_change: difference(home.history.bytes(), history_before),
        };
        notify(&join);
        Ok(join)
    }

    /// Adds a user's connection, and notifies the other subscribers if the user is new. Returns
    /// whether it is. The new connection itself joins afterwards, so it is not notified.
    fn admit(
        &self,
        home: &mut Home,
        member: &ListedMember,
        app: &AppSettings,
        cores: &Cores,
        now: Timestamp,
    ) -> Result<bool, JoinError> {
        self.check_room(home, member, app.presence.members_max)?;
        if home.members.contains(&member.user_id) {
            home.members.add(member.clone());
            return Ok(false);
        }
        if home.members.len() >= app.presence.list_max {
            home.members.become_large();
        }
        let is_small = !home.members.is_large();
        let is_reported = is_small && !cores.switches.is_off(server_message::MEMBER_ADDED, now);
        if is_reported {
            let frame = Frame::text(|out| {
                server_message::member_added(out, self.name.as_str(), member.as_member());
            });
            let reserved = home.reserve(cores, frame.wire().len())?;
            let message = SubscriberMessage::new(server_message::MEMBER_ADDED, frame, now);
            let message = SubscriberMessage { audience: Audience::MemberEvents, ..message };
            self.send(home, cores, reserved, message);
        }
        home.members.add(member.clone());
        if is_small {
            self.send_changes(home, cores, now);
        }
        Ok(true)
    }

    /// Checks that a user may be a member: with a shared log, which counts those of all nodes, that it has
    /// admitted the user.
    fn check_room(
        &self,
        home: &mut Home,
        member: &ListedMember,
        max: usize,
    ) -> Result<(), JoinError> {
        let has_room = home.members.contains(&member.user_id) || home.members.len() < max;
        let shared = home.shared.as_mut();
        match shared.and_then(|shared| shared.admission(member, has_room)) {
            Some(Admission::Requested) => Err(JoinError::Unadmitted),
            Some(Admission::Rejected) => Err(TooManyMembers { max }.into()),
            Some(Admission::Admitted) => Ok(()),
            Some(Admission::Undecided) | None if has_room => Ok(()),
            Some(Admission::Undecided) | None => Err(TooManyMembers { max }.into()),
        }
    }

    /// Removes a subscriber. Calls `notify` under the lock, as [`Channel::join`] does.
    pub(crate) fn leave(
        &self,
        request: LeaveRequest<'_>,
        cores: &Cores,
        notify: impl FnOnce(Departure),
    ) -> Departure {
        let mut home = self.home();
        let LeaveRequest { core, user_id, wants_member_changes, now } = request;
        home.subscribers[core] -= 1;
        home.member_followers -= u32::from(wants_member_changes);
        home.touched = now;
        if let (Some(user_id), Some(shared)) = (user_id, &mut home.shared) {
            shared.leave(user_id);
        }
        let is_member_gone =
            user_id.is_some_and(|user_id| home.members.remove(user_id) == MemberChange::User);
        home.is_count_due |= is_member_gone || home.changes_count(self.kind);
        let is_small = !home.members.is_large();
        if let Some(user_id) = user_id.filter(|_| is_member_gone && is_small) {
            self.send_removed(&mut home, user_id, cores, now);
            self.send_changes(&mut home, cores, now);
        }
        if home.total() == 0 {
            // No subscriber has to be notified. The next one gets the list when it joins.
            drop(home.members.become_small());
        }
        let departure = Departure { is_member_gone, subscribers: home.total() };
        notify(departure);
        departure
    }

    /// Makes a large channel small again. Clients that don't follow changes may still show users
    /// that have left, and lack users that joined. They first receive an event for each user that
    /// left, which libraries that only add to their list need. Then they receive the list that a
    /// new subscriber gets: pusher-js and others replace their list with it.
    fn list_members(&self, home: &mut Home, app: &AppSettings, cores: &Cores, now: Timestamp) {
        home.listed_at = Some(now);
        for user_id in home.members.become_small() {
            self.send_removed(home, &user_id, cores, now);
        }
        let position = (app.history.events_max > 0).then(|| home.position());
        home.has_sent_position |= position.is_some();
        let joined = Joined { position, ..Joined::default() };
        let list = home.members.list(None, Duration::ZERO, now);
        let frame = Frame::text(|out| {
            server_message::presence_subscription_succeeded(
                out,
                self.name.as_str(),
                &joined,
                list.members.len(),
                list.members.iter().map(ListedMember::as_member),
            );
        });
        let message = SubscriberMessage::new(server_message::SUBSCRIPTION_SUCCEEDED, frame, now);
        self.send_always(
            home,
            cores,
            SubscriberMessage { audience: Audience::MemberEvents, ..message },
        );
        self.send_count(home, cores, now);
        self.send_changes(home, cores, now);
    }

    pub(super) fn send_removed(
        &self,
        home: &mut Home,
        user_id: &str,
        cores: &Cores,
        now: Timestamp,
    ) {
        let frame = Frame::text(|out| {
            server_message::member_removed(out, self.name.as_str(), user_id);
        });
        let message = SubscriberMessage::new(server_message::MEMBER_REMOVED, frame, now);
        self.send_always(
            home,
            cores,
            SubscriberMessage { audience: Audience::MemberEvents, ..message },
        );
    }

    /// Sends all subscribers the subscription count if it changed, at most once per `interval`.
    /// Returns whether it still has to be sent.
    pub(crate) fn send_count_if_due(
        &self,
        interval: Duration,
        cores: &Cores,
        now: Timestamp,
    ) -> bool {
        let mut home = self.home();
        if !home.is_count_due || home.total() == 0 {
            return false;
        }
        if now.since(home.count_sent_at) < interval {
            return true;
        }
        self.send_count(&mut home, cores, now);
        false
    }

    /// Sends the pending count and member changes of a presence channel whose number of users
    /// exceeded `list_max`: the count to all subscribers, and the changes to those that follow
    /// them. If the channel is small again, sends the full list instead. Returns whether something
    /// still has to be sent.
    pub(crate) fn send_members(&self, app: &AppSettings, cores: &Cores, now: Timestamp) -> bool {
        let mut home = self.home();
        if !home.members.is_large() || home.total() == 0 {
            return false;
        }
        let is_small_again = home.members.len() <= app.presence.list_max;
        let is_listed = |at| now.since(at) < LIST_INTERVAL;
        if is_small_again && !home.listed_at.is_some_and(is_listed) {
            self.list_members(&mut home, app, cores, now);
            return false;
        }
        if home.is_count_due && now.since(home.count_sent_at) >= app.presence.gather {
            self.send_count(&mut home, cores, now);
            self.send_changes(&mut home, cores, now);
        }
        home.is_count_due || is_small_again
    }

    fn send_count(&self, home: &mut Home, cores: &Cores, now: Timestamp) {
        let count = home.count(self.kind);
        (home.count_sent_at, home.is_count_due) = (now, false);
        let frame = Frame::text(|out| {
            server_message::subscription_count(out, self.name.as_str(), count);
        });
        let message = SubscriberMessage::new(server_message::SUBSCRIPTION_COUNT, frame, now);
        self.send_always(home, cores, message);
    }

    /// Sends the member changes since the last message about them, to subscribers that follow
    /// changes.
    pub(super) fn send_changes(&self, home: &mut Home, cores: &Cores, now: Timestamp) {
        let difference = home.members.take_difference();
        if difference.is_empty() || home.member_followers == 0 {
            return;
        }
        let (version, count) = (home.members.version(), home.members.len());
        let frame = Frame::text(|out| {
            server_message::members_changed(
                out,
                self.name.as_str(),
                difference.from..=version,
                count,
                difference.added(),
                difference.removed(),
            );
        });
        let message = SubscriberMessage::new(server_message::MEMBERS_CHANGED, frame, now);
        self.send_always(
            home,
            cores,
            SubscriberMessage { audience: Audience::MemberChanges, ..message },
        );
    }
}

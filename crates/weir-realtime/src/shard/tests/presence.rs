//! Presence channels of a log that several nodes share.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::shared::{EPOCH, core, state, take};
use super::*;
use crate::pusher::position::ChannelPosition;
use crate::shared_log::{
    ChannelKey, ChannelState, Delivery, HeldMembers, MemberChanges, MembersMessage, MembersState,
    SharedMember, UnsentMembers,
};

const ROOM: &str = "presence-room";

fn room() -> ChannelKey {
    ChannelKey { app: "1".into(), channel: ROOM.into() }
}

fn members(users: &[&str]) -> Vec<SharedMember> {
    users.iter().map(|user| SharedMember { user_id: Arc::from(*user), user_info: None }).collect()
}

fn version(offset: u64) -> ChannelPosition {
    ChannelPosition { epoch: EPOCH, offset }
}

/// The log's members of the node `n2`.
fn found(users: &[&str], offset: u64, keeps_absent: bool) -> ChannelState {
    let nodes = match users {
        [] => Vec::new(),
        users => vec![("n2".into(), members(users))],
    };
    let members = Some(MembersState { version: Some(version(offset)), nodes, keeps_absent });
    ChannelState { members, ..state(EPOCH, std::iter::empty(), 0) }
}

fn change(node: &str, added: &[&str], removed: &[&str], offset: u64) -> MembersMessage {
    let removed = removed.iter().map(|user| Arc::from(*user)).collect();
    let changes = MemberChanges { added: members(added), removed };
    MembersMessage { key: room(), node: node.into(), version: version(offset), changes }
}

/// Returns the changes that were not sent to the log: `+` and `-` before the users.
fn unsent(core: &ManualCore) -> Vec<String> {
    let (unsent, has_more) = core.hub().take_member_changes(&room(), 9);
    assert!(!has_more && unsent.requested.is_empty());
    let changes = unsent.changes;
    let added = changes.added.iter().map(|member| format!("+{}", member.user_id));
    let mut all: Vec<String> =
        added.chain(changes.removed.iter().map(|user| format!("-{user}"))).collect();
    all.sort();
    all
}

/// Admits the users that wait for the log, except for some. Returns them.
fn admit(core: &ManualCore, rejected: &[&str]) -> Vec<String> {
    let (unsent, _) = core.hub().take_member_changes(&room(), 9);
    let rejected: Vec<String> = rejected.iter().copied().map(str::to_owned).collect();
    core.hub().settle_admissions(&room(), &unsent.requested, &rejected);
    let mut users: Vec<String> =
        unsent.requested.iter().map(|member| member.user_id.to_string()).collect();
    users.sort();
    users
}

/// A core with a client that has joined as ada, beside the members of `n2`.
fn joined(users: &[&str]) -> (ManualCore, (SessionKey, SocketId)) {
    let (core, _log) = core();
    assert!(core.hub().begin_log_session(|_| true).is_empty());
    let client = core.connect_client();
    drop(take(&core, client));
    core.join(client, ROOM, "ada");
    assert!(take(&core, client).is_empty(), "it waits for the members");
    core.hub().synchronize(&room(), &found(users, 1, false));
    core.requeue(client);
    assert!(take(&core, client).is_empty(), "it waits until the log admits the user");
    assert_eq!(admit(&core, &[]), ["ada"]);
    core.requeue(client);
    let messages = take(&core, client);
    for user in users.iter().chain(&["ada"]) {
        assert!(messages[0].contains(user), "{messages:?}");
    }
    (core, client)
}

fn user_events(core: &ManualCore, client: (SessionKey, SocketId)) -> Vec<String> {
    let name = |message: &String| {
        let message: Value = serde_json::from_str(message).unwrap();
        let data: Value = serde_json::from_str(message["data"].as_str().unwrap()).unwrap();
        let sign = if message["event"] == server_message::MEMBER_ADDED { "+" } else { "-" };
        format!("{sign}{}", data["user_id"].as_str().unwrap())
    };
    take(core, client).iter().map(name).collect()
}

#[test]
fn members_of_other_nodes_are_added_and_removed_once() {
    let (core, client) = joined(&["bob"]);
    let hub = core.hub();
    assert_eq!(
        hub.deliver_members(&change("n2", &["ada", "cy"], &[], 2), false),
        Delivery::Delivered
    );
    assert_eq!(user_events(&core, client), ["+cy"], "ada is there already");
    assert_eq!(hub.deliver_members(&change("n2", &["cy"], &[], 2), false), Delivery::NotNeeded);
    assert_eq!(hub.deliver_members(&change("n2", &[], &["cy"], 4), false), Delivery::Hole);
    assert_eq!(hub.deliver_members(&change("n3", &["cy"], &[], 3), false), Delivery::Delivered);
    let leaving = change("n2", &[], &["cy", "ada", "bob", "dan"], 4);
    assert_eq!(hub.deliver_members(&leaving, false), Delivery::Delivered);
    assert_eq!(user_events(&core, client), ["-bob"], "cy is at n3, and ada here");
    assert_eq!(hub.members("1", ROOM, None, 9).unwrap().total, 2);
    let own = change("own", &["ada"], &[], 5);
    assert_eq!(hub.deliver_members(&own, true), Delivery::Delivered);
    assert_eq!(hub.held_channel(&room()).unwrap().members, HeldMembers::Known(Some(version(5))));
}

/// Only where the user has no other connection: the information is that of the first one.
#[test]
fn a_user_that_left_another_node_and_returned_with_other_information_is_a_new_member() {
    let (core, client) = joined(&["bob"]);
    let hub = core.hub();
    let returned = |user: &str, offset| {
        let mut message = change("n2", &[user], &[], offset);
        let info = RawValue::from_string("{\"name\":1}".to_owned()).unwrap();
        message.changes.added[0].user_info = Some(Arc::from(info));
        message
    };
    assert_eq!(hub.deliver_members(&returned("bob", 2), false), Delivery::Delivered);
    assert_eq!(user_events(&core, client), ["-bob", "+bob"]);
    let info = || hub.members("1", ROOM, None, 9).unwrap().members[1].user_info.clone();
    assert_eq!(info().as_deref(), Some("{\"name\":1}"));
    assert_eq!(hub.deliver_members(&returned("bob", 3), false), Delivery::Delivered);
    assert_eq!(hub.deliver_members(&change("n3", &["bob"], &[], 4), false), Delivery::Delivered);
    assert_eq!(hub.deliver_members(&change("n2", &["bob"], &[], 5), false), Delivery::Delivered);
    assert!(take(&core, client).is_empty(), "bob is at n3 as well");
    assert_eq!(info().as_deref(), Some("{\"name\":1}"));
}

#[test]
fn the_log_is_told_of_a_users_first_and_last_connection() {
    let (core, client) = joined(&["bob"]);
    assert!(unsent(&core).is_empty(), "the log has admitted ada");
    let other = core.connect_client();
    core.join(other, ROOM, "ada");
    assert!(unsent(&core).is_empty());
    core.unsubscribe(client.0, ROOM);
    assert!(unsent(&core).is_empty());
    core.unsubscribe(other.0, ROOM);
    core.hub().clock.advance(std::time::Duration::from_secs(200));
    core.remove_expired();
    assert_eq!(unsent(&core), ["-ada"], "the channel stays until the log knows");
    core.join(other, ROOM, "ada");
    assert_eq!(admit(&core, &[]), ["ada"]);
    core.requeue(other);
    assert_eq!(core.hub().begin_log_session(|_| true), [room()]);
    assert_eq!(unsent(&core), ["+ada"], "all members, for a new connection to the log");
    assert_eq!(core.hub().held_channel(&room()).unwrap().members, HeldMembers::Unknown);
    core.hub().end_log_session(|_| true);
    core.unsubscribe(other.0, ROOM);
    assert!(unsent(&core).is_empty(), "there is nobody to be told");
}

#[test]
fn a_user_joins_once_the_log_has_admitted_it() {
    let (core, _client) = joined(&["bob"]);
    let [cy, dan, bob] = std::array::from_fn(|_| {
        let client = core.connect_client();
        drop(take(&core, client));
        client
    });
    for (client, user) in [(cy, "cy"), (dan, "dan"), (bob, "bob")] {
        core.join(client, ROOM, user);
        core.requeue(client);
        assert!(take(&core, client).is_empty(), "also bob, who is at another node");
    }
    assert_eq!(admit(&core, &["dan"]), ["bob", "cy", "dan"]);
    for (client, text) in
        [(cy, "subscription_succeeded"), (dan, "members_max"), (bob, "subscription_succeeded")]
    {
        core.requeue(client);
        let messages = take(&core, client);
        assert!(messages.iter().any(|message| message.contains(text)), "{messages:?}");
    }
    assert_eq!(core.hub().members("1", ROOM, None, 9).unwrap().total, 3);
    assert!(unsent(&core).is_empty());
    core.join(dan, ROOM, "dan");
    assert_eq!(admit(&core, &[]), ["dan"], "a rejected user may try again");
}

#[test]
fn a_user_whose_connection_ends_while_it_waits_is_removed() {
    let (core, _client) = joined(&["bob"]);
    for replies in [false, true] {
        let cy = core.connect_client();
        core.join(cy, ROOM, "cy");
        assert_eq!(core.hub().node_subscriptions(&room()).count, 1, "that of ada");
        if replies {
            assert_eq!(admit(&core, &[]), ["cy"]);
        }
        core.break_socket(ManualConnection { key: cy.0, socket_id: cy.1 });
        assert_eq!(unsent(&core), ["-cy"]);
    }
}

/// The first user of a channel waits: its webhook must not come before that of the channel.
#[test]
fn a_channel_is_occupied_before_it_has_a_member() {
    let (core, _log) = core();
    let client = core.connect_client();
    core.join(client, ROOM, "ada");
    core.hub().synchronize(&room(), &found(&[], 1, false));
    core.requeue(client);
    assert_eq!(core.hub().node_subscriptions(&room()).count, 1);
    core.break_socket(ManualConnection { key: client.0, socket_id: client.1 });
    assert_eq!(core.hub().node_subscriptions(&room()).count, 0);
}

#[test]
fn without_the_log_each_node_applies_the_limit_to_the_members_that_it_knows() {
    let (core, _client) = joined(&["bob"]);
    let cy = core.connect_client();
    drop(take(&core, cy));
    core.join(cy, ROOM, "cy");
    core.hub().end_log_session(|_| true);
    core.requeue(cy);
    assert!(take(&core, cy)[0].contains("subscription_succeeded"));
}

#[test]
fn changes_that_could_not_be_sent_are_sent_again_unless_the_user_changed_since() {
    let (core, client) = joined(&[]);
    let other = core.connect_client();
    core.join(other, ROOM, "bob");
    let (mut sent, _) = core.hub().take_member_changes(&room(), 9);
    assert_eq!((sent.requested.len(), sent.len()), (1, 1));
    sent.changes = MemberChanges { added: members(&["ada"]), removed: vec!["cy".into()] };
    core.unsubscribe(client.0, ROOM);
    assert!(core.hub().return_member_changes(&room(), sent.clone()));
    let (again, _) = core.hub().take_member_changes(&room(), 9);
    let mut removed = again.changes.removed;
    removed.sort();
    assert_eq!((again.changes.added.len(), removed), (0, vec!["ada".into(), "cy".into()]));
    assert!(again.requested.is_empty(), "the members that are known decide");
    drop(take(&core, other));
    core.requeue(other);
    assert!(take(&core, other)[0].contains("subscription_succeeded"));
    assert_eq!(unsent(&core), ["+bob"]);
    let gone = ChannelKey { app: "1".into(), channel: "presence-gone".into() };
    assert!(!core.hub().return_member_changes(&gone, UnsentMembers::default()));
}

#[test]
fn members_that_the_log_lacks_for_a_while_stay() {
    let (core, client) = joined(&["bob", "cy"]);
    let hub = core.hub();
    let _ = hub.begin_log_session(|_| true);
    assert_eq!(hub.deliver_members(&change("n2", &[], &["bob"], 2), false), Delivery::Hole);
    hub.synchronize(&room(), &found(&[], 7, true));
    assert_eq!(hub.held_channel(&room()).unwrap().members, HeldMembers::Unknown);
    assert_eq!(hub.deliver_members(&change("n4", &["bob"], &[], 8), false), Delivery::Delivered);
    assert!(take(&core, client).is_empty());
    let nodes = vec![("n4".into(), members(&["bob", "dan"]))];
    let state = MembersState { version: Some(version(9)), nodes, keeps_absent: false };
    hub.synchronize(&room(), &ChannelState { members: Some(state), ..found(&[], 9, false) });
    assert_eq!(user_events(&core, client), ["+dan", "-cy"]);
    assert_eq!(hub.held_channel(&room()).unwrap().members, HeldMembers::Known(Some(version(9))));
}

#[test]
fn changes_of_members_wait_for_room_on_the_cores() {
    let (core, client) = joined(&[]);
    let waiting = core.fill();
    let come = change("n2", &["bob"], &[], 2);
    assert_eq!(core.hub().deliver_members(&come, false), Delivery::Busy);
    let comparison = core.hub().synchronize(&room(), &found(&["bob"], 2, false));
    assert!(!comparison.is_complete);
    drop(waiting);
    assert!(core.hub().synchronize(&room(), &found(&["bob"], 2, false)).is_complete);
    assert_eq!(user_events(&core, client), ["+bob"]);
}

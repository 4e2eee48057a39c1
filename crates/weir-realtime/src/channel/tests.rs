use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use weir_base::secret::Secret;

use super::*;
use crate::frame::Draft;
use crate::pusher::limits::PusherLimits;
use crate::pusher::server_message;
use crate::settings::Settings;

const NOW: Timestamp = Timestamp::from_millis(1_000);
const SECOND: Duration = Duration::from_secs(1);

struct ChannelFixture {
    channel: Channel,
    app: AppSettings,
    cores: Cores,
}

/// Returns a presence channel that becomes large with its second user.
fn fixture() -> ChannelFixture {
    let name = ChannelName::parse("presence-room", &Settings::default().limits.pusher).unwrap();
    let mut app = AppSettings::new("1", "key", Secret::new("secret"));
    app.presence.list_max = 1;
    app.presence.gather = SECOND;
    ChannelFixture {
        channel: Channel::new(ChannelId(1), name, 1, Arc::default(), NOW),
        app,
        cores: Cores::new(1, 100, 100_000),
    }
}

impl ChannelFixture {
    fn join(&self, user_id: &str, now: Timestamp) -> Join {
        let member = Some(ListedMember { user_id: Arc::from(user_id), user_info: None });
        let joining = JoinRequest {
            core: 0,
            member,
            recover: None,
            needs_position: true,
            wants_member_changes: true,
            now,
        };
        self.channel.join(joining, &self.app, &self.cores, |_| {}).unwrap()
    }

    fn leave(&self, user_id: &str, now: Timestamp) {
        let user_id = Some(user_id);
        let leaving = LeaveRequest { core: 0, user_id, wants_member_changes: true, now };
        self.channel.leave(leaving, &self.cores, |_| {});
    }

    /// Takes the messages sent since the last call, as text.
    fn sent(&self) -> Vec<String> {
        let mut messages = VecDeque::new();
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.cores.get(0).mailbox.poll_take(&mut context, &mut messages);
        let frames = messages.into_iter().filter_map(|message| match message {
            CoreMessage::Broadcast(broadcast) => Some(broadcast.frame),
            _ => None,
        });
        frames.map(|frame| String::from_utf8(frame.json().to_vec()).unwrap()).collect()
    }
}

#[test]
fn followers_of_a_large_channel_learn_of_swapped_users() {
    let fixture = fixture();
    fixture.join("ada", NOW);
    fixture.join("grace", NOW);
    assert!(!fixture.channel.send_members(&fixture.app, &fixture.cores, NOW), "told");
    fixture.sent();
    fixture.leave("grace", NOW);
    fixture.join("alan", NOW);
    assert!(fixture.channel.send_members(&fixture.app, &fixture.cores, NOW), "gathered");
    assert_eq!(fixture.sent(), Vec::<String>::new());
    assert!(!fixture.channel.send_members(&fixture.app, &fixture.cores, NOW + SECOND));
    let sent = fixture.sent();
    // The count, which a client that joined in between may not know, and the changes.
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[1].contains("alan") && sent[1].contains("grace"), "{sent:?}");
}

fn channel() -> Channel {
    let name = ChannelName::parse("presence-x", &PusherLimits::default()).unwrap();
    Channel::new(ChannelId(1), name, 1, Arc::default(), NOW)
}

fn joining(user: &str) -> JoinRequest {
    let member = Some(ListedMember { user_id: user.into(), user_info: None });
    JoinRequest {
        core: 0,
        member,
        recover: None,
        needs_position: true,
        wants_member_changes: false,
        now: NOW,
    }
}

const fn leaving(user: &str) -> LeaveRequest<'_> {
    LeaveRequest { core: 0, user_id: Some(user), wants_member_changes: false, now: NOW }
}

/// Takes the messages for one core. Returns their names and the counts in them.
fn sent(cores: &Cores) -> Vec<(String, Option<u64>)> {
    let mut messages = std::collections::VecDeque::new();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = cores.get(0).mailbox.poll_take(&mut context, &mut messages);
    let message = |message| {
        let CoreMessage::Broadcast(broadcast) = message else { panic!("{message:?}") };
        let message: serde_json::Value = serde_json::from_slice(broadcast.frame.json()).unwrap();
        let data = message["data"].as_str().unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let name = message["event"].as_str().unwrap();
        let name = name.strip_prefix("pusher_internal:").unwrap();
        (name.to_owned(), data["subscription_count"].as_u64())
    };
    messages.into_iter().map(message).collect()
}

/// Up to `list_max` users, subscribers receive the list; above it, only the count.
#[test]
fn a_presence_channel_is_large_above_list_max() {
    let (channel, cores) = (channel(), Cores::new(1, 100, 100_000));
    let mut app = AppSettings::new("1", "key", Secret::new("secret"));
    app.presence.list_max = 2;
    let join = |user| {
        let join = channel.join(joining(user), &app, &cores, |_| {}).unwrap();
        let listing = join.members.unwrap();
        (listing.members.len(), listing.count, sent(&cores))
    };
    let added = ("member_added".to_owned(), None);
    assert_eq!(join("a"), (1, 1, vec![]), "nobody else is there");
    assert_eq!(join("b"), (2, 2, vec![added]), "a full list at list_max");
    assert_eq!(join("c"), (1, 3, vec![]), "its own only");
    let leave = |user| {
        channel.leave(leaving(user), &cores, |_| {});
        sent(&cores)
    };
    assert_eq!(leave("c"), [], "nobody was told of it");
    assert_eq!(leave("b"), [], "nor of this, before all are shown the list again");
    assert!(!channel.send_members(&app, &cores, NOW), "nothing is left to be told");
    let removed = ("member_removed".to_owned(), None);
    let listed = ("subscription_succeeded".to_owned(), None);
    let count = ("subscription_count".to_owned(), Some(1));
    assert_eq!(sent(&cores), [removed.clone(), listed, count]);
    join("d");
    assert_eq!(leave("d"), [removed], "small again");
    assert!(!channel.send_members(&app, &cores, NOW));
    assert_eq!(sent(&cores), []);
}

/// Without a limit, each leave and join would send a long list to all subscribers.
#[test]
fn a_fluctuating_channel_sends_its_list_at_intervals() {
    let budget = Room::new();
    for user in ["a", "b", "c"] {
        budget.join(user);
    }
    budget.leave("c");
    assert_eq!(budget.tell(NOW), ["=ab"]);
    budget.join("c");
    budget.leave("b");
    assert_eq!(budget.tell(NOW + SECOND), [""; 0]);
    assert_eq!(budget.join("d"), [""; 0], "large again");
    budget.leave("a");
    assert_eq!(budget.tell(NOW + SECOND * 29), [""; 0]);
    assert_eq!(budget.tell(NOW + SECOND * 30), ["-a", "-b", "=cd"]);
}

/// A channel with `list_max` 2. Messages about users are shown as `+a`, `-a`, `=ab`.
struct Room {
    channel: Channel,
    cores: Cores,
    app: AppSettings,
}

impl Room {
    fn new() -> Self {
        let mut app = AppSettings::new("1", "key", Secret::new("secret"));
        app.presence.list_max = 2;
        Self { channel: channel(), cores: Cores::new(1, 100, 100_000), app }
    }

    fn join(&self, user: &str) -> Vec<String> {
        self.channel.join(joining(user), &self.app, &self.cores, |_| {}).unwrap();
        self.told()
    }

    fn leave(&self, user: &str) -> Vec<String> {
        self.channel.leave(leaving(user), &self.cores, |_| {});
        self.told()
    }

    /// Does the periodic work of cores, and returns the messages about users.
    fn tell(&self, now: Timestamp) -> Vec<String> {
        self.channel.send_members(&self.app, &self.cores, now);
        self.told()
    }

    fn told(&self) -> Vec<String> {
        let mut messages = VecDeque::new();
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.cores.get(0).mailbox.poll_take(&mut context, &mut messages);
        let user = |message| {
            let CoreMessage::Broadcast(broadcast) = message else { panic!("{message:?}") };
            let message: serde_json::Value =
                serde_json::from_slice(broadcast.frame.json()).unwrap();
            let data: serde_json::Value =
                serde_json::from_str(message["data"].as_str().unwrap()).unwrap();
            let user = data["user_id"].as_str();
            match message["event"].as_str().unwrap() {
                "pusher_internal:member_added" => Some(format!("+{}", user.unwrap())),
                "pusher_internal:member_removed" => Some(format!("-{}", user.unwrap())),
                "pusher_internal:subscription_succeeded" => {
                    let ids = data["presence"]["ids"].as_array().unwrap().iter();
                    let mut ids: Vec<_> = ids.map(|id| id.as_str().unwrap()).collect();
                    ids.sort_unstable();
                    Some(format!("={}", ids.concat()))
                }
                _ => None,
            }
        };
        let mut told: Vec<String> = messages.into_iter().filter_map(user).collect();
        told.sort_unstable();
        told
    }
}

/// Otherwise clients that knew these users would show them forever.
#[test]
fn users_that_left_a_large_channel_are_reported_when_it_is_small_again() {
    let budget = Room::new();
    budget.join("a");
    budget.join("b");
    assert_eq!(budget.join("c"), [""; 0], "large");
    assert_eq!(budget.leave("b"), [""; 0]);
    assert_eq!(budget.leave("c"), [""; 0]);
    assert_eq!(budget.tell(NOW), ["-b", "=a"], "small");
    assert_eq!(budget.join("d"), ["+d"]);
    assert_eq!(budget.leave("d"), ["-d"], "told once");
}

#[test]
fn unknown_and_returned_users_are_not_reported_as_left() {
    let budget = Room::new();
    budget.join("a");
    budget.join("b");
    for user in ["c", "d"] {
        budget.join(user);
    }
    budget.leave("b");
    budget.join("b");
    budget.leave("c");
    budget.leave("d");
    budget.leave("a");
    assert_eq!(budget.tell(NOW), ["-a", "=b"], "b is there, and c and d nobody has seen");
    budget.join("e");
    budget.join("f");
    budget.leave("b");
    budget.leave("e");
    assert_eq!(
        budget.tell(NOW + SECOND * 30),
        ["-b", "-e", "=f"],
        "b left a large channel this time"
    );
}

/// The second connection of a present user receives the whole list, including other users.
#[test]
fn users_on_a_sent_list_count_as_known() {
    let budget = Room::new();
    for user in ["a", "b", "c"] {
        budget.join(user);
    }
    budget.leave("b");
    budget.join("a");
    budget.leave("c");
    assert_eq!(budget.tell(NOW), ["-b", "-c", "=a"], "a has seen c");
}

#[test]
fn joins_and_leaves_are_reported_in_order() {
    let (channel, cores) = (channel(), Cores::new(1, 100, 10_000));
    let app = AppSettings::new("1", "key", Secret::new("secret"));
    let is_held = || channel.home.try_lock().is_err();
    let mut told = 0;
    let join = channel.join(joining("ada"), &app, &cores, |join| {
        told += 1;
        assert!(is_held() && join.was_empty && join.is_new_member);
    });
    join.unwrap();
    channel.leave(leaving("ada"), &cores, |left| {
        told += 1;
        assert!(is_held() && left.subscribers == 0 && left.is_member_gone);
    });
    assert_eq!(told, 2);
}

/// The channel may be removed after the registry returned it, and before it is locked.
#[test]
fn a_removed_channel_rejects_subscriptions_and_events() {
    let (channel, cores) = (channel(), Cores::new(1, 100, 10_000));
    let app = AppSettings::new("1", "key", Secret::new("secret"));
    assert_eq!(channel.remove_expired(&app, NOW), (0, true));
    let join = channel.join(joining("ada"), &app, &cores, |_| panic!("nobody joined"));
    assert!(matches!(join, Err(JoinError::Gone)));
    let event = server_message::ChannelEvent {
        event: "e",
        channel: "presence-x",
        data: Some(""),
        user_id: None,
        position: None,
    };
    let publication = Publication {
        draft: Draft::new(&event),
        audience: Audience::Everyone,
        event: "e",
        data: "",
        retention: Retention::Nothing,
        now: NOW,
        trace: None,
    };
    assert_eq!(channel.publish(publication, &cores), Err(TryPublishError::Gone));
}

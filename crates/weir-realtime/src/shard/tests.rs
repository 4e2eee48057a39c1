//! Tests of a shard, with a core that the test drives.

mod any_order;
mod budget;
mod endings;
mod presence;
mod shared;
mod streams;

use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use weir_base::secret::Secret;
use weir_base::switch::Off;
use weir_base::token_bucket::Rate;

use super::close_reason::CloseReason;
use super::manual_core::{Leftovers, ManualConnection, ManualCore};
use super::*;
use crate::cores::{BudgetReservation, DirectPayload, SessionKey};
use crate::frame::Frame;
use crate::pusher::channel::ChannelName;
use crate::pusher::close_code::CloseCode;
use crate::pusher::limits::PusherLimits;
use crate::pusher::server_message;
use crate::pusher::signature::Token;
use crate::pusher::socket_id::SocketId;
use crate::settings::{AppSettings, Settings};
use crate::webhooks::{DropReason, ExtraHeaders, Kinds, WebhookEndpoint, WebhookKind};
use crate::websocket::{MaskKey, Message};

const MASK: MaskKey = MaskKey::new([1, 2, 3, 4]);

fn app() -> AppSettings {
    AppSettings::new("1", "key", Secret::new("secret"))
}

/// Runs a test with one core of a hub with one app.
fn with_core(test: impl FnOnce(&ManualCore)) {
    test(&ManualCore::new(Settings::default(), vec![app()]));
}

fn frame(event: &str, data: &Value) -> Vec<u8> {
    let text = json!({ "event": event, "data": data }).to_string();
    let mut frame = Vec::new();
    Message::Text(&text).encode(&mut frame, Some(MASK));
    frame
}

impl ManualCore {
    fn connect_client(&self) -> (SessionKey, SocketId) {
        let ManualConnection { key, socket_id } = self.connect("key").unwrap();
        (key, socket_id)
    }

    fn send_event(&self, key: SessionKey, event: &str, data: &Value) {
        let text = json!({ "event": event, "data": data }).to_string();
        self.write(key, &Message::Text(&text), Some(MASK));
    }

    fn write(&self, key: SessionKey, message: &Message<'_>, mask: Option<MaskKey>) {
        let mut frame = Vec::new();
        message.encode(&mut frame, mask);
        let state = &mut *self.0.state.borrow_mut();
        state.input[..frame.len()].copy_from_slice(&frame);
        self.0.on_input(state, key, frame.len());
    }

    fn subscribe(&self, key: SessionKey, channel: &str) {
        self.send_event(key, "pusher:subscribe", &json!({ "channel": channel }));
        assert_eq!(self.take_event_names(key), ["pusher_internal:subscription_succeeded"]);
    }

    fn unsubscribe(&self, key: SessionKey, channel: &str) {
        self.send_event(key, "pusher:unsubscribe", &json!({ "channel": channel }));
    }

    fn publish_event(&self, channel: &str, name: &str) {
        self.publish("1", channel, (name, ""), None).unwrap();
    }

    fn send(&self, to: &[SocketId], payload: &DirectPayload) {
        let cores = &self.0.hub.cores;
        cores.send(cores.address(to, 0).unwrap(), payload);
    }

    fn sign_in(&self, (key, socket_id): (SessionKey, SocketId), user: &str, watchlist: &[&str]) {
        let user_data = json!({ "id": user, "watchlist": watchlist }).to_string();
        let secret = Secret::new("secret");
        let token = Token { key: "key", secret: &secret };
        let signature = token.sign(format!("{socket_id}::user::{user_data}").as_bytes());
        let auth = format!("key:{signature}");
        self.send_event(key, "pusher:signin", &json!({ "auth": auth, "user_data": user_data }));
    }

    fn join(&self, who: (SessionKey, SocketId), channel: &str, user: &str) {
        let frame_bytes = Self::joining(who, channel, user);
        let state = &mut *self.0.state.borrow_mut();
        state.input[..frame_bytes.len()].copy_from_slice(&frame_bytes);
        self.0.on_input(state, who.0, frame_bytes.len());
    }

    /// Returns a signed subscription to a presence channel.
    fn joining((_, socket_id): (SessionKey, SocketId), channel: &str, user: &str) -> Vec<u8> {
        let channel_data = json!({ "user_id": user }).to_string();
        let secret = Secret::new("secret");
        let token = Token { key: "key", secret: &secret };
        let signature = token.sign(format!("{socket_id}:{channel}:{channel_data}").as_bytes());
        let auth = format!("key:{signature}");
        let data = json!({ "channel": channel, "auth": auth, "channel_data": channel_data });
        frame("pusher:subscribe", &data)
    }

    /// Retries a postponed request, as the connection's task does.
    fn requeue(&self, (key, socket_id): (SessionKey, SocketId)) {
        self.0.requeue();
        self.0.resume_waiting();
        let _ = self.receive(ManualConnection { key, socket_id }, b"");
    }

    fn is_postponed(&self, key: SessionKey) -> bool {
        self.0.state.borrow_mut().session(key).postponed.is_some()
    }

    /// Reserves all of the core's room.
    fn fill(&self) -> Vec<BudgetReservation> {
        let budget = &self.0.hub.cores.get(0).budget;
        std::iter::from_fn(|| budget.reserve(0).ok()).collect()
    }

    /// Takes the messages queued for a connection.
    fn messages(&self, key: SessionKey) -> Vec<Value> {
        let socket_id = self.0.state.borrow_mut().session(key).socket_id;
        let messages = self.take(ManualConnection { key, socket_id }).into_iter();
        messages.map(|json| serde_json::from_str(&json).unwrap()).collect()
    }

    /// Takes the messages queued for a connection, and returns their names.
    fn take_event_names(&self, key: SessionKey) -> Vec<String> {
        let messages = self.messages(key).into_iter();
        messages.map(|message| message["event"].as_str().unwrap().to_owned()).collect()
    }

    fn budget(&self) -> (usize, usize) {
        self.leftovers().budget
    }
}

#[test]
fn a_direct_message_does_not_reach_a_reused_session_key() {
    with_core(|core| {
        let (first, gone) = core.connect_client();
        core.0.close(&mut core.0.state.borrow_mut(), first, CloseReason::Gone);
        let (second, _) = core.connect_client();
        assert_eq!(first, second, "the number is given again");
        core.send(&[gone], &DirectPayload::Frame(Frame::text(server_message::ping)));
        core.send(&[gone], &DirectPayload::Close(CloseCode::Unauthorized));
        core.deliver();
        assert!(core.take_event_names(second).is_empty());
        assert!(!core.0.state.borrow_mut().session(second).is_closing());
    });
}

#[test]
fn no_message_follows_a_close_frame() {
    with_core(|core| {
        let (key, to) = core.connect_client();
        core.send(&[to], &DirectPayload::Close(CloseCode::Unauthorized));
        core.send(&[to], &DirectPayload::Frame(Frame::text(server_message::ping)));
        core.deliver();
        assert_eq!(core.take_event_names(key), ["pusher:error"]);
    });
}

#[test]
fn events_in_transit_to_an_emptied_channel_are_dropped() {
    with_core(|core| {
        let (one, _) = core.connect_client();
        for sorts_in in [false, true] {
            core.subscribe(one, "a");
            core.publish_event("a", "for-nobody");
            if sorts_in {
                core.receive_messages();
            }
            core.unsubscribe(one, "a");
            core.subscribe(one, "b");
            core.subscribe(one, "a");
            core.deliver();
            assert!(core.take_event_names(one).is_empty(), "sorted in: {sorts_in}");
            assert_eq!(core.budget(), (0, 0), "its room is given back");
            core.publish_event("b", "for-b");
            core.deliver();
            assert_eq!(core.take_event_names(one), ["for-b"]);
            core.unsubscribe(one, "a");
            core.unsubscribe(one, "b");
        }
        assert!(core.0.state.borrow().channels.is_empty());
    });
}

#[test]
fn an_emptied_channel_is_not_delivered() {
    with_core(|core| {
        let (one, _) = core.connect_client();
        core.subscribe(one, "a");
        core.publish_event("a", "for-nobody");
        core.receive_messages();
        core.unsubscribe(one, "a");
        assert!(core.0.state.borrow().ready.is_empty());
        assert_eq!(core.budget(), (0, 0));
    });
}

/// The recovery includes the event, so the queued message must not deliver it again.
#[test]
fn events_in_transit_reach_a_recovering_client_once() {
    with_core(|core| {
        let (one, _) = core.connect_client();
        core.subscribe(one, "a");
        let channel = core.0.hub.app_by_id("1").unwrap().channels.get("a").unwrap();
        let epoch = channel.info().position.epoch.to_string();
        core.publish_event("a", "e");
        let (two, _) = core.connect_client();
        let recover = json!({ "channel": "a", "recover": { "epoch": epoch, "offset": 0 } });
        core.send_event(two, "pusher:subscribe", &recover);
        core.publish_event("a", "f");
        core.deliver();
        let answer = "pusher_internal:subscription_succeeded";
        assert_eq!(core.take_event_names(one), ["e", "f"]);
        assert_eq!(core.take_event_names(two), [answer, "e", "f"]);
        assert_eq!(core.budget(), (0, 0));
    });
}

#[test]
fn a_new_connection_does_not_overtake_waiting_subscriptions() {
    with_core(|core| {
        let interval = std::time::Duration::from_secs(1);
        let mut settings = Settings::default();
        settings.limits.subscribe_rate = Rate::new(1, interval);
        core.0.hub.reload(settings, vec![app()]);
        let [(one, _), (two, _), (three, _)] =
            [core.connect_client(), core.connect_client(), core.connect_client()];
        let may = |key| {
            let state = &mut *core.0.state.borrow_mut();
            state.session(key).unpaid_subscriptions == 0 || core.0.may_subscribe(state, key)
        };
        assert!(may(one));
        assert!(!may(two));
        core.0.hub.clock.advance(interval);
        assert!(!may(three), "two was there before");
        assert!(!core.0.resume_waiting(), "three still waits");
        assert!(may(two) && !may(three));
        core.0.hub.clock.advance(interval);
        assert!(core.0.resume_waiting());
        assert!(may(three));
    });
}

#[test]
fn a_connection_takes_one_token_per_subscription() {
    with_core(|core| {
        let (one, _) = core.connect_client();
        let unpaid_subscriptions = |expected, why| {
            assert_eq!(
                core.0.state.borrow_mut().session(one).unpaid_subscriptions,
                expected,
                "{why}"
            );
        };
        unpaid_subscriptions(1, "before anything is read");
        core.0.state.borrow_mut().session(one).unpaid_subscriptions = 0;
        core.subscribe(one, "a");
        unpaid_subscriptions(0, "the first one is paid");
        core.subscribe(one, "b");
        core.subscribe(one, "c");
        unpaid_subscriptions(2, "those that follow");
    });
}

/// Returns how many webhooks were enqueued. No worker runs, so each is counted as dropped.
fn webhooks_told(core: &ManualCore) -> u64 {
    core.0.hub.webhooks.metrics().dropped(DropReason::Ended).get()
}

#[test]
fn a_switched_off_client_event_sends_no_webhook() {
    let mut app = app();
    app.has_client_events = true;
    let endpoint = WebhookEndpoint {
        url: "http://127.0.0.1:1/hook".parse().unwrap(),
        kinds: [WebhookKind::ClientEvent].into_iter().collect::<Kinds>(),
        channel_prefix: "".into(),
        headers: ExtraHeaders::default(),
    };
    let mut hooks = (*app.hooks).clone();
    hooks.endpoints.push(Arc::new(endpoint));
    app.hooks = Arc::new(hooks);
    let core = ManualCore::new(Settings::default(), vec![app]);
    let (one, two) = (core.connect_client(), core.connect_client());
    for client in [one, two] {
        core.join(client, "presence-x", "ada");
        core.take_event_names(client.0);
    }
    let event = json!({ "event": "client-typing", "channel": "presence-x", "data": "1" });
    let send_event = || {
        core.write(one.0, &Message::Text(&event.to_string()), Some(MASK));
        core.deliver();
        (core.take_event_names(two.0).len(), webhooks_told(&core))
    };
    assert_eq!(send_event(), (1, 1));
    let pattern = "client-*".parse().unwrap();
    let off = Off { pattern, since_us: 0, until_us: None };
    core.0.hub.switches().turn_off(off, core.now()).unwrap();
    assert_eq!(send_event(), (0, 1), "neither the others nor the application's server");
}

//! A core without sockets, turned by hand: its connections are streams, whose queues are read.

use std::task::{Context, Waker};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::LocalSet;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::Shutdown;

use super::closing::Why;
use super::*;
use crate::frame::Frame;
use crate::hub::{Event, Parts};
use crate::metrics::RealtimeMetrics;
use crate::pusher::channel::ChannelName;
use crate::pusher::close_code::CloseCode;
use crate::pusher::limits::Limits;
use crate::pusher::socket_id::SocketId;
use crate::session::Transport;
use crate::settings::{AppSettings, Settings};
use crate::webhooks::{self, WebhookMetrics, Webhooks};
use crate::websocket::{MaskKey, Message};

/// One core of a hub with one app.
struct Core(Rc<Shard>);

fn with_core(test: impl FnOnce(&Core)) {
    let mut registry = Registry::default();
    let semaphore = Arc::new(Semaphore::new("webhooks", "webhooks_in_flight_max", 1));
    let clock = Clock::manual(weir_base::clock::Timestamp::from_millis(1_000_000));
    let (webhooks, _) = Webhooks::start(
        webhooks::Settings::default(),
        clock.clone(),
        WebhookMetrics::register(&mut registry),
        semaphore,
        Shutdown::new(),
    );
    let metrics = RealtimeMetrics::register(&mut registry);
    let apps = vec![AppSettings::new("1", "key", Secret::new("secret"))];
    let settings = Settings::default();
    let hub = Hub::new(Parts { cores: 1, settings, apps, clock, metrics, webhooks });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        // No task of it ever has its turn: nothing here waits.
        test(&Core(Shard::start(hub, 0, CancellationToken::new())));
    });
}

impl Core {
    fn connect(&self) -> (SessionKey, SocketId) {
        let app = self.0.hub.app_by_id("1").unwrap();
        let place = app.connect().unwrap();
        let state = &mut *self.0.state.borrow_mut();
        self.0.register(state, app, place, Transport::Events)
    }

    fn say(&self, key: SessionKey, event: &str, data: &Value) {
        let text = json!({ "event": event, "data": data }).to_string();
        let mut frame = Vec::new();
        Message::Text(&text).encode(&mut frame, Some(MaskKey::new([1, 2, 3, 4])));
        let state = &mut *self.0.state.borrow_mut();
        state.input[..frame.len()].copy_from_slice(&frame);
        self.0.hear(state, key, frame.len());
    }

    fn subscribe(&self, key: SessionKey, channel: &str) {
        self.say(key, "pusher:subscribe", &json!({ "channel": channel }));
        assert_eq!(self.heard(key), ["pusher_internal:subscription_succeeded"]);
    }

    fn unsubscribe(&self, key: SessionKey, channel: &str) {
        self.say(key, "pusher:unsubscribe", &json!({ "channel": channel }));
    }

    fn publish(&self, channel: &str, name: &str) {
        let app = self.0.hub.app_by_id("1").unwrap();
        let channel = ChannelName::parse(channel, &Limits::default()).unwrap();
        self.0.hub.publish(&app, &channel, Event { name, data: "", except: None }).unwrap();
    }

    /// Sorts in the letters that are there.
    fn open_letters(&self) {
        let mut letters = Letters::new();
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.0.hub.cores.get(0).mailbox.poll_take(&mut context, &mut letters);
        for letter in letters {
            self.0.open(&mut self.0.state.borrow_mut(), letter);
        }
    }

    /// Delivers everything.
    fn deliver(&self) {
        self.open_letters();
        while !self.0.state.borrow().ready.is_empty() {
            self.0.turn(&mut self.0.state.borrow_mut());
        }
    }

    /// The names of what waits for a connection; that is taken.
    fn heard(&self, key: SessionKey) -> Vec<String> {
        let state = &mut *self.0.state.borrow_mut();
        let Some(mut outbox) = state.session(key).outbox.take() else { return Vec::new() };
        let mut text = String::new();
        for wire in outbox.take() {
            crate::sse::write_events(&mut text, &wire);
        }
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let names = data.map(|json| serde_json::from_str::<Value>(json).unwrap()["event"].take());
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    fn waiting(&self) -> (usize, usize) {
        self.0.hub.cores.get(0).room.waiting()
    }
}

#[test]
fn a_letter_is_not_for_who_has_the_number_now() {
    with_core(|core| {
        let (first, gone) = core.connect();
        core.0.close(&mut core.0.state.borrow_mut(), first, Why::Gone);
        let (second, _) = core.connect();
        assert_eq!(first, second, "the number is given again");
        let frame = Frame::text(crate::pusher::server_message::ping);
        core.0.hub.tell(gone, Letter::Direct { to: gone, frame });
        core.0.hub.tell(gone, Letter::Close { to: gone, code: CloseCode::Unauthorized });
        core.deliver();
        assert!(core.heard(second).is_empty());
        assert!(!core.0.state.borrow_mut().session(second).is_closing());
    });
}

#[test]
fn nothing_follows_a_close_frame() {
    with_core(|core| {
        let (key, to) = core.connect();
        let frame = Frame::text(crate::pusher::server_message::ping);
        core.0.hub.tell(to, Letter::Close { to, code: CloseCode::Unauthorized });
        core.0.hub.tell(to, Letter::Direct { to, frame });
        core.deliver();
        assert_eq!(core.heard(key), ["pusher:error"]);
    });
}

#[test]
fn what_is_on_its_way_to_a_channel_that_emptied_reaches_nobody() {
    with_core(|core| {
        let (one, _) = core.connect();
        for sorts_in in [false, true] {
            core.subscribe(one, "a");
            core.publish("a", "for-nobody");
            if sorts_in {
                core.open_letters();
            }
            core.unsubscribe(one, "a");
            core.subscribe(one, "b");
            core.subscribe(one, "a");
            core.deliver();
            assert!(core.heard(one).is_empty(), "sorted in: {sorts_in}");
            assert_eq!(core.waiting(), (0, 0), "its room is given back");
            core.publish("b", "for-b");
            core.deliver();
            assert_eq!(core.heard(one), ["for-b"]);
            core.unsubscribe(one, "a");
            core.unsubscribe(one, "b");
        }
        assert!(core.0.state.borrow().channels.is_empty());
    });
}

#[test]
fn a_channel_that_was_ready_and_emptied_has_no_turn() {
    with_core(|core| {
        let (one, _) = core.connect();
        core.subscribe(one, "a");
        core.publish("a", "for-nobody");
        core.open_letters();
        core.unsubscribe(one, "a");
        assert!(core.0.state.borrow().ready.is_empty());
        assert_eq!(core.waiting(), (0, 0));
    });
}

/// It has the event among what it missed: the letter that is on its way is not for it.
#[test]
fn who_recovers_gets_what_is_on_its_way_once() {
    with_core(|core| {
        let (one, _) = core.connect();
        core.subscribe(one, "a");
        let channel = core.0.hub.app_by_id("1").unwrap().channels.get("a").unwrap();
        let epoch = channel.info().position.epoch.to_string();
        core.publish("a", "e");
        let (two, _) = core.connect();
        let recover = json!({ "channel": "a", "recover": { "epoch": epoch, "offset": 0 } });
        core.say(two, "pusher:subscribe", &recover);
        core.publish("a", "f");
        core.deliver();
        let answer = "pusher_internal:subscription_succeeded";
        assert_eq!(core.heard(one), ["e", "f"]);
        assert_eq!(core.heard(two), [answer, "e", "f"]);
        assert_eq!(core.waiting(), (0, 0));
    });
}

#[test]
fn who_comes_late_does_not_overtake_who_waits_to_subscribe() {
    use weir_base::token_bucket::Rate;
    with_core(|core| {
        let interval = std::time::Duration::from_secs(1);
        let mut settings = Settings::default();
        settings.limits.subscribe_rate = Rate::new(1, interval);
        let apps = vec![AppSettings::new("1", "key", Secret::new("secret"))];
        core.0.hub.reload(settings, apps);
        let [(one, _), (two, _), (three, _)] = [core.connect(), core.connect(), core.connect()];
        let may = |key| {
            let state = &mut *core.0.state.borrow_mut();
            state.session(key).owes == 0 || core.0.may_subscribe(state, key)
        };
        assert!(may(one));
        assert!(!may(two));
        core.0.hub.clock.advance(interval);
        assert!(!may(three), "two was there before");
        assert!(!core.0.let_through(), "three still waits");
        assert!(may(two) && !may(three));
        core.0.hub.clock.advance(interval);
        assert!(core.0.let_through());
        assert!(may(three));
    });
}

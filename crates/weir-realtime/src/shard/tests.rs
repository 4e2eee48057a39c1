//! A core that is turned by hand.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hyper::body::Body;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_base::secret::Secret;
use weir_base::switch::Off;
use weir_base::token_bucket::Rate;

use super::by_hand::{Connection, Core, Leftovers};
use super::closing::Why;
use super::event_stream::{EventStream, Wish};
use super::*;
use crate::frame::Frame;
use crate::hub::{Reservation, What};
use crate::pusher::channel::ChannelName;
use crate::pusher::close_code::CloseCode;
use crate::pusher::limits::Limits;
use crate::pusher::server_message;
use crate::pusher::signature::Token;
use crate::pusher::socket_id::SocketId;
use crate::settings::{AppSettings, Settings};
use crate::webhooks::{DropReason, Endpoint, ExtraHeaders, Kind, Kinds};
use crate::websocket::{MaskKey, Message};

const MASK: MaskKey = MaskKey::new([1, 2, 3, 4]);

fn app() -> AppSettings {
    AppSettings::new("1", "key", Secret::new("secret"))
}

/// One core of a hub with one app.
fn with_core(test: impl FnOnce(&Core)) {
    test(&Core::new(Settings::default(), vec![app()]));
}

fn frame(event: &str, data: &Value) -> Vec<u8> {
    let text = json!({ "event": event, "data": data }).to_string();
    let mut frame = Vec::new();
    Message::Text(&text).encode(&mut frame, Some(MASK));
    frame
}

impl Core {
    fn enter(&self) -> (SessionKey, SocketId) {
        let Connection { key, socket_id } = self.connect("key").unwrap();
        (key, socket_id)
    }

    fn say(&self, key: SessionKey, event: &str, data: &Value) {
        let text = json!({ "event": event, "data": data }).to_string();
        self.write(key, &Message::Text(&text), Some(MASK));
    }

    fn write(&self, key: SessionKey, message: &Message<'_>, mask: Option<MaskKey>) {
        let mut frame = Vec::new();
        message.encode(&mut frame, mask);
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

    fn tell(&self, channel: &str, name: &str) {
        self.publish("1", channel, (name, ""), None).unwrap();
    }

    fn send(&self, to: &[SocketId], what: &What) {
        let cores = &self.0.hub.cores;
        cores.send(cores.address(to, 0).unwrap(), what);
    }

    fn sign_in(&self, (key, socket_id): (SessionKey, SocketId), user: &str, watchlist: &[&str]) {
        let user_data = json!({ "id": user, "watchlist": watchlist }).to_string();
        let secret = Secret::new("secret");
        let token = Token { key: "key", secret: &secret };
        let signature = token.sign(format!("{socket_id}::user::{user_data}").as_bytes());
        let auth = format!("key:{signature}");
        self.say(key, "pusher:signin", &json!({ "auth": auth, "user_data": user_data }));
    }

    fn join(&self, who: (SessionKey, SocketId), channel: &str, user: &str) {
        let said = Self::joining(who, channel, user);
        let state = &mut *self.0.state.borrow_mut();
        state.input[..said.len()].copy_from_slice(&said);
        self.0.hear(state, who.0, said.len());
    }

    /// With a signature.
    fn joining((_, socket_id): (SessionKey, SocketId), channel: &str, user: &str) -> Vec<u8> {
        let channel_data = json!({ "user_id": user }).to_string();
        let secret = Secret::new("secret");
        let token = Token { key: "key", secret: &secret };
        let signature = token.sign(format!("{socket_id}:{channel}:{channel_data}").as_bytes());
        let auth = format!("key:{signature}");
        let data = json!({ "channel": channel, "auth": auth, "channel_data": channel_data });
        frame("pusher:subscribe", &data)
    }

    /// What was postponed is asked again, as its task does it.
    fn ask_again(&self, (key, socket_id): (SessionKey, SocketId)) {
        self.0.ask_again();
        self.0.let_through();
        let _ = self.hear(Connection { key, socket_id }, b"");
    }

    fn is_postponed(&self, key: SessionKey) -> bool {
        self.0.state.borrow_mut().session(key).postponed.is_some()
    }

    /// As much as the core may have waits for it.
    fn fill(&self) -> Vec<Reservation> {
        let room = &self.0.hub.cores.get(0).room;
        std::iter::from_fn(|| room.reserve(0).ok()).collect()
    }

    /// What waits for a connection; that is taken.
    fn messages(&self, key: SessionKey) -> Vec<Value> {
        let socket_id = self.0.state.borrow_mut().session(key).socket_id;
        let messages = self.take(Connection { key, socket_id }).into_iter();
        messages.map(|json| serde_json::from_str(&json).unwrap()).collect()
    }

    /// The names of that.
    fn heard(&self, key: SessionKey) -> Vec<String> {
        let messages = self.messages(key).into_iter();
        messages.map(|message| message["event"].as_str().unwrap().to_owned()).collect()
    }

    fn room(&self) -> (usize, usize) {
        self.leftovers().room
    }
}

#[test]
fn a_letter_is_not_for_who_has_the_number_now() {
    with_core(|core| {
        let (first, gone) = core.enter();
        core.0.close(&mut core.0.state.borrow_mut(), first, Why::Gone);
        let (second, _) = core.enter();
        assert_eq!(first, second, "the number is given again");
        core.send(&[gone], &What::Frame(Frame::text(server_message::ping)));
        core.send(&[gone], &What::Close(CloseCode::Unauthorized));
        core.deliver();
        assert!(core.heard(second).is_empty());
        assert!(!core.0.state.borrow_mut().session(second).is_closing());
    });
}

#[test]
fn nothing_follows_a_close_frame() {
    with_core(|core| {
        let (key, to) = core.enter();
        core.send(&[to], &What::Close(CloseCode::Unauthorized));
        core.send(&[to], &What::Frame(Frame::text(server_message::ping)));
        core.deliver();
        assert_eq!(core.heard(key), ["pusher:error"]);
    });
}

#[test]
fn what_is_on_its_way_to_a_channel_that_emptied_reaches_nobody() {
    with_core(|core| {
        let (one, _) = core.enter();
        for sorts_in in [false, true] {
            core.subscribe(one, "a");
            core.tell("a", "for-nobody");
            if sorts_in {
                core.open_letters();
            }
            core.unsubscribe(one, "a");
            core.subscribe(one, "b");
            core.subscribe(one, "a");
            core.deliver();
            assert!(core.heard(one).is_empty(), "sorted in: {sorts_in}");
            assert_eq!(core.room(), (0, 0), "its room is given back");
            core.tell("b", "for-b");
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
        let (one, _) = core.enter();
        core.subscribe(one, "a");
        core.tell("a", "for-nobody");
        core.open_letters();
        core.unsubscribe(one, "a");
        assert!(core.0.state.borrow().ready.is_empty());
        assert_eq!(core.room(), (0, 0));
    });
}

/// It has the event among what it missed: the letter that is on its way is not for it.
#[test]
fn who_recovers_gets_what_is_on_its_way_once() {
    with_core(|core| {
        let (one, _) = core.enter();
        core.subscribe(one, "a");
        let channel = core.0.hub.app_by_id("1").unwrap().channels.get("a").unwrap();
        let epoch = channel.info().position.epoch.to_string();
        core.tell("a", "e");
        let (two, _) = core.enter();
        let recover = json!({ "channel": "a", "recover": { "epoch": epoch, "offset": 0 } });
        core.say(two, "pusher:subscribe", &recover);
        core.tell("a", "f");
        core.deliver();
        let answer = "pusher_internal:subscription_succeeded";
        assert_eq!(core.heard(one), ["e", "f"]);
        assert_eq!(core.heard(two), [answer, "e", "f"]);
        assert_eq!(core.room(), (0, 0));
    });
}

#[test]
fn who_comes_late_does_not_overtake_who_waits_to_subscribe() {
    with_core(|core| {
        let interval = std::time::Duration::from_secs(1);
        let mut settings = Settings::default();
        settings.limits.subscribe_rate = Rate::new(1, interval);
        core.0.hub.reload(settings, vec![app()]);
        let [(one, _), (two, _), (three, _)] = [core.enter(), core.enter(), core.enter()];
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

#[test]
fn a_connection_pays_once_for_each_subscription() {
    with_core(|core| {
        let (one, _) = core.enter();
        let owes = |expected, why| {
            assert_eq!(core.0.state.borrow_mut().session(one).owes, expected, "{why}");
        };
        owes(1, "before anything is read");
        core.0.state.borrow_mut().session(one).owes = 0;
        core.subscribe(one, "a");
        owes(0, "the first one is paid");
        core.subscribe(one, "b");
        core.subscribe(one, "c");
        owes(2, "those that follow");
    });
}

fn open_stream(core: &Core, channel: &str) -> Pin<Box<EventStream>> {
    let app = core.0.hub.app_by_id("1").unwrap();
    let place = app.connect().unwrap();
    let channel = ChannelName::parse(channel, &Limits::default()).unwrap();
    Box::pin(core.0.stream_events(Wish { app, place, channel, after: None }))
}

/// What a stream has for its client; None: nothing at the moment.
fn read(stream: &mut Pin<Box<EventStream>>) -> Option<String> {
    let mut context = Context::from_waker(Waker::noop());
    match stream.as_mut().poll_frame(&mut context) {
        Poll::Pending => None,
        Poll::Ready(frame) => {
            let data = frame.expect("it goes on").unwrap().into_data().unwrap();
            Some(String::from_utf8(data.to_vec()).unwrap())
        }
    }
}

#[test]
fn streams_of_events_wait_until_they_may_subscribe() {
    let interval = std::time::Duration::from_secs(1);
    let mut settings = Settings::default();
    settings.limits.subscribe_rate = Rate::new(1, interval);
    let core = Core::new(settings, vec![app()]);
    let [mut one, mut two] = ["a", "a"].map(|channel| open_stream(&core, channel));
    for stream in [&mut one, &mut two] {
        assert!(read(stream).unwrap().starts_with("retry: "));
    }
    assert!(read(&mut one).unwrap().contains("subscription_succeeded"));
    core.0.let_through();
    assert_eq!(read(&mut two), None, "the bucket is empty");
    assert_eq!(core.leftovers().paced, 1);
    core.tell("a", "e");
    core.deliver();
    core.0.hub.clock.advance(interval);
    assert_eq!(read(&mut two), None, "it stands in the queue");
    core.0.let_through();
    let first = read(&mut two).unwrap();
    assert!(first.contains("subscription_succeeded") && first.contains("\"offset\":1"), "{first}");
    core.tell("a", "f");
    core.deliver();
    assert!(read(&mut two).unwrap().contains("\"event\":\"f\""));
    drop((one, two));
    assert_eq!(core.leftovers().sessions, 0);
}

#[test]
fn a_stream_that_ends_while_it_waits_leaves_nothing() {
    let mut settings = Settings::default();
    settings.limits.subscribe_rate = Rate::new(1, std::time::Duration::from_secs(1));
    let core = Core::new(settings, vec![app()]);
    drop([open_stream(&core, "a"), open_stream(&core, "a")]);
    core.pass(std::time::Duration::from_secs(1_000));
    core.tidy();
    assert_eq!(core.leftovers(), Leftovers::default());
}

/// Who joins a presence channel is told to the others. To pusher-js, an error would be final.
#[test]
fn who_joins_while_a_core_is_full_joins_when_there_is_room() {
    with_core(|core| {
        let (ada, grace) = (core.enter(), core.enter());
        core.join(ada, "presence-x", "ada");
        core.heard(ada.0);
        let full = core.fill();
        let connection = Connection { key: grace.0, socket_id: grace.1 };
        let mut said = Core::joining(grace, "presence-x", "grace");
        said.extend(frame("pusher:ping", &json!({})));
        assert!(core.hear(connection, &said));
        assert!(!core.hear(connection, &frame("pusher:ping", &json!({}))));
        core.ask_again(grace);
        assert!(core.heard(grace.0).is_empty(), "neither refused nor listened to");
        assert!(core.is_postponed(grace.0));
        assert_eq!(core.leftovers().paced, 1, "it waits again");
        drop(full);
        core.ask_again(grace);
        assert_eq!(core.heard(grace.0), ["pusher_internal:subscription_succeeded"]);
        assert!(core.hear(connection, b""), "now it is listened to again");
        assert_eq!(core.heard(grace.0), ["pusher:pong"]);
        core.deliver();
        assert_eq!(core.heard(ada.0), ["pusher_internal:member_added"]);
        assert_eq!((core.leftovers().paced, core.room()), (0, (0, 0)));
    });
}

#[test]
fn who_leaves_while_it_waits_for_room_has_joined_nothing() {
    with_core(|core| {
        let (ada, grace) = (core.enter(), core.enter());
        core.join(ada, "presence-x", "ada");
        let full = core.fill();
        core.join(grace, "presence-x", "grace");
        core.0.close(&mut core.0.state.borrow_mut(), grace.0, Why::Code(CloseCode::NoPong));
        assert!(!core.is_postponed(grace.0));
        drop(full);
        core.ask_again(grace);
        assert!(core.subscriptions(Connection { key: grace.0, socket_id: grace.1 }).is_empty());
    });
}

#[test]
fn who_signs_in_while_a_core_is_full_is_signed_in_when_there_is_room() {
    with_core(|core| {
        let (watcher, ada) = (core.enter(), core.enter());
        core.sign_in(watcher, "grace", &["ada", "ada"]);
        core.heard(watcher.0);
        let full = core.fill();
        core.sign_in(ada, "ada", &[]);
        assert!(core.heard(ada.0).is_empty() && core.is_postponed(ada.0));
        drop(full);
        core.ask_again(ada);
        assert_eq!(core.heard(ada.0), ["pusher:signin_success"]);
        assert_eq!(core.room().0, 1, "the letter to who watches has room of its own");
        core.deliver();
        assert_eq!(core.heard(watcher.0), ["pusher_internal:watchlist_events"]);
        assert_eq!(core.room(), (0, 0));
    });
}

#[test]
fn ending_connections_needs_room_and_goes_in_turns() {
    with_core(|core| {
        let turn = core.0.hub.settings().limits.writes_per_turn_max;
        let all: Vec<_> = (0..=turn).map(|_| core.enter()).collect();
        for one in &all {
            core.sign_in(*one, "ada", &[]);
        }
        let full = core.fill();
        assert!(core.0.hub.disconnect_user("1", "ada").is_err());
        drop(full);
        assert_eq!(core.0.hub.disconnect_user("1", "ada").unwrap(), turn + 1);
        core.open_letters();
        let open =
            || core.0.state.borrow().sessions.iter().filter(|(_, one)| !one.is_closing()).count();
        assert_eq!(open(), turn + 1);
        core.turn();
        assert_eq!((open(), core.room().0), (1, 1));
        core.turn();
        assert_eq!((open(), core.room().0), (0, 0));
    });
}

/// Nobody sends webhooks here: each is counted as dropped.
fn webhooks_told(core: &Core) -> u64 {
    core.0.hub.webhooks.metrics().dropped(DropReason::Ended).get()
}

#[test]
fn a_client_event_that_is_switched_off_is_told_to_nobody() {
    let mut app = app();
    app.has_client_events = true;
    let endpoint = Endpoint {
        url: "http://127.0.0.1:1/hook".parse().unwrap(),
        kinds: [Kind::ClientEvent].into_iter().collect::<Kinds>(),
        channel_prefix: "".into(),
        headers: ExtraHeaders::default(),
    };
    let mut hooks = (*app.hooks).clone();
    hooks.endpoints.push(Arc::new(endpoint));
    app.hooks = Arc::new(hooks);
    let core = Core::new(Settings::default(), vec![app]);
    let (one, two) = (core.enter(), core.enter());
    for who in [one, two] {
        core.join(who, "presence-x", "ada");
        core.heard(who.0);
    }
    let event = json!({ "event": "client-typing", "channel": "presence-x", "data": "1" });
    let say = || {
        core.write(one.0, &Message::Text(&event.to_string()), Some(MASK));
        core.deliver();
        (core.heard(two.0).len(), webhooks_told(&core))
    };
    assert_eq!(say(), (1, 1));
    let pattern = "client-*".parse().unwrap();
    let off = Off { pattern, since_us: 0, until_us: None };
    core.0.hub.switches().turn_off(off, core.now()).unwrap();
    assert_eq!(say(), (0, 1), "neither the others nor the application's server");
}

/// How many are closed in each step, and with which code.
fn steps_of_app_end(core: &Core) -> Vec<(usize, Option<CloseCode>)> {
    core.open_letters();
    let mut steps = Vec::new();
    while !core.0.state.borrow().app_ends.is_empty() {
        let state = &mut *core.0.state.borrow_mut();
        let due = core.0.due_of_apps(state);
        core.0.close_all(state, &due);
        steps.push((due.len(), due.first().map(|(_, code)| *code)));
    }
    steps
}

fn reload(core: &Core, is_enabled: Option<bool>) {
    let apps = is_enabled.map(|is_enabled| AppSettings { is_enabled, ..app() });
    core.0.hub.reload(Settings::default(), apps.into_iter().collect());
}

#[test]
fn the_connections_of_an_app_that_is_gone_or_off_end_over_the_drain_window() {
    for (is_enabled, code) in [(None, CloseCode::NoSuchApp), (Some(false), CloseCode::AppDisabled)]
    {
        with_core(|core| {
            let all: Vec<_> = (0..302).map(|_| core.enter()).collect();
            reload(core, is_enabled);
            let steps = steps_of_app_end(core);
            // 3 s, in steps of 20 ms.
            assert_eq!(steps, [(2, Some(code)); 151]);
            assert_eq!(core.heard(all[0].0), ["pusher:error"]);
            core.pass(std::time::Duration::from_secs(60));
            core.tidy();
            assert_eq!(core.leftovers(), Leftovers::default());
        });
    }
}

#[test]
fn an_app_that_is_on_again_keeps_the_connections_that_are_left() {
    with_core(|core| {
        let (one, _) = core.enter();
        reload(core, Some(false));
        reload(core, Some(true));
        assert_eq!(steps_of_app_end(core), [(0, None)]);
        assert!(core.heard(one).is_empty());
    });
}

/// 4001 would keep them away from the app that is there.
#[test]
fn connections_of_an_app_that_is_there_again_come_back_to_it() {
    with_core(|core| {
        core.enter();
        reload(core, None);
        reload(core, Some(true));
        assert_eq!(steps_of_app_end(core), [(1, Some(CloseCode::OverCapacity))]);
    });
}

/// What happens to a core.
#[derive(Clone, Debug)]
enum Step {
    Connect,
    Close(usize),
    Subscribe {
        who: usize,
        channel: usize,
        recovers: bool,
    },
    Unsubscribe {
        who: usize,
        channel: usize,
    },
    Publish(usize),
    OpenLetters,
    Turn,
    Nonsense(usize, String),
    /// A frame without a mask, which ends the connection.
    Break(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let who = any::<usize>;
    let channel = || 0..CHANNELS.len();
    prop_oneof![
        2 => Just(Step::Connect),
        1 => who().prop_map(Step::Close),
        4 => (who(), channel(), any::<bool>())
            .prop_map(|(who, channel, recovers)| Step::Subscribe { who, channel, recovers }),
        3 => (who(), channel()).prop_map(|(who, channel)| Step::Unsubscribe { who, channel }),
        6 => channel().prop_map(Step::Publish),
        3 => Just(Step::OpenLetters),
        3 => Just(Step::Turn),
        1 => (who(), "\\PC{0,20}").prop_map(|(who, text)| Step::Nonsense(who, text)),
        1 => who().prop_map(Step::Break),
    ]
}

const CHANNELS: [&str; 3] = ["a", "b", "cache-c"];

/// What one client has: by channel, its epoch and its last offset.
#[derive(Default)]
struct Known {
    subscribed: HashMap<String, (String, u64)>,
    left: HashMap<String, (String, u64)>,
}

impl Known {
    /// Every event is the one behind the last.
    fn hear(&mut self, messages: Vec<Value>) {
        for message in messages {
            let Some(offset) = message["offset"].as_u64() else { continue };
            let channel = message["channel"].as_str().unwrap().to_owned();
            let epoch = message["epoch"].as_str().unwrap().to_owned();
            if message["event"] == "pusher_internal:subscription_succeeded" {
                let missed = message["recovery"]["events"].as_u64();
                let start = offset - missed.unwrap_or(0);
                if missed.is_some() {
                    assert_eq!(self.left.get(&channel), Some(&(epoch.clone(), start)));
                }
                self.subscribed.insert(channel, (epoch, start));
                continue;
            }
            let known = self.subscribed.get_mut(&channel).expect("only what it subscribed to");
            // A cache channel's last event, which who comes is shown again.
            if channel.starts_with("cache-") && *known == (epoch.clone(), offset) {
                continue;
            }
            assert_eq!((epoch, offset), (known.0.clone(), known.1 + 1), "{channel}");
            known.1 = offset;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whoever comes, goes, recovers and says nonsense, wherever letters and turns fall: everybody
    /// has each event once and in order, and in the end nothing is left.
    #[test]
    fn whatever_happens_everybody_has_each_event_once(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        with_core(|core| {
            let mut clients: Vec<Client> = Vec::new();
            for step in steps {
                take_step(core, &mut clients, step);
                let is_there = |client: &Client| {
                    core.0.state.borrow().session_of(client.1).is_some()
                };
                clients.retain(is_there);
                for (key, _, known) in &mut clients {
                    known.hear(core.messages(*key));
                }
            }
            core.deliver();
            let channels = &core.0.hub.app_by_id("1").unwrap().channels;
            for (key, _, known) in &mut clients {
                known.hear(core.messages(*key));
                let is_open = !core.0.state.borrow_mut().session(*key).is_closing();
                for (name, (epoch, offset)) in known.subscribed.iter().filter(|_| is_open) {
                    let position = channels.get(name).unwrap().info().position;
                    assert_eq!((&position.epoch.to_string(), position.offset), (epoch, *offset));
                }
                core.0.close(&mut core.0.state.borrow_mut(), *key, Why::Gone);
            }
            core.deliver();
            let left = core.leftovers();
            let Leftovers { registered, history_bytes, cache_bytes, .. } = left;
            let kept = Leftovers { registered, history_bytes, cache_bytes, ..Leftovers::default() };
            assert_eq!(left, kept);
            let bytes: usize = channels.with_prefix("").iter().map(|one| one.info().history_bytes).sum();
            assert_eq!(history_bytes, bytes);
        });
    }
}

type Client = (SessionKey, SocketId, Known);

fn pick(clients: &mut [Client], who: usize) -> Option<&mut Client> {
    let count = clients.len().max(1);
    clients.get_mut(who % count)
}

fn take_step(core: &Core, clients: &mut Vec<Client>, step: Step) {
    match step {
        Step::Connect => {
            let (key, socket_id) = core.enter();
            clients.push((key, socket_id, Known::default()));
        }
        Step::Close(who) => {
            if let Some((key, ..)) = pick(clients, who) {
                core.0.close(&mut core.0.state.borrow_mut(), *key, Why::Gone);
            }
        }
        Step::Subscribe { who, channel, recovers } => {
            let Some((key, _, known)) = pick(clients, who) else { return };
            let mut wish = json!({ "channel": CHANNELS[channel] });
            if let Some((epoch, offset)) = known.left.get(CHANNELS[channel]).filter(|_| recovers) {
                wish["recover"] = json!({ "epoch": epoch, "offset": offset });
            }
            core.say(*key, "pusher:subscribe", &wish);
        }
        Step::Unsubscribe { who, channel } => {
            let Some((key, _, known)) = pick(clients, who) else { return };
            core.unsubscribe(*key, CHANNELS[channel]);
            let left = known.subscribed.remove(CHANNELS[channel]);
            known.left.extend(left.map(|place| (CHANNELS[channel].to_owned(), place)));
        }
        Step::Publish(channel) => core.tell(CHANNELS[channel], "e"),
        Step::OpenLetters => core.open_letters(),
        Step::Turn => core.0.turn(&mut core.0.state.borrow_mut()),
        Step::Nonsense(who, text) => {
            let Some((key, ..)) = pick(clients, who) else { return };
            core.write(*key, &Message::Text(&text), Some(MASK));
        }
        Step::Break(who) => {
            let Some((key, ..)) = pick(clients, who) else { return };
            core.write(*key, &Message::Text(""), None);
        }
    }
}

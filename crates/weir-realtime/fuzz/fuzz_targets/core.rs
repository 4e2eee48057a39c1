//! A whole core, whatever its clients, its application's server and its operator do: no panic;
//! every subscriber is sent the events of a channel in order and at most once, and all of them
//! unless the app lets events be dropped; what waits for a client stays within its limit; and when
//! everybody is gone, nothing is left.
//!
//! The input is a list of steps: a byte says which, the bytes behind it how.

#![no_main]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use weir_base::secret::Secret;
use weir_base::switch::Off;
use weir_base::token_bucket::Rate;
use weir_realtime::measure::{Leftovers, ManualConnection, ManualCore};
use weir_realtime::pusher::signature::Token;
use weir_realtime::settings::{AppSettings, HistoryLimits, PresenceLimits, Settings, SlowClients};

const CLIENTS_MAX: usize = 5;
/// Limit of the bytes one client has sent and the core has not read.
const ARRIVED_BYTES_MAX: usize = 16 << 10;
const QUEUE_BYTES_MAX: usize = 1_500;
/// The close reason, sent after the waiting messages.
const CLOSE_MESSAGE_BYTES: usize = 512;
/// The responses to one read, the last of which may be a whole history or list.
const RESPONSES_BYTES_MAX: usize = 80 << 10;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const CHANNELS: [&str; 7] = [
    "a",
    "cache-b",
    "private-c",
    "presence-d",
    "private-cache-e",
    "presence-cache-f",
    "#server-to-user-u1",
];
const PATTERNS: [&str; 4] = ["e", "client-*", "pusher_internal:member_*", "*count"];

fuzz_target!(|bytes: &[u8]| {
    // Ids of connections and epochs: the same input does the same.
    fastrand::seed(1);
    let mut input = Input(bytes);
    let policy = [SlowClients::Disconnect, SlowClients::DropOldest, SlowClients::Conflate];
    let mut world = World::new(input.choose(&policy));
    while !input.0.is_empty() {
        world.step(&mut input);
        world.check_waiting();
    }
    world.deliver_everything();
    world.end(&mut input);
});

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        piece
    }
}

struct World {
    core: ManualCore,
    app: AppSettings,
    policy: SlowClients,
    clients: Vec<Client>,
}

struct Client {
    connection: ManualConnection,
    /// Bytes it sent that the core has not read yet.
    arrived: Vec<u8>,
    /// The last position received in each channel.
    positions: HashMap<String, Place>,
    /// Events published with its socket id as the exception: it need not receive these.
    spared: HashSet<Event>,
}

/// A channel, an epoch and an offset.
type Event = (String, String, u64);

struct Place {
    epoch: String,
    offset: u64,
    /// True until the first event after joining.
    is_fresh: bool,
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.drain_window = Duration::from_millis(60);
    let limits = &mut settings.limits;
    limits.channels_max = 6;
    limits.channels_per_connection_max = 4;
    limits.core_queue_events_max = 24;
    limits.core_queue_bytes_max = 4_000;
    limits.writes_per_turn_max = 2;
    limits.write_bytes_max = 300;
    limits.history_bytes_max = 4_000;
    limits.subscribe_rate = Rate::new(6, Duration::from_millis(50));
    limits.close_timeout = CLOSE_TIMEOUT;
    settings.limits.websocket.message_bytes_max = 1_000;
    settings.limits.websocket.frame_bytes_max = 800;
    settings.limits.websocket.message_fragments_max = 4;
    settings.limits.pusher.client_message_bytes_max = 900;
    settings
}

fn app(slow_clients: SlowClients) -> AppSettings {
    let mut app = AppSettings::new("1", "key", Secret::new("secret"));
    app.has_client_events = true;
    app.has_subscription_counts = true;
    app.connections_max = CLIENTS_MAX;
    app.slow_clients = slow_clients;
    app.client_queue_bytes_max = QUEUE_BYTES_MAX;
    app.client_event_rate = Rate::new(5, Duration::from_millis(100));
    app.history =
        HistoryLimits { events_max: 5, bytes_max: 2_000, age_max: Duration::from_secs(2), is_durable: false };
    app.presence = PresenceLimits {
        members_max: 4,
        list_max: 2,
        gather: Duration::from_millis(300),
        page_max: 2,
    };
    app.cache_age_max = Duration::from_secs(1);
    app.cache_bytes_max = 2_000;
    app
}

impl World {
    fn new(policy: SlowClients) -> Self {
        let app = app(policy);
        let core = ManualCore::new(settings(), vec![app.clone()]);
        Self { core, app, policy, clients: Vec::new() }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 22 {
            0 => self.connect(),
            1 => self.publish(input),
            2 => self.core.receive_messages(),
            3 => self.core.deliver_turn(),
            4 => self.core.advance_time(Duration::from_millis(u64::from(input.byte()) * 20)),
            5 => self.switch(input),
            6 => self.reload(input),
            7 => drop(self.core.disconnect_user("1", input.choose(&["u0", "u1"]))),
            8 => self.core.remove_expired(),
            9 => self.publish_all(input),
            step => self.client_step(step, input),
        }
    }

    fn connect(&mut self) {
        self.clients.retain(|client| self.core.is_connected(client.connection));
        let client = |connection| Client {
            connection,
            arrived: Vec::new(),
            positions: HashMap::new(),
            spared: HashSet::new(),
        };
        self.clients.extend(self.core.connect("key").map(client));
    }

    fn publish(&mut self, input: &mut Input<'_>) {
        let channel = input.choose(&CHANNELS);
        let name = input.choose(&["e", "f"]);
        let data = "x".repeat(usize::from(input.byte()) * 2);
        let index = usize::from(input.byte());
        let except = self.clients.get_mut(index);
        let socket_id = except.as_ref().map(|client| client.connection.socket_id);
        let published = self.core.publish("1", channel, (name, &data), socket_id);
        if let (Ok(Some(position)), Some(client)) = (published, except) {
            let epoch = position.epoch.to_string();
            client.spared.insert((channel.to_owned(), epoch, position.offset));
        }
    }

    /// Publishes to several channels: to all or to none.
    fn publish_all(&self, input: &mut Input<'_>) {
        let channels = [(); 3].map(|()| input.choose(&CHANNELS));
        let data = "x".repeat(usize::from(input.byte()) * 4);
        let offsets = || {
            channels.map(|channel| self.core.position("1", channel).map_or(0, |place| place.offset))
        };
        let before = offsets();
        if self.core.publish_all("1", &channels, ("e", &data)).is_err() {
            assert_eq!(offsets(), before, "nothing is published");
        }
    }

    fn switch(&self, input: &mut Input<'_>) {
        let pattern: weir_base::switch::Pattern =
            input.choose(&PATTERNS).parse().expect("a pattern");
        let (switches, now) = (self.core.hub().switches(), self.core.now());
        if !switches.turn_on(&pattern, now) {
            let off = Off { pattern, since_us: now.as_micros(), until_us: None };
            switches.turn_off(off, now).expect("there are few");
        }
    }

    /// Off and on again, which ends all connections.
    fn reload(&mut self, input: &mut Input<'_>) {
        self.app.is_enabled = input.byte() % 2 == 0;
        self.core.hub().reload(settings(), vec![self.app.clone()]);
    }

    fn client_step(&mut self, step: u8, input: &mut Input<'_>) {
        let count = self.clients.len().max(1);
        let index = usize::from(input.byte()) % count;
        let Some(client) = self.clients.get_mut(index) else { return };
        match step {
            10 | 11 => client.subscribe(input),
            12 => {
                let data = json!({ "channel": input.choose(&CHANNELS) });
                client.send_event(input, &json!({ "event": "pusher:unsubscribe", "data": data }));
            }
            13 => client.sign_in(input),
            14 => {
                let channel = input.choose(&CHANNELS);
                let event =
                    json!({ "event": "client-e", "channel": channel, "data": input.byte() });
                client.send_event(input, &event);
            }
            15 => {
                let data = json!({ "channel": input.choose(&CHANNELS), "version": input.byte() });
                client.send_event(input, &json!({ "event": "weir:members", "data": data }));
            }
            16 => client.send_raw(input),
            17 => client.send_frame(input),
            18 => self.core.break_socket(client.connection),
            19 => client.arrive(&self.core, usize::from(input.byte())),
            20 => client.arrive(&self.core, usize::MAX),
            _ => client.take(&self.core, self.policy),
        }
    }

    fn check_waiting(&self) {
        for client in &self.clients {
            let waiting = self.core.waiting(client.connection);
            let is_open = self.core.is_open(client.connection);
            let (writes_max, bytes_max) = match is_open {
                true => (1, QUEUE_BYTES_MAX),
                false => (2, QUEUE_BYTES_MAX + CLOSE_MESSAGE_BYTES),
            };
            // One message alone may be larger.
            assert!(waiting.bytes <= bytes_max || waiting.writes <= writes_max, "{waiting:?}");
            assert!(waiting.bytes <= RESPONSES_BYTES_MAX, "{waiting:?}");
        }
    }

    /// Lets every client send and receive everything, then checks that no event is missing.
    fn deliver_everything(&mut self) {
        for _ in 0..20 {
            for client in &mut self.clients {
                client.arrive(&self.core, usize::MAX);
            }
            self.core.advance_time(Duration::from_millis(100));
            self.core.deliver();
            for client in &mut self.clients {
                client.take(&self.core, self.policy);
            }
        }
        // The last messages may arrive only now, but nothing more is published.
        for client in self.clients.iter().filter(|_| self.policy == SlowClients::Disconnect) {
            for channel in self.core.subscriptions(client.connection) {
                let position = self.core.position("1", &channel).expect("it has a subscriber");
                let place = client.positions.get(&channel).expect("it was told that it is subscribed");
                let known = (place.epoch.clone(), client.skip_spared(&channel, place));
                assert_eq!(known, (position.epoch.to_string(), position.offset), "{channel}");
            }
        }
    }

    fn end(&mut self, input: &mut Input<'_>) {
        if input.byte() % 2 == 0 {
            self.app.is_enabled = false;
            self.core.hub().reload(settings(), vec![self.app.clone()]);
            self.core.deliver();
            // In steps, over the drain window.
            for _ in 0..4 {
                self.core.advance_time(Duration::ZERO);
            }
            self.core.advance_time(CLOSE_TIMEOUT);
            self.core.deliver();
            let leftovers = self.core.leftovers();
            assert_eq!((leftovers.sessions, leftovers.app_ends), (0, 0), "all have ended by themselves");
        }
        for client in &self.clients {
            self.core.break_socket(client.connection);
        }
        self.core.deliver();
        self.core.advance_time(Duration::from_secs(10));
        self.core.deliver();
        self.core.remove_expired();
        assert_eq!(self.core.leftovers(), Leftovers::default());
    }
}

impl Client {
    fn subscribe(&mut self, input: &mut Input<'_>) {
        let channel = input.choose(&CHANNELS);
        let how = input.byte();
        let mut data = json!({ "channel": channel, "member_changes": how & 1 > 0 });
        let mut signed = format!("{}:{channel}", self.connection.socket_id);
        if channel.starts_with("presence-") && how & 2 == 0 {
            let member = json!({ "user_id": format!("u{}", how >> 5) }).to_string();
            signed = format!("{signed}:{member}");
            data["channel_data"] = json!(member);
        }
        data["auth"] = json!(sign(&signed));
        if let Some(place) = self.positions.get(channel).filter(|_| how & 4 > 0) {
            let back = u64::from(how >> 3 & 3);
            let offset = place.offset.saturating_sub(back);
            data["recover"] = json!({ "epoch": place.epoch, "offset": offset });
        }
        self.send_event(input, &json!({ "event": "pusher:subscribe", "data": data }));
    }

    fn sign_in(&mut self, input: &mut Input<'_>) {
        let user = input.choose(&["u0", "u1", "u2"]);
        let watchlist = [input.choose(&["u0", "u1"]), input.choose(&["u1", "u2"])];
        let user_data = json!({ "id": user, "watchlist": watchlist }).to_string();
        let auth = sign(&format!("{}::user::{user_data}", self.connection.socket_id));
        let data = json!({ "auth": auth, "user_data": user_data });
        self.send_event(input, &json!({ "event": "pusher:signin", "data": data }));
    }

    /// As one frame, or as two.
    fn send_event(&mut self, input: &mut Input<'_>, message: &Value) {
        let text = message.to_string();
        let (first, rest) = text.as_bytes().split_at(usize::from(input.byte()).min(text.len()));
        if rest.is_empty() || first.is_empty() {
            return self.append(&frame(0x81, true, text.as_bytes()));
        }
        let frames = [frame(0x01, true, first), frame(0x80, true, rest)];
        self.append(&frames.concat());
    }

    fn send_raw(&mut self, input: &mut Input<'_>) {
        let count = usize::from(input.byte());
        self.append(input.bytes(count));
    }

    /// A frame of any kind, masked or not.
    fn send_frame(&mut self, input: &mut Input<'_>) {
        let (first, is_masked, count) = (input.byte(), input.byte() % 8 > 0, input.byte());
        let payload = input.bytes(usize::from(count));
        self.append(&frame(first, is_masked, payload));
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.arrived.len() + bytes.len() <= ARRIVED_BYTES_MAX {
            self.arrived.extend_from_slice(bytes);
        }
    }

    fn arrive(&mut self, core: &ManualCore, most: usize) {
        let count = self.arrived.len().min(most);
        if core.receive(self.connection, &self.arrived[..count]) {
            self.arrived.drain(..count);
        }
    }

    fn take(&mut self, core: &ManualCore, policy: SlowClients) {
        for message in core.take(self.connection) {
            let message: Value = serde_json::from_str(&message).expect("the server sends JSON");
            self.check(&message, policy);
        }
    }

    fn check(&mut self, message: &Value, policy: SlowClients) {
        let Some(offset) = message["offset"].as_u64() else { return };
        let channel = message["channel"].as_str().expect("of a channel").to_owned();
        let epoch = message["epoch"].as_str().expect("of an epoch").to_owned();
        if message["event"] == "pusher_internal:subscription_succeeded" {
            let missed = message["recovery"]["events"].as_u64().unwrap_or(0);
            let place = Place { epoch, offset: offset - missed, is_fresh: true };
            self.positions.insert(channel, place);
            return;
        }
        let place = self.positions.get(&channel).expect("an event of a channel it subscribed to");
        assert_eq!(epoch, place.epoch, "{channel}");
        let is_shown_again = place.is_fresh && channel.contains("cache-") && offset == place.offset;
        if !is_shown_again {
            assert!(offset > place.offset, "{channel}: {offset} after {}", place.offset);
            let is_spared = |offset| self.is_spared(&channel, &epoch, offset);
            let is_whole = (place.offset + 1..offset).all(is_spared);
            assert!(is_whole || policy != SlowClients::Disconnect, "{channel}: before {offset}");
        }
        self.positions.insert(channel, Place { epoch, offset, is_fresh: false });
    }

    /// Returns the offset of the last consecutive event that it need not receive.
    fn skip_spared(&self, channel: &str, place: &Place) -> u64 {
        let mut offset = place.offset;
        while self.is_spared(channel, &place.epoch, offset + 1) {
            offset += 1;
        }
        offset
    }

    fn is_spared(&self, channel: &str, epoch: &str, offset: u64) -> bool {
        self.spared.contains(&(channel.to_owned(), epoch.to_owned(), offset))
    }
}

fn sign(text: &str) -> String {
    let secret = Secret::new("secret");
    format!("key:{}", Token { key: "key", secret: &secret }.sign(text.as_bytes()))
}

/// `first` is the frame's first byte: whether it is final, and its opcode. The mask changes
/// nothing.
fn frame(first: u8, is_masked: bool, payload: &[u8]) -> Vec<u8> {
    let mask_bit = if is_masked { 0x80 } else { 0 };
    let mut frame = vec![first];
    match u8::try_from(payload.len()) {
        Ok(length @ 0..126) => frame.push(mask_bit | length),
        _ => {
            let length = u16::try_from(payload.len()).expect("short texts");
            frame.push(mask_bit | 126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
    }
    if is_masked {
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(payload);
    frame
}

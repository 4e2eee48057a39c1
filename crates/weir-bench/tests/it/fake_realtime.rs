//! A realtime server in a few lines: both protocols, one thread per connection, history in memory, faults on demand.

mod fault;
mod presence;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub(crate) use self::fault::Fault;
use self::presence::{Member, Members};
use self::wire::{IncomingRequest, Message, Request};

pub(crate) struct FakeRealtime {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

pub(crate) struct State {
    fault: Fault,
    opened: u64,
    published: u64,
    subscribers: HashMap<u64, Subscriber>,
    victim: Option<u64>,
    history: HashMap<String, Vec<String>>,
    held_back: Vec<String>,
    recoveries: u64,
    sources: Vec<std::net::IpAddr>,
    members: Members,
}

struct Subscriber {
    stream: TcpStream,
    channel: String,
    member: Option<Member>,
    is_centrifugo: bool,
    /// Until it has answered a ping, a client gets nothing more.
    owes_a_pong: bool,
    waiting: Vec<String>,
    /// Pings that it got with events since its last pong.
    unanswered: u32,
}

impl FakeRealtime {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(Mutex::new(State::new(fault)));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                // A client that hangs up ends its thread; there is nobody to tell.
                std::thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn published(&self) -> u64 {
        self.state.lock().expect("no panic in the server").published
    }

    /// How many clients asked to recover.
    pub(crate) fn recoveries(&self) -> u64 {
        self.state.lock().expect("no panic in the server").recoveries
    }

    /// Addresses that WebSockets came from, each once.
    pub(crate) fn sources(&self) -> usize {
        let mut sources = self.state.lock().expect("no panic in the server").sources.clone();
        sources.sort_unstable();
        sources.dedup();
        sources.len()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    loop {
        match wire::read_request(&mut stream)? {
            IncomingRequest::Upgrade { path } => return serve_client(stream, &path, state),
            IncomingRequest::Publish(request) => {
                let answer = state.lock().expect("no panic in the server").publish(&request);
                wire::write_response(&mut stream, answer)?;
            }
        }
    }
}

fn serve_client(mut stream: TcpStream, path: &str, state: &Mutex<State>) -> io::Result<()> {
    let (id, fault) = {
        let mut state = state.lock().expect("no panic in the server");
        state.opened += 1;
        state.sources.push(stream.peer_addr()?.ip());
        (state.opened, state.fault)
    };
    let is_busy = match fault {
        Fault::IsBusyAtFirst => id <= 3,
        Fault::LetsNobodyBack => id > 12,
        _ => false,
    };
    if is_busy {
        return wire::write_status(&mut stream, "503 Service Unavailable");
    }
    wire::write_status(&mut stream, "101 Switching Protocols")?;
    if let Fault::ClosesAtOnce(code) = fault {
        return wire::write_close(&mut stream, code);
    }
    let is_centrifugo = path == "/connection/websocket";
    if !is_centrifugo {
        assert_eq!(path, "/app/key?protocol=7&client=weir-bench&version=1");
        let data = json!({ "socket_id": format!("{id}.1"), "activity_timeout": 120 }).to_string();
        let message = json!({ "event": "pusher:connection_established", "data": data });
        wire::write_text(&mut stream, &message.to_string())?;
    }
    let heard = serve_messages(id, is_centrifugo, &mut stream, state);
    let gone = state.lock().expect("no panic in the server").leave(id);
    heard.and(gone)
}

/// Until the client hangs up, or cuts the connection.
fn serve_messages(
    id: u64,
    is_centrifugo: bool,
    stream: &mut TcpStream,
    state: &Mutex<State>,
) -> io::Result<()> {
    while let Some(message) = wire::read_message(stream)? {
        let mut state = state.lock().expect("no panic in the server");
        let Message::Text(text) = message else {
            state.on_pong(id)?;
            continue;
        };
        let message: Value = serde_json::from_str(&text).expect("clients send JSON");
        match is_centrifugo {
            true => state.on_centrifugo_message(id, &message, stream)?,
            false => state.on_pusher_message(id, &message, stream)?,
        }
    }
    Ok(())
}

impl Subscriber {
    /// Centrifugo puts a ping into the same frame, if there is one to send.
    fn send(&mut self, text: &str, with_ping: bool) -> io::Result<()> {
        if self.owes_a_pong {
            self.waiting.push(text.to_owned());
            return Ok(());
        }
        if with_ping && self.is_centrifugo {
            self.owes_a_pong = true;
            return wire::write_text(&mut self.stream, &format!("{text}\n{{}}"));
        }
        wire::write_text(&mut self.stream, text)
    }
}

impl State {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            opened: 0,
            published: 0,
            subscribers: HashMap::new(),
            victim: None,
            history: HashMap::new(),
            held_back: Vec::new(),
            recoveries: 0,
            sources: Vec::new(),
            members: Members::default(),
        }
    }

    fn on_pusher_message(
        &mut self,
        id: u64,
        message: &Value,
        stream: &mut TcpStream,
    ) -> io::Result<()> {
        let data = &message["data"];
        if message["event"] == "weir:members" {
            return self.send_members_page(data, stream);
        }
        assert_eq!(message["event"], "pusher:subscribe", "{message}");
        let channel = data["channel"].as_str().expect("a channel").to_owned();
        if self.fault == Fault::NeverSubscribes {
            return Ok(());
        }
        if channel.starts_with("presence-") {
            return self.join_presence(id, &channel, data, stream);
        }
        let offset = self.history.get(&channel).map_or(0, Vec::len);
        let mut answer = json!({
            "event": "pusher_internal:subscription_succeeded", "channel": channel, "data": "{}",
            "epoch": EPOCH, "offset": offset,
        });
        let missed = data.get("recover").map(|recover| self.recover(&channel, recover));
        match &missed {
            Some(Some(events)) => {
                answer["recovery"] = json!({ "outcome": "recovered", "events": events.len() });
            }
            Some(None) => answer["recovery"] = json!({ "outcome": "gap" }),
            None => {}
        }
        wire::write_text(stream, &answer.to_string())?;
        for event in missed.flatten().unwrap_or_default() {
            wire::write_text(stream, &event)?;
        }
        self.subscribe(id, channel, false, stream)?;
        self.subscribers.get_mut(&id).expect("just subscribed").owes_a_pong = true;
        wire::write_ping(stream)
    }

    /// The events that were missed; `None` for a gap.
    fn recover(&mut self, channel: &str, recover: &Value) -> Option<Vec<String>> {
        self.recoveries += 1;
        assert_eq!(recover["epoch"], EPOCH);
        let offset = usize::try_from(recover["offset"].as_u64().expect("a number")).expect("small");
        let all = self.history.get(channel).map_or(&[][..], |all| &all[offset..]);
        match self.fault {
            Fault::ForgetsHistory => None,
            Fault::RecoversTooLittle => Some(all.iter().skip(1).cloned().collect()),
            _ => Some(all.to_vec()),
        }
    }

    fn on_centrifugo_message(
        &mut self,
        id: u64,
        message: &Value,
        stream: &mut TcpStream,
    ) -> io::Result<()> {
        if message.get("connect").is_some() {
            return wire::write_text(stream, r#"{"id":1,"connect":{"client":"c"}}"#);
        }
        if *message == json!({}) {
            return self.on_pong(id);
        }
        let Some(subscribe) = message.get("subscribe") else {
            return Ok(());
        };
        let channel = subscribe["channel"].as_str().expect("a channel").to_owned();
        wire::write_text(stream, r#"{"id":2,"subscribe":{}}"#)?;
        self.subscribe(id, channel, true, stream)
    }

    fn subscribe(
        &mut self,
        id: u64,
        channel: String,
        is_centrifugo: bool,
        stream: &TcpStream,
    ) -> io::Result<()> {
        self.victim.get_or_insert(id);
        let stream = stream.try_clone()?;
        let subscriber = Subscriber {
            stream,
            channel,
            member: None,
            is_centrifugo,
            owes_a_pong: false,
            waiting: Vec::new(),
            unanswered: 0,
        };
        self.subscribers.insert(id, subscriber);
        Ok(())
    }

    fn on_pong(&mut self, id: u64) -> io::Result<()> {
        let Some(subscriber) = self.subscribers.get_mut(&id) else {
            return Ok(());
        };
        subscriber.owes_a_pong = false;
        subscriber.unanswered = 0;
        if self.fault == Fault::LosesAnEventAndNeverRests && self.victim == Some(id) {
            wire::write_ping(&mut subscriber.stream)?;
        }
        let waiting = std::mem::take(&mut subscriber.waiting);
        waiting.iter().try_for_each(|text| wire::write_text(&mut subscriber.stream, text))
    }

    /// Status and body of the answer.
    fn publish(&mut self, request: &Request) -> (&'static str, &'static str) {
        if self.fault == Fault::RefusesPublishes {
            return ("401 Unauthorized", "no\n");
        }
        request.check_credentials();
        let channel = request.body["channel"].as_str().expect("a channel");
        let data = request.body["data"].as_str().expect("text");
        self.published += 1;
        let history = self.history.entry(channel.to_owned()).or_default();
        let event = json!({
            "event": "weir-bench", "channel": channel, "data": data,
            "epoch": EPOCH, "offset": history.len() + 1,
        });
        history.push(event.to_string());
        self.deliver(channel, data, &event.to_string());
        ("200 OK", "{}")
    }

    fn deliver(&mut self, channel: &str, data: &str, event: &str) {
        let push = json!({ "push": { "channel": channel, "pub": { "data": data } } }).to_string();
        for (id, subscriber) in &mut self.subscribers {
            if subscriber.channel != channel {
                continue;
            }
            let text = if subscriber.is_centrifugo { &push } else { event };
            let is_victim = self.victim == Some(*id);
            let texts: Vec<&str> = match (self.fault, self.published) {
                (Fault::LosesAnEvent | Fault::LosesAnEventAndNeverRests, 3) if is_victim => vec![],
                (Fault::RepeatsAnEvent, 3) if is_victim => vec![text, text],
                (Fault::ReordersEvents, 3) if is_victim => {
                    self.held_back.push(text.to_owned());
                    vec![]
                }
                (Fault::ReordersEvents, 4) if is_victim => {
                    vec![text, &self.held_back[0]]
                }
                (Fault::HoldsEvents(count), published) if is_victim && published < count => {
                    self.held_back.push(text.to_owned());
                    vec![]
                }
                (Fault::HoldsEvents(count), published) if is_victim && published == count => {
                    self.held_back.iter().map(String::as_str).chain([text]).collect()
                }
                _ => vec![text],
            };
            for text in texts {
                // Its own thread notices that a client is gone.
                let _ = subscriber.send(text, self.published == 3);
            }
            let code = match (self.fault, self.published) {
                (Fault::ClosesTheVictim, 3) if is_victim => 4200,
                (Fault::ClosesEverybody(code), 30) => code,
                (Fault::ClosesSlowClients(pings_max), _) => {
                    let _ = wire::write_ping(&mut subscriber.stream);
                    subscriber.unanswered += 1;
                    match subscriber.unanswered == pings_max {
                        true => 4100,
                        false => continue,
                    }
                }
                _ => continue,
            };
            // As above.
            let _ = wire::write_close(&mut subscriber.stream, code);
        }
    }
}

const EPOCH: &str = "00000000000000ab";

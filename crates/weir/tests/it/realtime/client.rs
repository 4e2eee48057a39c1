//! A Pusher client and a Pusher server, as small as can be.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use serde_json::{Value, json};
use sha2::Sha256;
use tungstenite::{Error, Message, WebSocket};
use weir_base::clock::Clock;

use crate::http::get;
use crate::process::TEST_TIMEOUT;

/// Far more than any test receives.
const MESSAGES_MAX: usize = 1_000;

/// A connection that is established.
pub(crate) struct Socket {
    stream: WebSocket<TcpStream>,
    id: String,
}

impl Socket {
    /// Connects to the app with this key.
    pub(crate) fn connect(address: SocketAddr, key: &str) -> Self {
        let mut socket = Self { stream: open(address, key), id: String::new() };
        let data = socket.event("pusher:connection_established")["data"].clone();
        let data: Value = serde_json::from_str(data.as_str().expect("text")).expect("JSON");
        data["socket_id"].as_str().expect("an id").clone_into(&mut socket.id);
        socket
    }

    /// Returns the close code of a rejected connection.
    pub(crate) fn refusal_code(address: SocketAddr, key: &str) -> u16 {
        Self { stream: open(address, key), id: String::new() }.close_code()
    }

    pub(crate) fn subscribe(&mut self, channel: &str) {
        self.send(&json!({"event": "pusher:subscribe", "data": {"channel": channel}}));
        self.event("pusher_internal:subscription_succeeded");
    }

    /// Subscribes to a private channel.
    pub(crate) fn subscribe_privately(&mut self, channel: &str, key: &str, secret: &str) {
        let auth = format!("{key}:{}", sign(secret, &format!("{}:{channel}", self.id)));
        let data = json!({"channel": channel, "auth": auth});
        self.send(&json!({"event": "pusher:subscribe", "data": data}));
        self.event("pusher_internal:subscription_succeeded");
    }

    /// Subscribes to a presence channel as a user. Returns the ids of the members, in order.
    pub(crate) fn join(
        &mut self,
        channel: &str,
        user: &str,
        key: &str,
        secret: &str,
    ) -> Vec<String> {
        let data = json!({"user_id": user}).to_string();
        let auth = sign(secret, &format!("{}:{channel}:{data}", self.id));
        let data =
            json!({"channel": channel, "auth": format!("{key}:{auth}"), "channel_data": data});
        self.send(&json!({"event": "pusher:subscribe", "data": data}));
        let joined = self.event("pusher_internal:subscription_succeeded")["data"].clone();
        let joined: Value = serde_json::from_str(joined.as_str().expect("text")).expect("JSON");
        let ids = joined["presence"]["ids"].as_array().expect("a list").iter();
        let mut ids: Vec<String> = ids.map(|id| id.as_str().expect("an id").to_owned()).collect();
        ids.sort();
        ids
    }

    /// Unsubscribes from a channel.
    pub(crate) fn leave(&mut self, channel: &str) {
        self.send(&json!({"event": "pusher:unsubscribe", "data": {"channel": channel}}));
    }

    /// Signs in as a user.
    pub(crate) fn sign_in(&mut self, user: &str, key: &str, secret: &str) {
        self.sign_in_watching(user, &[], key, secret);
    }

    /// Signs in as a user who watches others.
    pub(crate) fn sign_in_watching(
        &mut self,
        user: &str,
        watchlist: &[&str],
        key: &str,
        secret: &str,
    ) {
        let user_data = json!({"id": user, "watchlist": watchlist}).to_string();
        let auth = sign(secret, &format!("{}::user::{user_data}", self.id));
        let data = json!({"auth": format!("{key}:{auth}"), "user_data": user_data});
        self.send(&json!({"event": "pusher:signin", "data": data}));
        self.event("pusher:signin_success");
    }

    /// Sends an event to the other subscribers of a channel.
    pub(crate) fn send_client_event(&mut self, channel: &str, event: &str, data: &str) {
        self.send(&json!({"event": event, "channel": channel, "data": data}));
    }

    /// Comes back and asks for what came behind `place` (epoch and offset); also what became of that. None: the
    /// server asked to reconnect once more.
    pub(crate) fn resume(
        address: SocketAddr,
        key: &str,
        channel: &str,
        place: Option<&Value>,
    ) -> Option<(Self, Value)> {
        let mut socket = Self { stream: open(address, key), id: String::new() };
        let subscribe = json!({"channel": channel, "recover": place});
        socket.next().filter(|event| event["event"] == "pusher:connection_established")?;
        socket.send(&json!({"event": "pusher:subscribe", "data": subscribe}));
        let answer = socket.next()?;
        assert_eq!(answer["event"], "pusher_internal:subscription_succeeded", "{answer}");
        Some((socket, answer))
    }

    /// Returns the next message; None: the server asked to reconnect.
    pub(crate) fn next(&mut self) -> Option<Value> {
        for _ in 0..MESSAGES_MAX {
            match self.stream.read().expect("a message") {
                Message::Text(text) => return serde_json::from_str(text.as_str()).expect("JSON"),
                Message::Close(frame) => {
                    assert_eq!(u16::from(frame.expect("a code").code), 4100);
                    return None;
                }
                _ => {}
            }
        }
        panic!("nothing of worth among {MESSAGES_MAX} messages");
    }

    fn send(&mut self, message: &Value) {
        self.stream.send(Message::text(message.to_string())).expect("sent");
    }

    /// Returns the next event of this name.
    pub(crate) fn event(&mut self, name: &str) -> Value {
        for _ in 0..MESSAGES_MAX {
            let message = self.stream.read().expect("a message");
            let Message::Text(text) = message else { continue };
            let event: Value = serde_json::from_str(text.as_str()).expect("JSON");
            if event["event"] == name {
                return event;
            }
        }
        panic!("{name} was not among {MESSAGES_MAX} messages");
    }

    /// Returns the close code of the server.
    pub(crate) fn close_code(&mut self) -> u16 {
        for _ in 0..MESSAGES_MAX {
            if let Message::Close(frame) = self.stream.read().expect("a message") {
                // The close is answered with the next read, and the server hangs up.
                assert!(matches!(self.stream.read(), Err(Error::ConnectionClosed)));
                return frame.expect("a code").code.into();
            }
        }
        panic!("not closed after {MESSAGES_MAX} messages");
    }

    /// Reports whether the connection was closed without a close frame. Otherwise, it has received something.
    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self.stream.get_ref().peek(&mut [0]), Ok(0) | Err(_))
    }

    /// Waits until the connection is closed without a close frame.
    pub(crate) fn wait_until_cut_off(&mut self) {
        match self.stream.read() {
            Err(Error::Protocol(_) | Error::Io(_)) => {}
            other => panic!("not cut off: {other:?}"),
        }
    }
}

fn open(address: SocketAddr, key: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let url = format!("ws://{address}/app/{key}?protocol=7&client=it");
    tungstenite::client(url, stream).expect("a WebSocket").0
}

/// The HTTP API, as an application's server uses it.
pub(crate) struct Api<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) app: &'a str,
    pub(crate) key: &'a str,
    pub(crate) secret: &'a str,
}

impl Api<'_> {
    /// Sends a signed request; returns the status line and the body.
    pub(crate) fn post(&self, what: &str, body: &Value) -> (String, String) {
        request(self.address, "POST", &self.signed_target(what, body), "", body)
    }

    /// Sends a signed request without a body. The parameter must come before `auth_key` in the
    /// alphabet, or after `auth_version`.
    pub(crate) fn get(&self, what: &str, parameter: &str) -> Value {
        let login = self.login();
        let query = match parameter < login.as_str() {
            true => format!("{parameter}&{login}"),
            false => format!("{login}&{parameter}"),
        };
        let target = self.signed("GET", what, &query);
        let (status, body) = get(self.address, &target, "");
        serde_json::from_str(&body).unwrap_or_else(|_| panic!("{what}: {status}: {body}"))
    }

    /// Returns the signed target of a request with this body.
    pub(crate) fn signed_target(&self, what: &str, body: &Value) -> String {
        let digest = hex::encode(Md5::digest(body.to_string()));
        self.signed("POST", what, &format!("{}&body_md5={digest}", self.login()))
    }

    fn login(&self) -> String {
        let seconds = Clock::system().now().as_millis() / 1_000;
        format!("auth_key={}&auth_timestamp={seconds}&auth_version=1.0", self.key)
    }

    fn signed(&self, method: &str, what: &str, query: &str) -> String {
        let path = format!("/apps/{}/{what}", self.app);
        let signature = sign(self.secret, &format!("{method}\n{path}\n{query}"));
        format!("{path}?{query}&auth_signature={signature}")
    }
}

fn sign(secret: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key will do");
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

/// Sends a request with a JSON body; returns the status line and the body.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n{headers}\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

//! A client of a realtime app, as far as these tests need it.

use std::net::{SocketAddr, TcpStream};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tungstenite::{Message, WebSocket};

use crate::process::TEST_TIMEOUT;

pub(crate) const KEY: &str = "demo-key";
pub(crate) const SECRET: &str = "demo-secret";

pub(crate) struct Subscriber {
    socket: WebSocket<TcpStream>,
    pub(crate) id: String,
}

impl Subscriber {
    pub(crate) fn connect(front: SocketAddr) -> Self {
        let stream = TcpStream::connect(front).expect("connects");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let url = format!("ws://{front}/app/{KEY}?protocol=7");
        let (socket, _) = tungstenite::client(url, stream).expect("a handshake");
        let mut client = Self { socket, id: String::new() };
        let established = client.read("pusher:connection_established");
        let data: Value = data(&established);
        client.id = data["socket_id"].as_str().expect("an id").to_owned();
        client
    }

    /// Subscribes; to a presence channel as `user`.
    pub(crate) fn subscribe(&mut self, channel: &str, user: &str) {
        let wish = if channel.starts_with("presence-") {
            let user = json!({ "user_id": user }).to_string();
            let auth = self.sign(&format!("{}:{channel}:{user}", self.id));
            json!({ "channel": channel, "channel_data": user, "auth": auth })
        } else {
            json!({ "channel": channel })
        };
        self.send_event("pusher:subscribe", &wish);
        self.read("pusher_internal:subscription_succeeded");
    }

    pub(crate) fn sign_in(&mut self, user: &str) {
        let user = json!({ "id": user }).to_string();
        let auth = self.sign(&format!("{}::user::{user}", self.id));
        self.send_event("pusher:signin", &json!({ "auth": auth, "user_data": user }));
        self.read("pusher:signin_success");
    }

    fn sign(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any key");
        mac.update(text.as_bytes());
        format!("{KEY}:{}", hex::encode(mac.finalize().into_bytes()))
    }

    fn send_event(&mut self, event: &str, data: &Value) {
        let message = json!({ "event": event, "data": data }).to_string();
        self.socket.send(Message::text(message)).expect("sent");
    }

    /// Returns the next message with that name, and skips others.
    pub(crate) fn read(&mut self, event: &str) -> Value {
        loop {
            let message = self.socket.read().expect("a message");
            let message: Value =
                serde_json::from_str(message.to_text().expect("text")).expect("JSON");
            if message["event"] == event {
                return message;
            }
        }
    }

    /// Returns the close code of the connection.
    pub(crate) fn close_code(&mut self) -> u16 {
        loop {
            if let Message::Close(frame) = self.socket.read().expect("a message") {
                return frame.expect("a code").code.into();
            }
        }
    }
}

/// Parses the text in `data`.
pub(crate) fn data(message: &Value) -> Value {
    serde_json::from_str(message["data"].as_str().expect("text")).expect("JSON")
}

//! A client: tungstenite's, with Pusher's words.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Message, WebSocket};
use weir_base::secret::Secret;
use weir_realtime::pusher::signature::Token;

use super::{KEY, SECRET, TIMEOUT};

pub(crate) struct Client {
    pub(crate) socket: WebSocket<TcpStream>,
    pub(crate) socket_id: String,
}

/// A message of the server, its data parsed if it is JSON in a string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) channel: Option<String>,
    pub(crate) data: Value,
    pub(crate) json: Value,
}

impl Client {
    pub(crate) fn open(address: SocketAddr, target: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self::over(stream, address, target).unwrap()
    }

    /// As the proxy in front of the server asks for `client`.
    pub(crate) fn open_for(address: SocketAddr, target: &str, client: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut request = format!("ws://{address}{target}").into_client_request().unwrap();
        request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
        let (socket, _) = tungstenite::client(request, stream).unwrap();
        Self { socket, socket_id: String::new() }
    }

    /// Over a socket that may break at any time.
    pub(crate) fn over(stream: TcpStream, address: SocketAddr, target: &str) -> Option<Self> {
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        stream.set_nodelay(true).ok()?;
        let url = format!("ws://{address}{target}");
        let (socket, _) = tungstenite::client(url, stream).ok()?;
        Some(Self { socket, socket_id: String::new() })
    }

    pub(crate) fn expect_established(&mut self) {
        let event = self.event();
        assert_eq!(event.name, "pusher:connection_established");
        self.socket_id = event.data["socket_id"].as_str().unwrap().to_owned();
    }

    pub(crate) fn send_event(&mut self, event: &str, data: &Value) {
        self.send(&json!({ "event": event, "data": data }));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    /// The next message; panics when the connection ends.
    pub(crate) fn event(&mut self) -> Event {
        self.next().unwrap_or_else(|end| panic!("closed: {end:?}"))
    }

    /// The next message, or how the connection ended.
    pub(crate) fn next(&mut self) -> Result<Event, Option<(u16, String)>> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Ok(Event::parse(&text)),
                Ok(Message::Close(frame)) => return Err(frame.map(close)),
                Ok(_) => {}
                Err(error) => {
                    let text = error.to_string();
                    assert!(!text.contains("temporarily unavailable"), "nothing came");
                    return Err(None);
                }
            }
        }
    }

    /// The next message with this name; those before it are left out.
    pub(crate) fn skip_until(&mut self, name: &str) -> Event {
        loop {
            let event = self.event();
            if event.name == name {
                return event;
            }
        }
    }

    /// Subscribes, with a signature; answers the answer.
    pub(crate) fn subscribe(&mut self, channel: &str) -> Event {
        self.subscribe_with(channel, None, json!({}))
    }

    pub(crate) fn subscribe_as(&mut self, channel: &str, user: &str) -> Event {
        let data = json!({ "user_id": user }).to_string();
        self.subscribe_with(channel, Some(data), json!({}))
    }

    /// `extra` members go into the data.
    pub(crate) fn subscribe_with(
        &mut self,
        channel: &str,
        channel_data: Option<String>,
        extra: Value,
    ) -> Event {
        let mut data = extra;
        data["channel"] = json!(channel);
        data["auth"] = json!(self.auth(channel, channel_data.as_deref()));
        if let Some(channel_data) = channel_data {
            data["channel_data"] = json!(channel_data);
        }
        self.send_event("pusher:subscribe", &data);
        self.skip_until("pusher_internal:subscription_succeeded")
    }

    pub(crate) fn auth(&self, channel: &str, channel_data: Option<&str>) -> String {
        let mut signed = format!("{}:{channel}", self.socket_id);
        if let Some(data) = channel_data {
            signed = format!("{signed}:{data}");
        }
        format!("{KEY}:{}", sign(&signed))
    }

    /// Everything that was said before is dealt with, and all that came before is read; answers it.
    pub(crate) fn flush(&mut self) -> Vec<Event> {
        self.send_event("pusher:ping", &json!({}));
        let mut events = Vec::new();
        loop {
            let event = self.event();
            if event.name == "pusher:pong" {
                return events;
            }
            events.push(event);
        }
    }

    /// How the connection ends, whatever comes before.
    pub(crate) fn read_close(&mut self) -> Option<(u16, String)> {
        loop {
            if let Err(end) = self.next() {
                return end;
            }
        }
    }
}

pub(crate) fn sign(text: &str) -> String {
    let secret = Secret::new(SECRET);
    Token { key: KEY, secret: &secret }.sign(text.as_bytes())
}

fn close(frame: CloseFrame) -> (u16, String) {
    (frame.code.into(), frame.reason.to_string())
}

impl Event {
    pub(crate) fn parse(text: &str) -> Self {
        let json: Value = serde_json::from_str(text).unwrap();
        let data = match &json["data"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            other => other.clone(),
        };
        Self {
            name: json["event"].as_str().unwrap().to_owned(),
            channel: json["channel"].as_str().map(str::to_owned),
            data,
            json,
        }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.json["offset"].as_u64().unwrap_or_else(|| panic!("no offset: {}", self.json))
    }
}

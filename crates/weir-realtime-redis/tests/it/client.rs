//! A client of a node's core.

use std::cell::RefCell;
use std::collections::VecDeque;

use serde_json::{Value, json};
use weir_base::secret::Secret;
use weir_realtime::measure::{ManualConnection, ManualCore};
use weir_realtime::pusher::signature::Token;
use weir_realtime::websocket::{MaskKey, Message};

use crate::rig::{Node, loop_until};

pub(crate) struct Client<'a> {
    core: &'a ManualCore,
    connection: ManualConnection,
    /// Events that arrived and were not waited for yet.
    arrived: RefCell<VecDeque<Value>>,
}

impl<'a> Client<'a> {
    pub(crate) fn connect(node: &'a Node) -> Self {
        Self::try_connect(node).expect("accepted")
    }

    /// Connects, unless the node refuses the connection.
    pub(crate) fn try_connect(node: &'a Node) -> Option<Self> {
        let connection = node.core.connect("key")?;
        Some(Self { core: &node.core, connection, arrived: RefCell::default() })
    }

    /// Joins a presence channel as a user. Returns the data of the response.
    pub(crate) async fn join(&self, channel: &str, user: &str, info: &Value) -> Value {
        self.begin_join(channel, user, info);
        self.event("pusher_internal:subscription_succeeded").await
    }

    /// Requests to join a presence channel as a user.
    pub(crate) fn begin_join(&self, channel: &str, user: &str, info: &Value) {
        let channel_data = json!({"user_id": user, "user_info": info}).to_string();
        let auth = self.sign(&format!("{channel}:{channel_data}"));
        self.send(
            "pusher:subscribe",
            &json!({"channel": channel, "auth": auth, "channel_data": channel_data}),
        );
    }

    /// Subscribes to a public channel.
    pub(crate) async fn subscribe(&self, channel: &str) {
        self.send("pusher:subscribe", &json!({"channel": channel}));
        self.event("pusher_internal:subscription_succeeded").await;
    }

    /// Signs in as a user who watches others.
    pub(crate) async fn sign_in(&self, user: &str, watchlist: &[&str]) {
        let user_data = json!({"id": user, "watchlist": watchlist}).to_string();
        let auth = self.sign(&format!(":user::{user_data}"));
        self.send("pusher:signin", &json!({"auth": auth, "user_data": user_data}));
        self.event("pusher:signin_success").await;
    }

    /// Breaks the connection.
    pub(crate) fn end(&self) {
        self.core.break_socket(self.connection);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.core.is_open(self.connection)
    }

    /// Subscribes to a channel from a position on. Returns the response.
    pub(crate) async fn recover(&self, channel: &str, position: &Value) -> Value {
        self.send("pusher:subscribe", &json!({"channel": channel, "recover": position}));
        loop {
            let message = self.next_event().await;
            if message["event"] == "pusher_internal:subscription_succeeded" {
                return message;
            }
        }
    }

    /// Waits for the next message.
    pub(crate) async fn next_event(&self) -> Value {
        loop_until(async || {
            self.receive();
            self.arrived.borrow_mut().pop_front()
        })
        .await
    }

    pub(crate) fn leave(&self, channel: &str) {
        self.send("pusher:unsubscribe", &json!({"channel": channel}));
    }

    /// Waits for the next event of this name, and skips others. Returns its data.
    pub(crate) async fn event(&self, name: &str) -> Value {
        loop_until(async || {
            self.receive();
            let mut arrived = self.arrived.borrow_mut();
            let event =
                std::iter::from_fn(|| arrived.pop_front()).find(|it| it["event"] == name)?;
            // Errors have their data as an object.
            let Some(data) = event["data"].as_str() else { return Some(event["data"].clone()) };
            Some(serde_json::from_str(data).unwrap_or_else(|_| json!(data)))
        })
        .await
    }

    /// Waits for an event with one of these names, and returns the name. Others are skipped.
    pub(crate) async fn any_of(&self, names: &[&'static str]) -> &'static str {
        loop_until(async || {
            self.receive();
            let arrived = std::mem::take(&mut *self.arrived.borrow_mut());
            let name = |event: &Value| names.iter().copied().find(|it| event["event"] == **it);
            arrived.iter().find_map(name)
        })
        .await
    }

    /// Receives what was sent since the last call.
    fn receive(&self) {
        self.core.run_periodic_work();
        let _ = self.core.receive(self.connection, b"");
        self.core.deliver();
        let messages = self.core.take(self.connection).into_iter();
        let events = messages.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        self.arrived.borrow_mut().extend(events);
    }

    fn sign(&self, text: &str) -> String {
        let secret = Secret::new("secret");
        let token = Token { key: "key", secret: &secret };
        let socket_id = self.connection.socket_id;
        format!("key:{}", token.sign(format!("{socket_id}:{text}").as_bytes()))
    }

    fn send(&self, event: &str, data: &Value) {
        // A core processes no input of a client that has not received its output.
        self.receive();
        let text = json!({"event": event, "data": data}).to_string();
        let mut frame = Vec::new();
        Message::Text(&text).encode(&mut frame, Some(MaskKey::new([1, 2, 3, 4])));
        assert!(self.core.receive(self.connection, &frame));
    }
}

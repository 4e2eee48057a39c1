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
        let connection = node.core.connect("key").expect("accepted");
        Self { core: &node.core, connection, arrived: RefCell::default() }
    }

    /// Joins a presence channel as a user. Returns the data of the response.
    pub(crate) async fn join(&self, channel: &str, user: &str, info: &Value) -> Value {
        let channel_data = json!({"user_id": user, "user_info": info}).to_string();
        let auth = self.sign(&format!("{channel}:{channel_data}"));
        self.send(
            "pusher:subscribe",
            &json!({"channel": channel, "auth": auth, "channel_data": channel_data}),
        );
        self.event("pusher_internal:subscription_succeeded").await
    }

    /// Subscribes to a public channel.
    pub(crate) async fn subscribe(&self, channel: &str) {
        self.send("pusher:subscribe", &json!({"channel": channel}));
        self.event("pusher_internal:subscription_succeeded").await;
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
            let data = event["data"].as_str().expect("text");
            Some(serde_json::from_str(data).unwrap_or_else(|_| json!(data)))
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

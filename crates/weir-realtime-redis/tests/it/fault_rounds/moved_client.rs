//! A client that connects to another node after its own has ended, and continues where it was.

use serde_json::json;

use super::load::{ClientLog, FleetNode, Recorder};
use crate::client::Client;
use crate::rig::{Node, key};

pub(super) struct MovedClient<'a> {
    client: Client<'a>,
    log: ClientLog,
}

impl<'a> MovedClient<'a> {
    /// Connects to `to`, and requests what the client has not received from its node, which has ended.
    pub(super) async fn resume(mut recorder: Recorder, from: &FleetNode, to: &'a Node) -> Self {
        recorder.read_arrived();
        let Recorder { mut log, offset, .. } = recorder;
        let position = from.node.hub.held_channel(&key(log.channel)).unwrap().position.unwrap();
        let client = Client::connect(to);
        let offset = offset.expect("it has received events");
        let position = json!({"epoch": position.epoch.to_string(), "offset": offset});
        let reply = client.recover(log.channel, &position).await;
        if reply["recovery"]["outcome"] != "recovered" {
            log.note_gap();
        }
        Self { client, log }
    }

    pub(super) async fn read_to_end(mut self) -> ClientLog {
        loop {
            let event = self.client.next_event().await;
            let (name, data) = (event["event"].as_str(), event["data"].as_str());
            if self.log.note(name.unwrap_or_default(), data.unwrap_or_default()) {
                return self.log;
            }
        }
    }
}

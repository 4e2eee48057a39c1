//! Members of one presence channel: events for each change, or lists in pages and differences.

use std::io;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Fault, State, wire};

/// Small, so that a list needs several.
const PAGE: usize = 1;

/// Names of the members, of every version from 0 on.
pub(super) struct Members(Vec<Vec<String>>);

pub(super) struct Member {
    name: String,
    wants_changes: bool,
}

impl Default for Members {
    fn default() -> Self {
        Self(vec![Vec::new()])
    }
}

impl Members {
    fn version(&self) -> usize {
        self.0.len() - 1
    }

    fn current(&self) -> &Vec<String> {
        self.0.last().expect("the first version is there from the beginning")
    }
}

impl State {
    pub(super) fn join_presence(
        &mut self,
        id: u64,
        channel: &str,
        data: &Value,
        stream: &mut TcpStream,
    ) -> io::Result<()> {
        let channel_data = data["channel_data"].as_str().expect("a member");
        let signed = wire::hmac_hex("secret", &format!("{id}.1:{channel}:{channel_data}"));
        assert_eq!(data["auth"], format!("key:{signed}"));
        let member: Value = serde_json::from_str(channel_data).expect("JSON");
        let name = member["user_id"].as_str().expect("a name").to_owned();
        let mut members = self.members.current().clone();
        members.push(name.clone());
        self.members.0.push(members);
        let event = json!({ "event": "pusher_internal:member_added", "channel": channel,
            "data": channel_data });
        self.notify_members(&event, &json!({ name.as_str(): null }), &json!([]));

        self.subscribe(id, channel.to_owned(), false, stream)?;
        let knows_lists = self.fault != Fault::KnowsNoLists;
        let wants_changes = data["member_changes"] == true && knows_lists;
        let subscriber = self.subscribers.get_mut(&id).expect("just subscribed");
        subscriber.member = Some(Member { name, wants_changes });
        let count = self.members.current().len();
        let presence = json!({ "presence": { "ids": [], "hash": {}, "count": count } }).to_string();
        let event = "pusher_internal:subscription_succeeded";
        let mut answer = json!({ "event": event, "channel": channel, "data": presence });
        if wants_changes {
            answer["members_version"] = self.members.version().into();
        }
        wire::write_text(stream, &answer.to_string())
    }

    pub(super) fn send_members_page(
        &self,
        request: &Value,
        stream: &mut TcpStream,
    ) -> io::Result<()> {
        let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).ok();
        let asked = Some(&request["version"]).filter(|version| !version.is_null());
        let version = asked.map_or(Some(self.members.version()), number).expect("small");
        let start = number(&request["start"]).expect("small");
        let list = &self.members.0[version];
        let page: Value =
            list[start..].iter().take(PAGE).map(|name| (name.clone(), Value::Null)).collect();
        let data = json!({ "version": version, "start": start, "count": list.len(),
            "members": page });
        let event = json!({ "event": "weir:members", "channel": request["channel"],
            "data": data.to_string() });
        wire::write_text(stream, &event.to_string())
    }

    pub(super) fn leave(&mut self, id: u64) -> io::Result<()> {
        let Some(subscriber) = self.subscribers.remove(&id) else {
            return Ok(());
        };
        if let Some(Member { name, .. }) = subscriber.member {
            let rest =
                self.members.current().iter().filter(|other| **other != name).cloned().collect();
            self.members.0.push(rest);
            let data = json!({ "user_id": name }).to_string();
            let event = json!({ "event": "pusher_internal:member_removed",
                "channel": subscriber.channel, "data": data });
            self.notify_members(&event, &json!({}), &json!([name]));
        }
        Ok(())
    }

    /// Tells all members of the step to the newest version.
    fn notify_members(&mut self, event: &Value, added: &Value, removed: &Value) {
        let (version, count) = (self.members.version(), self.members.current().len());
        let is_added = event["event"] == "pusher_internal:member_added";
        // By then everybody has its list.
        let is_first_to_go = !is_added && count + 2 == version;
        for (id, subscriber) in &mut self.subscribers {
            let Some(member) = &subscriber.member else { continue };
            let is_victim = self.victim == Some(*id);
            let mut removed = removed.clone();
            match self.fault {
                Fault::MiscountsMembers if is_victim && is_added => continue,
                Fault::KeepsMembers if is_victim && !is_added => continue,
                Fault::LosesADifference if is_victim && is_first_to_go => continue,
                Fault::MislistsMembers if is_victim && is_first_to_go => removed = json!([]),
                _ => {}
            }
            let data = json!({ "from": version - 1, "version": version, "count": count,
                "added": added, "removed": removed });
            let changed = json!({ "event": "weir:members_changed", "channel": event["channel"],
                "data": data.to_string() });
            let text = if member.wants_changes { &changed } else { event }.to_string();
            // Its own thread notices that a client is gone.
            let _ = wire::write_text(&mut subscriber.stream, &text);
        }
    }
}

//! In any order of steps, each client receives every event exactly once.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A step of a test.
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
    ReceiveMessages,
    Turn,
    Nonsense(usize, String),
    /// Sends a frame without a mask, which closes the connection.
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
        3 => Just(Step::ReceiveMessages),
        3 => Just(Step::Turn),
        1 => (who(), "\\PC{0,20}").prop_map(|(who, text)| Step::Nonsense(who, text)),
        1 => who().prop_map(Step::Break),
    ]
}

const CHANNELS: [&str; 3] = ["a", "b", "cache-c"];

/// The epoch and the last offset that a client has, by channel.
#[derive(Default)]
struct Known {
    subscribed: HashMap<String, (String, u64)>,
    left: HashMap<String, (String, u64)>,
}

impl Known {
    /// Checks that each event directly follows the previous one.
    fn check_events(&mut self, messages: Vec<Value>) {
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
            // New subscribers receive the last event of a cache channel again.
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

    /// In any order of joining, leaving, recovering, invalid messages, deliveries and turns, each
    /// client receives every event exactly once and in order, and nothing is left at the end.
    #[test]
    fn in_any_order_of_steps_each_client_gets_each_event_once(
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
                    known.check_events(core.messages(*key));
                }
            }
            core.deliver();
            let channels = &core.0.hub.app_by_id("1").unwrap().channels;
            for (key, _, known) in &mut clients {
                known.check_events(core.messages(*key));
                let is_open = !core.0.state.borrow_mut().session(*key).is_closing();
                for (name, (epoch, offset)) in known.subscribed.iter().filter(|_| is_open) {
                    let position = channels.get(name).unwrap().info().position;
                    assert_eq!((&position.epoch.to_string(), position.offset), (epoch, *offset));
                }
                core.0.close(&mut core.0.state.borrow_mut(), *key, CloseReason::Gone);
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

fn take_step(core: &ManualCore, clients: &mut Vec<Client>, step: Step) {
    match step {
        Step::Connect => {
            let (key, socket_id) = core.connect_client();
            clients.push((key, socket_id, Known::default()));
        }
        Step::Close(who) => {
            if let Some((key, ..)) = pick(clients, who) {
                core.0.close(&mut core.0.state.borrow_mut(), *key, CloseReason::Gone);
            }
        }
        Step::Subscribe { who, channel, recovers } => {
            let Some((key, _, known)) = pick(clients, who) else { return };
            let mut request = json!({ "channel": CHANNELS[channel] });
            if let Some((epoch, offset)) = known.left.get(CHANNELS[channel]).filter(|_| recovers) {
                request["recover"] = json!({ "epoch": epoch, "offset": offset });
            }
            core.send_event(*key, "pusher:subscribe", &request);
        }
        Step::Unsubscribe { who, channel } => {
            let Some((key, _, known)) = pick(clients, who) else { return };
            core.unsubscribe(*key, CHANNELS[channel]);
            let left = known.subscribed.remove(CHANNELS[channel]);
            known.left.extend(left.map(|place| (CHANNELS[channel].to_owned(), place)));
        }
        Step::Publish(channel) => core.publish_event(CHANNELS[channel], "e"),
        Step::ReceiveMessages => core.receive_messages(),
        Step::Turn => core.0.deliver_turn(&mut core.0.state.borrow_mut()),
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

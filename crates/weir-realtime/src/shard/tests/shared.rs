//! Channels of a log that several nodes share.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_base::clock::Timestamp;

use super::*;
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::settings::HistoryLimits;
use crate::shared_log::{
    AppendError, Appending, ChannelKey, ChannelState, ClientBroadcast, Comparison, Counting,
    Delivery, Listing, LogEvent, LogRecord, LogShardView, NewEvent, NodeState, SharedLog,
    Terminating,
};

pub(super) const EPOCH: Epoch = Epoch(7);

/// A log that accepts nothing and notes which channels are requested.
#[derive(Debug, Default)]
pub(super) struct SilentLog {
    is_away: AtomicBool,
    requested: Mutex<Vec<ChannelKey>>,
}

impl SharedLog for SilentLog {
    fn append(&self, _: Vec<NewEvent>) -> Appending<'_> {
        Box::pin(std::future::ready(Err(AppendError::Away)))
    }

    fn terminate(&self, _: Arc<str>, _: Box<str>) -> Terminating<'_> {
        Box::pin(std::future::ready(Err(AppendError::Away)))
    }

    fn broadcast(&self, _: ClientBroadcast) {}

    fn subscribers_changed(&self, _: ChannelKey) {}

    fn counts(&self, _: Vec<ChannelKey>) -> Counting<'_> {
        Box::pin(std::future::ready(Err(AppendError::Away)))
    }

    fn channels(&self, _: Arc<str>, _: Box<str>, _: bool) -> Listing<'_> {
        Box::pin(std::future::ready(Err(AppendError::Away)))
    }

    fn takes_members(&self, _: &ChannelKey) -> bool {
        true
    }

    fn node_states(&self) -> Vec<NodeState> {
        Vec::new()
    }

    fn request_connections(&self) {}

    fn shards(&self) -> Vec<LogShardView> {
        Vec::new()
    }

    fn request(&self, channel: ChannelKey, _: HistoryLimits) -> bool {
        self.requested.lock().unwrap().push(channel);
        !self.is_away.load(Ordering::Relaxed)
    }
}

pub(super) fn core() -> (ManualCore, Arc<SilentLog>) {
    let log = Arc::new(SilentLog::default());
    let shared: Arc<dyn SharedLog> = Arc::<SilentLog>::clone(&log);
    (ManualCore::with_log(Settings::default(), vec![app()], shared), log)
}

pub(super) fn room() -> ChannelKey {
    ChannelKey { app: "1".into(), channel: "room".into() }
}

fn record(epoch: Epoch, offset: u64) -> LogRecord {
    let event = LogEvent { name: "e".into(), data: offset.to_string().into(), except: None };
    let at = Timestamp::from_millis(1_000_000);
    LogRecord { position: ChannelPosition { epoch, offset }, continues: None, at, event }
}

pub(super) fn state(epoch: Epoch, offsets: impl Iterator<Item = u64>, last: u64) -> ChannelState {
    let records = offsets.map(|offset| record(epoch, offset)).collect();
    ChannelState {
        position: ChannelPosition { epoch, offset: last },
        records,
        cached: None,
        members: None,
    }
}

fn subscribe(core: &ManualCore, key: SessionKey, recover: Option<u64>) {
    let recover = recover.map(|offset| json!({ "epoch": EPOCH.to_string(), "offset": offset }));
    let data = match recover {
        Some(recover) => json!({ "channel": "room", "recover": recover }),
        None => json!({ "channel": "room" }),
    };
    core.send_event(key, "pusher:subscribe", &data);
}

pub(super) fn take(core: &ManualCore, (key, socket_id): (SessionKey, SocketId)) -> Vec<String> {
    core.deliver();
    core.take(ManualConnection { key, socket_id })
}

#[test]
fn a_subscription_waits_for_the_copy_and_recovers_from_it() {
    let (core, log) = core();
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, Some(3));
    assert!(take(&core, client).is_empty());
    assert_eq!(*log.requested.lock().unwrap(), [room()]);
    assert_eq!(core.hub().deliver(&room(), &record(EPOCH, 5)), Delivery::NotNeeded);
    core.hub().synchronize(&room(), &state(EPOCH, 1..=5, 5));
    core.requeue(client);
    let messages = take(&core, client);
    assert!(messages[0].contains("recovered") && messages[0].contains("\"offset\":5"));
    assert!(messages[1].contains("\"offset\":4") && messages[2].contains("\"offset\":5"));
    assert_eq!(core.hub().deliver(&room(), &record(EPOCH, 5)), Delivery::NotNeeded);
    assert_eq!(core.hub().deliver(&room(), &record(EPOCH, 7)), Delivery::Hole);
    assert_eq!(core.hub().deliver(&room(), &record(EPOCH, 6)), Delivery::Delivered);
    assert!(take(&core, client)[0].contains("\"offset\":6"));
}

#[test]
fn a_subscriber_that_joined_while_the_log_was_away_is_notified_of_a_gap() {
    let (core, log) = core();
    log.is_away.store(true, Ordering::Relaxed);
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, Some(3));
    let joined = take(&core, client);
    assert!(joined[0].contains("gap") && !joined[0].contains("offset"), "{joined:?}");
    core.hub().synchronize(&room(), &state(EPOCH, 1..=5, 5));
    let gap = take(&core, client);
    assert!(gap.len() == 1 && gap[0].contains(server_message::GAP), "{gap:?}");
    assert_eq!(core.hub().metrics.gaps(), 1);
}

#[test]
fn lost_events_and_new_epochs_are_reported_before_later_events() {
    let (core, _log) = core();
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, None);
    core.hub().synchronize(&room(), &state(EPOCH, 1..=2, 2));
    core.requeue(client);
    drop(take(&core, client));
    // Events 3 and 4 are no longer in the log.
    assert_eq!(core.hub().synchronize(&room(), &state(EPOCH, 5..=6, 6)).late, 2);
    let messages = take(&core, client);
    assert!(messages[0].contains(server_message::GAP) && messages[0].contains("\\\"offset\\\":4"));
    assert!(messages[1].contains("\"offset\":5") && messages[2].contains("\"offset\":6"));
    let epoch = Epoch(8);
    assert_eq!(core.hub().deliver(&room(), &record(epoch, 1)), Delivery::Hole);
    assert_eq!(core.hub().synchronize(&room(), &state(epoch, 1..=1, 1)).late, 1);
    let messages = take(&core, client);
    assert!(messages[0].contains(server_message::GAP) && messages[1].contains("\"offset\":1"));
    assert_eq!(core.hub().metrics.gaps(), 2);
}

/// A Redis took over from another one that had no later events, as far as this node knows.
#[test]
fn an_epoch_that_continues_the_last_event_is_no_gap() {
    let (core, _log) = core();
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, None);
    core.hub().synchronize(&room(), &state(EPOCH, 1..=2, 2));
    core.requeue(client);
    drop(take(&core, client));
    let first = |epoch, offset, last: Epoch| LogRecord {
        continues: Some(ChannelPosition { epoch: last, offset }),
        ..record(epoch, 1)
    };
    let hub = core.hub();
    assert_eq!(hub.deliver(&room(), &first(Epoch(8), 1, EPOCH)), Delivery::Hole, "2 is lost");
    assert_eq!(hub.deliver(&room(), &first(Epoch(8), 3, EPOCH)), Delivery::Hole, "3 is missing");
    assert_eq!(hub.deliver(&room(), &first(Epoch(8), 2, EPOCH)), Delivery::Delivered);
    assert_eq!(hub.deliver(&room(), &record(Epoch(8), 2)), Delivery::Delivered);
    let records = vec![first(Epoch(9), 2, Epoch(8)), record(Epoch(9), 2)];
    let position = ChannelPosition { epoch: Epoch(9), offset: 2 };
    assert_eq!(
        hub.synchronize(&room(), &ChannelState { position, records, cached: None, members: None })
            .late,
        2
    );
    let messages = take(&core, client);
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages.iter().all(|message| message.contains("\"event\":\"e\"")), "{messages:?}");
    assert_eq!(hub.history("1", "room", 10).len(), 2, "those of the last epoch");
    assert_eq!(hub.metrics.gaps(), 0);
}

/// An event of the log can't be read, or the log has it no longer.
#[test]
fn each_missing_event_is_a_gap_and_the_others_are_delivered() {
    let (core, _log) = core();
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, None);
    core.hub().synchronize(&room(), &state(EPOCH, 1..=1, 1));
    core.requeue(client);
    drop(take(&core, client));
    let records = [2, 4].map(|offset| record(EPOCH, offset)).to_vec();
    let position = ChannelPosition { epoch: EPOCH, offset: 5 };
    let found = ChannelState { position, records, cached: None, members: None };
    assert_eq!(core.hub().synchronize(&room(), &found).late, 2);
    let messages = take(&core, client);
    let expected = ["\"offset\":2", "\\\"offset\\\":3", "\"offset\":4", "\\\"offset\\\":5"];
    assert!(messages.iter().zip(expected).all(|(it, text)| it.contains(text)), "{messages:?}");
    assert_eq!((messages.len(), core.hub().metrics.gaps()), (4, 2));
    assert_eq!(core.hub().history("1", "room", 10).len(), 0, "it would not be complete");
}

#[test]
fn late_events_wait_for_room_on_the_cores() {
    let (core, _log) = core();
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, None);
    core.hub().synchronize(&room(), &state(EPOCH, 1..=1, 1));
    core.requeue(client);
    drop(take(&core, client));
    let mut waiting = core.fill();
    drop(waiting.pop());
    let expected = Comparison { late: 1, is_complete: false };
    assert_eq!(core.hub().synchronize(&room(), &state(EPOCH, 2..=4, 4)), expected);
    assert_eq!(core.hub().deliver(&room(), &record(EPOCH, 3)), Delivery::Busy);
    assert!(!core.hub().has_room(&room()));
    drop(waiting);
    assert_eq!(take(&core, client).len(), 1);
    assert!(core.hub().has_room(&room()));
    let expected = Comparison { late: 2, is_complete: true };
    assert_eq!(core.hub().synchronize(&room(), &state(EPOCH, 3..=4, 4)), expected);
    assert_eq!((take(&core, client).len(), core.hub().metrics.gaps()), (2, 0));
}

#[test]
fn a_new_copy_has_the_events_behind_the_last_missing_one() {
    let (core, _log) = core();
    let client = core.connect_client();
    subscribe(&core, client.0, None);
    let records = [1, 2, 4, 5].map(|offset| record(EPOCH, offset)).to_vec();
    let position = ChannelPosition { epoch: EPOCH, offset: 5 };
    core.hub()
        .synchronize(&room(), &ChannelState { position, records, cached: None, members: None });
    let history = core.hub().history("1", "room", 10);
    let offsets: Vec<_> = history.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, [Some(5), Some(4)], "the newest first");
}

/// Another node delivered events that have not arrived here.
#[test]
fn a_client_that_is_ahead_of_the_copy_waits_for_it() {
    let (core, log) = core();
    let client = core.connect_client();
    drop(take(&core, client));
    subscribe(&core, client.0, Some(3));
    core.hub().synchronize(&room(), &state(EPOCH, 1..=2, 2));
    core.hub().clock.advance(std::time::Duration::from_secs(1));
    core.requeue(client);
    assert!(take(&core, client).is_empty());
    assert_eq!(log.requested.lock().unwrap().len(), 2);
    core.hub().synchronize(&room(), &state(EPOCH, 3..=3, 3));
    core.requeue(client);
    assert!(take(&core, client)[0].contains("recovered"));
}

use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};

use super::*;
use crate::broker::{Broker as _, ServerEvent};
use crate::channel::{CacheState, Join, JoinRequest};
use crate::hub::single_core::{hub, poll_now};
use crate::pusher::position::Epoch;
use crate::pusher::server_message::Recovery;
use crate::settings::Settings;

fn name(name: &str) -> ChannelName {
    ChannelName::parse(name, &Settings::default().limits.pusher).unwrap()
}

fn publish(hub: &Hub, channel: &str, data: &str) {
    let app = hub.app_by_id("1").unwrap();
    poll_now(hub.publish(
        &app,
        &name(channel),
        ServerEvent { name: "e", data, except: None, idempotency_key: None, trace: None },
    ))
    .unwrap();
}

fn join(hub: &Hub, channel: &str, recover: Option<ChannelPosition>) -> Join {
    let app = hub.app_by_id("1").unwrap();
    let now = hub.clock.now();
    let joining = JoinRequest {
        core: 0,
        member: None,
        recover,
        needs_position: true,
        wants_member_changes: false,
        now,
    };
    hub.broker.subscribe(&app, &name(channel), &joining, |_, _| {}).unwrap().1
}

struct Folder {
    clock: Clock,
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        Self { clock, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("histories")
    }

    /// There are no durable histories.
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Publishes three events on `news` and one on `cache-a`, then saves.
    fn saved(&self) -> ChannelPosition {
        let hub = hub(&self.clock);
        for data in ["1", "2", "3"] {
            publish(&hub, "news", data);
        }
        publish(&hub, "cache-a", "\"kept\"");
        assert_eq!(hub.save(&self.path()).unwrap(), Saved { channels: 2, events: 4 });
        join(&hub, "news", None).joined.position.unwrap()
    }
}

#[test]
fn a_client_recovers_missed_events_after_a_restart() {
    let folder = Folder::new();
    let position = folder.saved();
    let hub = hub(&folder.clock);
    assert_eq!(hub.restore(&folder.path()).unwrap(), Saved { channels: 2, events: 4 });
    assert_eq!(hub.broker.local.history_bytes(), {
        let channels = hub.channels("1", "", 9).unwrap().channels;
        channels.iter().map(|channel| channel.history_bytes).sum::<usize>()
    });
    let missed = join(&hub, "news", Some(ChannelPosition { offset: 1, ..position }));
    assert_eq!(missed.joined.recovery, Some(Recovery::Recovered { events: 2 }));
    let text = String::from_utf8(missed.missed[0].json().to_vec()).unwrap();
    let expected = format!(
        r#"{{"event":"e","channel":"news","data":"2","epoch":"{}","offset":2}}"#,
        position.epoch
    );
    assert_eq!(text, expected);
    publish(&hub, "news", "4");
    assert_eq!(
        join(&hub, "news", None).joined.position,
        Some(ChannelPosition { offset: 4, ..position })
    );
    assert!(matches!(join(&hub, "cache-a", None).cache, CacheState::Hit(_)));
}

#[test]
fn after_a_crash_clients_get_a_gap() {
    let folder = Folder::new();
    let position = folder.saved();
    hub(&folder.clock).restore(&folder.path()).unwrap();
    // The previous process ended without saving.
    let hub = hub(&folder.clock);
    assert_eq!(hub.restore(&folder.path()).unwrap(), Saved::default());
    assert_eq!(join(&hub, "news", Some(position)).joined.recovery, Some(Recovery::Gap));
}

#[test]
fn expired_events_are_not_saved() {
    let folder = Folder::new();
    let position = folder.saved();
    folder.clock.advance(Duration::from_secs(3_600));
    let hub = hub(&folder.clock);
    hub.restore(&folder.path()).unwrap();
    // The first sweep comes before all clients have returned.
    (0..Hub::expiry_parts()).for_each(|part| hub.remove_expired(part));
    let missed = join(&hub, "news", Some(ChannelPosition { offset: 1, ..position }));
    assert_eq!(missed.joined.recovery, Some(Recovery::Gap));
    let nothing_missed = join(&hub, "news", Some(position)).joined.recovery;
    assert_eq!(nothing_missed, Some(Recovery::Recovered { events: 0 }));
}

#[test]
fn a_damaged_history_file_is_rejected_and_removed() {
    let folder = Folder::new();
    folder.saved();
    let whole = fs::read(folder.path()).unwrap();
    for length in 0..whole.len() {
        fs::write(folder.path(), &whole[..length]).unwrap();
        let error = hub(&folder.clock).restore(&folder.path()).unwrap_err();
        assert!(matches!(error, SavedError::Damaged { .. }), "{length}: {error}");
        assert!(!folder.path().exists());
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        fs::write(folder.path(), changed).unwrap();
        hub(&folder.clock).restore(&folder.path()).unwrap_err();
    }
}

#[test]
fn an_epoch_round_trips_through_the_file() {
    let position = ChannelPosition { epoch: Epoch(u64::MAX), offset: 7 };
    let json = serde_json::to_string(&position).unwrap();
    assert_eq!(serde_json::from_str::<ChannelPosition>(&json).unwrap(), position);
}

/// Clients that saw later events than the backup must not believe that they missed nothing.
#[test]
fn a_restored_backup_keeps_its_events_and_notifies_clients_of_a_gap() {
    let folder = Folder::new();
    let position = folder.saved();
    assert_eq!(
        begin_new_epochs(&folder.path(), &folder.log()).unwrap(),
        Saved { channels: 2, events: 4 }
    );
    let hub = hub(&folder.clock);
    assert_eq!(hub.restore(&folder.path()).unwrap(), Saved { channels: 2, events: 4 });
    let later = ChannelPosition { offset: 9, ..position };
    for known in [later, position] {
        let joined = join(&hub, "news", Some(known)).joined;
        assert!(!matches!(joined.recovery, Some(Recovery::Recovered { .. })), "{joined:?}");
    }
    let new = join(&hub, "news", None).joined.position.unwrap();
    assert_ne!(new.epoch, position.epoch);
    let missed = join(&hub, "news", Some(ChannelPosition { offset: 1, ..new })).missed;
    let text = String::from_utf8(missed[0].json().to_vec()).unwrap();
    assert!(text.ends_with(&format!(r#","epoch":"{}","offset":2}}"#, new.epoch)), "{text}");
}

use std::time::Duration;

use weir_base::clock::Clock;

use super::*;
use crate::broker::{Broker as _, ServerEvent};
use crate::channel::{CacheState, Join, Joining};
use crate::hub::alone::{hub, now};
use crate::pusher::position::Epoch;
use crate::pusher::server_message::Recovery;
use crate::settings::Settings;

fn name(name: &str) -> ChannelName {
    ChannelName::parse(name, &Settings::default().limits.pusher).unwrap()
}

fn publish(hub: &Hub, channel: &str, data: &str) {
    let app = hub.app_by_id("1").unwrap();
    now(hub.publish(&app, &name(channel), ServerEvent { name: "e", data, except: None })).unwrap();
}

fn join(hub: &Hub, channel: &str, recover: Option<ChannelPosition>) -> Join {
    let app = hub.app_by_id("1").unwrap();
    let now = hub.clock.now();
    let joining = Joining { core: 0, member: None, recover, wants_member_changes: false, now };
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
fn who_comes_back_after_a_restart_gets_what_it_missed() {
    let folder = Folder::new();
    let position = folder.saved();
    let hub = hub(&folder.clock);
    assert_eq!(hub.restore(&folder.path()).unwrap(), Saved { channels: 2, events: 4 });
    assert_eq!(hub.broker.history_bytes(), {
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
fn after_a_crash_there_is_a_gap() {
    let folder = Folder::new();
    let position = folder.saved();
    hub(&folder.clock).restore(&folder.path()).unwrap();
    // The previous process ended without saving.
    let hub = hub(&folder.clock);
    assert_eq!(hub.restore(&folder.path()).unwrap(), Saved::default());
    assert_eq!(join(&hub, "news", Some(position)).joined.recovery, Some(Recovery::Gap));
}

#[test]
fn what_is_too_old_is_not_kept() {
    let folder = Folder::new();
    let position = folder.saved();
    folder.clock.advance(Duration::from_secs(3_600));
    let hub = hub(&folder.clock);
    hub.restore(&folder.path()).unwrap();
    let missed = join(&hub, "news", Some(ChannelPosition { offset: 1, ..position }));
    assert_eq!(missed.joined.recovery, Some(Recovery::Gap));
    let nothing_missed = join(&hub, "news", Some(position)).joined.recovery;
    assert_eq!(nothing_missed, Some(Recovery::Recovered { events: 0 }));
}

#[test]
fn a_file_that_is_cut_or_changed_is_refused_and_removed() {
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
fn an_epoch_is_a_text_in_the_file_and_comes_back_whole() {
    let position = ChannelPosition { epoch: Epoch(u64::MAX), offset: 7 };
    let json = serde_json::to_string(&position).unwrap();
    assert_eq!(serde_json::from_str::<ChannelPosition>(&json).unwrap(), position);
}

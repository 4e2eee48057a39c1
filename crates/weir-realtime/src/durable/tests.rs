//! Histories that survive `kill -9`, and what a power cut, a full disk and damage leave of them.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use weir_base::secret::Secret;
use weir_log::{Class, SimulatedDisk};

use super::record::{Begin, Header};
use super::*;
use crate::hub::{Hub, single_core};
use crate::operations::{OperationError, PublishEvent};
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::settings::{AppSettings, Settings};

const EPOCH: Epoch = Epoch(7);
const CHANNEL: &str = "cache-news";

/// The data directory of a Weir.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("log")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("file")
    }

    /// Returns what `kill -9` would leave at this moment.
    fn killed(&self) -> Self {
        let copy = Self::new();
        fs::create_dir(copy.log()).unwrap();
        for file in fs::read_dir(self.log()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.log().join(file.file_name())).unwrap();
        }
        copy
    }

    /// Writes records. Each one states that those before it were synced.
    fn write(&self, records: &[Vec<u8>]) {
        let (mut log, _) = open_log(&self.log()).unwrap();
        for record in records {
            log.syncer().sync().unwrap();
            log.append(Class::Job, &[], &[record]).unwrap();
        }
        log.flush().unwrap();
    }

    fn open(&self, apps: Vec<AppSettings>) -> Result<Arc<Hub>, DurableError> {
        let hub = hub_of(apps);
        hub.open_histories(&self.log(), &self.file())?;
        Ok(hub)
    }

    fn hub(&self) -> Arc<Hub> {
        self.open(vec![app("1", true)]).unwrap()
    }
}

fn hub_of(apps: Vec<AppSettings>) -> Arc<Hub> {
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    single_core::single_core_hub(&clock, Settings::default(), apps, None)
}

fn app(id: &str, is_durable: bool) -> AppSettings {
    let mut app = AppSettings::new(id, id, Secret::new("secret"));
    app.history.is_durable = is_durable;
    app
}

async fn try_publish(hub: &Hub, data: &str) -> Result<(String, u64), OperationError> {
    publish_on(hub, CHANNEL, data).await
}

async fn publish_on(hub: &Hub, channel: &str, data: &str) -> Result<(String, u64), OperationError> {
    let [app, channel, event] = ["1", channel, "e"].map(str::to_owned);
    let data = serde_json::value::to_raw_value(data).unwrap();
    let published = hub.publish_event(&PublishEvent { app, channel, event, data }).await?;
    Ok((published.epoch.unwrap(), published.offset.unwrap()))
}

async fn publish(hub: &Hub, data: &str) -> (String, u64) {
    try_publish(hub, data).await.unwrap()
}

fn saved(hub: &Hub) -> Option<SavedHistory> {
    hub.app_by_id("1").unwrap().channels.get(CHANNEL)?.saved_history()
}

/// Returns the data of the events that the channel has.
fn events(hub: &Hub) -> Vec<String> {
    let mut events: Vec<String> =
        hub.history("1", CHANNEL, 1_000).into_iter().map(|event| event.data).collect();
    events.reverse();
    events
}

fn begin(boot: &str, apps: &[&str]) -> Vec<u8> {
    let apps = apps.iter().map(|app| (*app).to_owned()).collect();
    record::encode_begin(&Begin { version: record::VERSION, boot: boot.to_owned(), apps })
}

/// The time at which hubs begin.
const NOW_US: u64 = 1_000_000_000;

fn event(offset: u64, data: &str) -> Vec<u8> {
    event_at((EPOCH, offset), (CHANNEL, NOW_US), data)
}

fn event_at((epoch, offset): (Epoch, u64), (channel, at_us): (&str, u64), data: &str) -> Vec<u8> {
    let [app, channel, name] = ["1", channel, "e"].map(str::to_owned);
    let position = ChannelPosition { epoch, offset };
    record::encode_event(&Header { app, channel, position, at_us, name }, data)
}

#[tokio::test]
async fn channels_continue_after_each_of_several_crashes() {
    let mut folder = Folder::new();
    let mut epochs = Vec::new();
    for generation in 0..3 {
        let hub = folder.hub();
        for number in 1..=3 {
            let offset = generation * 3 + number;
            let published = publish(&hub, &offset.to_string()).await;
            assert_eq!(published.1, offset);
            epochs.push(published.0);
        }
        let expected: Vec<String> = (1..=generation * 3 + 3).map(|it| it.to_string()).collect();
        assert_eq!(events(&hub), expected);
        folder = folder.killed();
    }
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
    assert_eq!(saved(&folder.hub()).unwrap().cached.unwrap().0, "9".into());
}

/// An event that could not be written at once was not published, and may be in the log nevertheless.
#[tokio::test]
async fn the_last_event_at_an_offset_counts() {
    let folder = Folder::new();
    let records = [(1, "a"), (2, "not published"), (3, "nor this"), (2, "b"), (3, "c")];
    let records: Vec<Vec<u8>> = std::iter::once(begin(&boot_id(), &["1"]))
        .chain(records.map(|(offset, data)| event(offset, data)))
        .collect();
    folder.write(&records);
    let hub = folder.hub();
    assert_eq!(events(&hub), ["a", "b", "c"]);
    assert_eq!(publish(&hub, "d").await, (EPOCH.to_string(), 4));
}

#[tokio::test]
async fn after_a_power_cut_channels_begin_new_epochs_unless_the_log_was_closed() {
    for (is_closed, boot) in [(false, "other"), (true, "other"), (false, &*boot_id())] {
        let folder = Folder::new();
        let mut records = vec![begin(boot, &["1"]), event(1, "a")];
        records.extend(is_closed.then(|| record::CLOSED.to_vec()));
        folder.write(&records);
        let hub = folder.hub();
        let (epoch, offset) = publish(&hub, "b").await;
        assert_eq!((offset, events(&hub)), (2, vec!["a".into(), "b".into()]));
        let is_cut = !is_closed && boot == "other";
        assert_eq!(epoch != EPOCH.to_string(), is_cut, "{is_closed} {boot}");
        let text = String::from_utf8(saved(&hub).unwrap().entries[0].frame.json().to_vec());
        assert!(text.unwrap().contains(&epoch), "events have the epoch of the channel");
    }
}

/// The process that began after a power cut was killed before it had written the channels in their new epochs.
#[tokio::test]
async fn a_start_that_was_not_completed_after_a_power_cut_is_not_the_end_of_old_epochs() {
    let (boot, other) = (boot_id(), Epoch(8));
    let cut = [begin("other", &["1"]), event(1, "a"), begin(&boot, &["1"])];
    let after = event_at((other, 2), (CHANNEL, NOW_US), "b");
    for (more, expected) in [
        (None, None),
        (Some(begin(&boot, &["1"])), None),
        // An event in a new epoch was acknowledged before the kill.
        (Some(after), Some(other)),
    ] {
        let folder = Folder::new();
        folder.write(&cut.iter().cloned().chain(more).collect::<Vec<_>>());
        let (epoch, _) = publish(&folder.hub(), "c").await;
        assert_ne!(epoch, EPOCH.to_string());
        assert!(expected.is_none_or(|expected| epoch == expected.to_string()), "{epoch}");
    }
}

/// A log has each channel that had an event since it was rewritten.
#[tokio::test]
async fn channels_without_events_take_no_place_from_others() {
    let folder = Folder::new();
    let minute_us = 60_000_000;
    let channels = [("expired", 3), ("oldest", 1), (CHANNEL, 0)];
    let records = channels
        .map(|(name, minutes)| event_at((EPOCH, 1), (name, NOW_US - minutes * minute_us), name));
    folder.write(&[&[begin(&boot_id(), &["1"])], &records[..]].concat());
    let names = |channels_max: usize| {
        let mut settings = Settings::default();
        settings.limits.channels_max = channels_max;
        let clock = Clock::manual(Timestamp::from_micros(NOW_US));
        let hub = single_core::single_core_hub(&clock, settings, vec![app("1", true)], None);
        hub.open_histories(&folder.killed().log(), &folder.file()).unwrap();
        let app = hub.app_by_id("1").unwrap();
        let mut names: Vec<String> = app
            .channels
            .with_prefix("")
            .iter()
            .map(|channel| channel.name.as_str().to_owned())
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(10), [CHANNEL, "expired", "oldest"]);
    assert_eq!(names(3), [CHANNEL, "oldest"], "new channels have room");
    assert_eq!(names(1), [CHANNEL], "the latest");
}

fn position(hub: &Hub, channel: &str) -> Option<ChannelPosition> {
    Some(hub.app_by_id("1").unwrap().channels.get(channel)?.info().position)
}

fn sweep(hub: &Hub) {
    (0..Hub::expiry_parts()).for_each(|part| hub.remove_expired(part));
}

/// Its clients were connected to the previous process, and have missed nothing.
#[tokio::test]
async fn a_channel_without_recent_events_continues_and_its_clients_have_time_to_return() {
    let (folder, minute) = (Folder::new(), Duration::from_secs(60));
    let expected = ChannelPosition { epoch: EPOCH, offset: 10 };
    folder.write(&[
        begin(&boot_id(), &["1"]),
        event_at((EPOCH, 10), ("quiet", NOW_US - 180_000_000), "old"),
    ]);
    let clock = Clock::manual(Timestamp::from_micros(NOW_US));
    let hub = single_core::single_core_hub(&clock, Settings::default(), vec![app("1", true)], None);
    hub.open_histories(&folder.log(), &folder.file()).unwrap();
    sweep(&hub);
    assert_eq!(position(&hub, "quiet"), Some(expected));
    assert_eq!(hub.history("1", "quiet", 9).len(), 0);
    clock.advance(2 * minute);
    sweep(&hub);
    assert_eq!(position(&hub, "quiet"), Some(expected));
    clock.advance(minute);
    sweep(&hub);
    assert_eq!(position(&hub, "quiet"), None, "nobody has returned");
}

#[tokio::test]
async fn a_graceful_stop_keeps_the_positions_of_channels_that_had_no_event() {
    use crate::broker::Broker as _;
    use crate::pusher::channel::ChannelName;

    let folder = Folder::new();
    let hub = folder.hub();
    let app = hub.app_by_id("1").unwrap();
    let name = ChannelName::parse("quiet", &hub.settings().limits.pusher).unwrap();
    let joining = crate::channel::JoinRequest {
        core: 0,
        member: None,
        recover: None,
        needs_position: true,
        wants_member_changes: false,
        now: hub.clock.now(),
    };
    let (_, joined) = hub.broker.subscribe(&app, &name, &joining, |_, _| {}).unwrap();
    hub.hand_over();
    hub.close_durable_histories();
    assert_eq!(hub.save(&folder.file()).unwrap().channels, 0, "the log has them");
    assert_eq!(position(&folder.hub(), "quiet"), joined.joined.position);
}

/// The log lacks what was published meanwhile.
#[tokio::test]
async fn a_log_is_not_continued_after_a_time_without_it() {
    let folder = Folder::new();
    let (hub, is_durable) = (folder.hub(), false);
    let (epoch, _) = publish(&hub, "a").await;
    hub.hand_over();
    hub.close_durable_histories();
    hub.save(&folder.file()).unwrap();
    let without = folder.open(vec![app("1", is_durable)]).unwrap();
    assert_eq!(publish(&without, "b").await, (epoch.clone(), 2), "it has what the log had");
    assert!(!folder.log().exists());
    // It is killed.
    let after = publish(&folder.hub(), "c").await;
    assert!(after.0 != epoch && after.1 == 1, "{after:?}");
}

/// An older Weir, which knows no log, has run in between.
#[tokio::test]
async fn a_saved_file_is_newer_than_the_log() {
    let folder = Folder::new();
    folder.write(&[begin(&boot_id(), &["1"]), event(1, "of the log"), record::CLOSED.to_vec()]);
    let older = hub_of(vec![app("1", false)]);
    let (epoch, _) = publish(&older, "of the file").await;
    older.save(&folder.file()).unwrap();
    let hub = folder.hub();
    assert_eq!(events(&hub), ["of the file"]);
    assert_eq!(publish(&hub, "next").await, (epoch.clone(), 2));
    assert_eq!(publish(&folder.killed().hub(), "last").await, (epoch, 3));
}

#[tokio::test]
async fn channels_of_an_app_that_was_not_durable_meanwhile_are_not_restored() {
    let (folder, boot) = (Folder::new(), boot_id());
    folder.write(&[begin(&boot, &["1", "2"]), event(1, "a"), begin(&boot, &["2"])]);
    assert!(saved(&folder.hub()).is_none());
    let folder = Folder::new();
    folder.write(&[begin(&boot, &["1"]), event(1, "a"), begin(&boot, &["1", "2"])]);
    assert!(saved(&folder.hub()).is_some());
}

/// A reload replaces an app by one of the same id, whose histories are not durable.
#[tokio::test]
async fn a_log_notes_the_apps_of_a_reload() {
    let folder = Folder::new();
    let hub = folder.open(vec![app("1", true), app("2", true)]).unwrap();
    let (epoch, _) = publish(&hub, "a").await;
    hub.reload(Settings::default(), vec![app("2", true)]);
    hub.reload(Settings::default(), vec![app("1", false), app("2", true)]);
    publish(&hub, "b").await;
    hub.close_durable_histories();
    let after = publish(&folder.hub(), "c").await;
    assert!(after.0 != epoch && after.1 == 1, "{after:?}");
}

/// One that is added later, and needs a restart, is served until then.
#[tokio::test]
async fn an_app_that_is_added_while_there_is_no_log_is_saved_at_the_end() {
    let folder = Folder::new();
    let hub = folder.open(vec![app("2", false)]).unwrap();
    hub.reload(Settings::default(), vec![app("1", true), app("2", false)]);
    let (epoch, _) = publish(&hub, "a").await;
    hub.hand_over();
    hub.close_durable_histories();
    hub.save(&folder.file()).unwrap();
    let next = folder.hub();
    assert_eq!(events(&next), ["a"]);
    // What the file had is in the log from then on.
    let killed = folder.killed();
    assert_eq!(publish(&killed.hub(), "b").await, (epoch, 2));
}

#[tokio::test]
async fn a_log_that_is_closed_accepts_nothing_more() {
    let folder = Folder::new();
    let hub = folder.hub();
    publish(&hub, "a").await;
    hub.close_durable_histories();
    let refused = try_publish(&hub, "b").await.unwrap_err();
    assert!(refused.to_string().contains("history.durable"), "{refused}");
    assert_eq!(events(&hub), ["a"]);
    let (log, _) = open_log(&folder.log()).unwrap();
    let replay = Replay::read(&log, &|_| Some(HistoryLimits::NONE)).unwrap();
    assert_eq!(replay.open_boot, None, "everything is on the disk");
}

/// One rule: start with what can be read, set aside, report.
#[tokio::test]
async fn a_damaged_log_is_set_aside_and_channels_begin_new_epochs() {
    let sound = Folder::new();
    let events_written = [event(1, "first"), event(2, "second"), event(3, "third")];
    sound.write(&[&[begin(&boot_id(), &["1"])], &events_written[..]].concat());
    let name = weir_log::segment_file_name(1);
    let whole = fs::read(sound.log().join(&name)).unwrap();
    let at = |text: &str| whole.windows(text.len()).position(|it| it == text.as_bytes()).unwrap();
    let damages: [(&[usize], &[&str]); 3] =
        [(&[at("first")], &["second", "third"]), (&[0], &["first", "second", "third"]), (&[], &[])];
    for (offsets, readable) in damages {
        let folder = sound.killed();
        let mut bytes = whole.clone();
        offsets.iter().for_each(|offset| bytes[*offset] ^= 0x20);
        fs::write(folder.log().join(&name), &bytes).unwrap();
        if offsets.is_empty() {
            for file in fs::read_dir(folder.log()).unwrap() {
                fs::write(file.unwrap().path(), "no log".repeat(100)).unwrap();
            }
        }
        let hub = folder.hub();
        assert_eq!(events(&hub), readable, "{offsets:?}");
        let (epoch, _) = publish(&hub, "c").await;
        assert_ne!(epoch, EPOCH.to_string(), "{offsets:?}");
        assert!(folder.log().with_extension("damaged").join(&name).exists(), "{offsets:?}");
        let again = folder.killed();
        assert_eq!(publish(&again.hub(), "d").await.0, epoch, "the new log is sound");
        assert!(!again.log().with_extension("damaged").exists());
    }
}

#[tokio::test]
async fn a_log_of_a_later_version_is_named_and_not_touched() {
    for apps in [vec![app("1", true)], vec![app("1", false)]] {
        let folder = Folder::new();
        let later = br#"B{"version":9,"nodes":[]}"#.to_vec();
        folder.write(&[begin(&boot_id(), &["1"]), event(1, "a"), later, b"?".to_vec()]);
        let before = folder.killed();
        let error = folder.open(apps).unwrap_err().to_string();
        let path = folder.log().display().to_string();
        assert!(error.contains("format 9") && error.contains(&path), "{error}");
        for file in fs::read_dir(before.log()).unwrap() {
            let name = file.unwrap().file_name();
            let read = |folder: &Folder| fs::read(folder.log().join(&name)).unwrap();
            assert!(read(&before) == read(&folder), "{}", name.display());
        }
    }
}

#[tokio::test]
async fn a_long_log_is_read_within_the_limits_of_the_app() {
    let folder = Folder::new();
    let events = (1..=1_000).map(|offset| event(offset, &offset.to_string()));
    let records: Vec<Vec<u8>> = std::iter::once(begin(&boot_id(), &["1"])).chain(events).collect();
    folder.write(&records);
    let opened = OpenedLog::open(&folder.log(), &|_| Some(app("1", true).history)).unwrap();
    let [channel] = &opened.channels.values().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((channel.entries.len(), channel.entries[0].offset), (200, 801));
    assert_eq!(channel.position.offset, 1_000);
}

/// 80 MB of events, of which the histories have 256 KiB.
#[tokio::test]
async fn a_log_that_grows_is_rewritten() {
    let folder = Folder::new();
    let hub = folder.hub();
    let (epoch, _) = publish(&hub, "a").await;
    let long = "x".repeat(10_000);
    let app = hub.app_by_id("1").unwrap();
    let name = crate::pusher::channel::ChannelName::parse(CHANNEL, &hub.settings().limits.pusher);
    let name = name.unwrap();
    let one = crate::broker::ServerEvent {
        name: "e",
        data: &long,
        except: None,
        idempotency_key: None,
        trace: None,
    };
    for _ in 0..80 {
        hub.publish_all(&app, std::iter::repeat_n((&name, one), 100)).await.unwrap();
    }
    hub.close_durable_histories();
    let (log, _) = open_log(&folder.log()).unwrap();
    let bytes: u64 = log.segments().iter().map(|segment| u64::from(segment.bytes)).sum();
    assert!(bytes < 40 << 20, "{bytes}");
    drop(log);
    let hub = folder.hub();
    let entries = saved(&hub).unwrap().entries;
    assert_eq!((entries.len(), entries.last().unwrap().offset), (25, 8_001));
    assert_eq!(publish(&hub, "b").await, (epoch, 8_002));
}

/// Returns a hub with a log on this disk, whose failure is noted nowhere.
fn on_disk(disk: &SimulatedDisk) -> Arc<Hub> {
    on_disk_in(disk, Path::new("/nonexistent"))
}

fn on_disk_in(disk: &SimulatedDisk, folder: &Path) -> Arc<Hub> {
    let hub = hub_of(vec![app("1", true)]);
    let (log, _) = SegmentLog::open(disk.clone(), options()).unwrap();
    let replay = Replay::read(&log, &|_| Some(app("1", true).history)).unwrap();
    let (channels, _) = replay.into_channels(&boot_id());
    let mut opened = OpenedLog { log, channels, damages: 0, failure: DiskFailure::of(folder) };
    hub.restore_log(&mut opened);
    hub.start_log(opened).unwrap();
    hub
}

#[tokio::test]
async fn with_a_full_disk_events_are_rejected_until_there_is_space() {
    let disk = SimulatedDisk::new(1);
    disk.set_allocates(false);
    let folder = Folder::new();
    fs::create_dir(folder.log()).unwrap();
    let hub = on_disk_in(&disk, &folder.log());
    let (epoch, _) = publish(&hub, "a").await;
    disk.set_space(Some(disk.used_bytes()));
    for _ in 0..3 {
        let refused = try_publish(&hub, "rejected").await.unwrap_err();
        assert!(refused.to_string().contains("the disk of data_dir is full"), "{refused}");
    }
    assert_eq!(events(&hub), ["a"], "nothing is published that is not written");
    disk.set_space(None);
    let mut published = try_publish(&hub, "b").await;
    if published.is_err() {
        // The attempt has written what was left, so that the next one has space.
        published = try_publish(&hub, "b").await;
    }
    assert_eq!(published.unwrap(), (epoch.clone(), 2));
    // A full disk at the end is no reason to distrust the log.
    disk.set_space(Some(0));
    hub.close_durable_histories();
    assert!(!DiskFailure::of(&folder.log()).is_noted());
    disk.set_space(None);
    let next = on_disk(&disk.kill());
    assert_eq!(events(&next), ["a", "b"]);
    assert_eq!(publish(&next, "c").await, (epoch, 3));
}

/// Events that could not be written at once are written with the next ones, or at the end.
#[tokio::test]
async fn events_that_were_rejected_for_a_full_disk_do_not_appear_after_a_restart() {
    for next in [None, Some("other")] {
        let disk = SimulatedDisk::new(1);
        disk.set_allocates(false);
        let hub = on_disk(&disk);
        let (epoch, _) = publish(&hub, "a").await;
        disk.set_space(Some(disk.used_bytes()));
        for _ in 0..3 {
            try_publish(&hub, "rejected").await.unwrap_err();
        }
        disk.set_space(None);
        if let Some(channel) = next {
            let publish = || publish_on(&hub, channel, "b");
            // The first attempt may only write what was left, and the last one follows what the others have caused.
            let _ = publish().await;
            publish().await.unwrap();
            publish().await.unwrap();
        } else {
            hub.close_durable_histories();
        }
        let next = on_disk(&disk.kill());
        assert_eq!(events(&next), ["a"]);
        assert_eq!(publish(&next, "c").await, (epoch, 2));
    }
}

/// It was the first event of its channel, which has no history that could replace it.
#[tokio::test]
async fn a_first_event_that_was_rejected_for_a_full_disk_does_not_appear_after_a_restart() {
    for next in [None, Some("other")] {
        let disk = SimulatedDisk::new(1);
        disk.set_allocates(false);
        let hub = on_disk(&disk);
        disk.set_space(Some(disk.used_bytes()));
        for _ in 0..3 {
            try_publish(&hub, "rejected").await.unwrap_err();
        }
        disk.set_space(None);
        if let Some(channel) = next {
            // The first attempt may only write what was left, and the last one follows what the others have caused.
            let _ = publish_on(&hub, channel, "b").await;
            publish_on(&hub, channel, "b").await.unwrap();
            publish_on(&hub, channel, "b").await.unwrap();
        } else {
            hub.close_durable_histories();
        }
        let again = on_disk(&disk.kill());
        assert!(events(&again).is_empty(), "{next:?}: {:?}", events(&again));
        assert!(saved(&again).is_none_or(|it| it.cached.is_none()), "{next:?}");
        assert_eq!(publish(&again, "c").await.1, 1);
    }
}

/// Without space for its first record, the next event is the next attempt.
#[tokio::test]
async fn a_process_that_starts_with_a_full_disk_begins_when_there_is_space() {
    let disk = SimulatedDisk::new(1);
    disk.set_space(Some(100));
    let hub = on_disk(&disk);
    try_publish(&hub, "a").await.unwrap_err();
    disk.set_space(None);
    // The thread that syncs prepares a segment within a second.
    let mut published = try_publish(&hub, "b").await;
    for _ in 0..10_000 {
        if published.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        published = try_publish(&hub, "b").await;
    }
    let (epoch, _) = published.unwrap();
    let disk = disk.kill();
    let (log, _) = SegmentLog::open(disk.clone(), options()).unwrap();
    let replay = Replay::read(&log, &|_| Some(HistoryLimits::NONE)).unwrap();
    assert_eq!(replay.open_boot, Some(boot_id()), "the record comes before the first event");
    drop(log);
    let next = on_disk(&disk);
    assert_eq!(publish(&next, "c").await, (epoch, 2));
}

/// After an error of the disk, nothing is published.
#[tokio::test]
async fn a_failed_sync_ends_the_log() {
    let (disk, folder) = (SimulatedDisk::new(1), Folder::new());
    fs::create_dir(folder.log()).unwrap();
    let hub = on_disk_in(&disk, &folder.log());
    let (epoch, _) = publish(&hub, "a").await;
    disk.fail_sync_after(0);
    let mut refused = None;
    for _ in 0..10_000 {
        if let Err(error) = try_publish(&hub, "b").await {
            refused = Some(error.to_string());
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(refused.unwrap().contains("restart Weir"));
    // A restart in order saves what the log may lack: all that was delivered.
    hub.hand_over();
    hub.close_durable_histories();
    assert!(DiskFailure::of(&folder.log()).is_noted(), "after a kill, it is known");
    let delivered = events(&hub);
    hub.save(&folder.file()).unwrap();
    // The log has what was on the disk before the error.
    let position = saved(&hub).unwrap().position;
    let first = event_at((position.epoch, 1), (CHANNEL, NOW_US), "a");
    folder.write(&[begin(&boot_id(), &["1"]), first]);
    let copy = folder.killed();
    let killed = copy.hub();
    assert_eq!(events(&killed), ["a"]);
    assert_ne!(publish(&killed, "b").await.0, epoch, "its last events are not known");
    let next = folder.hub();
    assert_eq!(events(&next), delivered);
    assert_eq!(publish(&next, "b").await.0, epoch);
}

/// What was acknowledged can still be read, but may not be on the disk.
#[tokio::test]
async fn a_log_whose_disk_had_an_error_is_set_aside() {
    let folder = Folder::new();
    folder.write(&[begin(&boot_id(), &["1"]), event(1, "a")]);
    DiskFailure::of(&folder.log()).note();
    let hub = folder.hub();
    assert_eq!(events(&hub), ["a"]);
    let (epoch, _) = publish(&hub, "b").await;
    assert_ne!(epoch, EPOCH.to_string());
    assert!(folder.log().with_extension("damaged").exists());
    assert_eq!(publish(&folder.killed().hub(), "c").await.0, epoch, "the new log is sound");
}

fn disk_error(folder: &Folder, code: i32) -> DurableError {
    let source = io::Error::from_raw_os_error(code);
    let source = OpenError::Io { what: "read 0000000001.log".to_owned(), source };
    DurableError::Open { folder: folder.log(), source }
}

/// A bad sector under the log, which is found when the log is opened.
#[tokio::test]
async fn a_log_that_the_disk_can_not_read_is_set_aside() {
    let folder = Folder::new();
    folder.write(&[begin(&boot_id(), &["1"]), event(1, "a")]);
    let limits = |_: &str| Some(app("1", true).history);
    let of_process = disk_error(&folder, Errno::MFILE.raw_os_error());
    OpenedLog::replay(&folder.log(), Err(of_process), &limits).unwrap_err();
    assert!(!folder.log().with_extension("damaged").exists());
    let of_disk = disk_error(&folder, Errno::IO.raw_os_error());
    let opened = OpenedLog::replay(&folder.log(), Err(of_disk), &limits).unwrap();
    assert!(opened.channels.is_empty() && opened.damages > 0);
    assert!(folder.log().with_extension("damaged").exists());
}

/// Other apps, subscriptions and jobs go on.
#[tokio::test]
async fn a_log_that_can_not_be_set_aside_rejects_events_and_prevents_no_start() {
    let folder = Folder::new();
    folder.write(&[begin(&boot_id(), &["1"]), event(1, "a")]);
    let hub = hub_of(vec![app("1", true), app("2", false)]);
    let error = Err(disk_error(&folder, Errno::UCLEAN.raw_os_error()));
    hub.begin_histories(Some(error), true, &folder.log(), &folder.file()).unwrap();
    let refused = try_publish(&hub, "b").await.unwrap_err().to_string();
    assert!(refused.contains("restart Weir"), "{refused}");
    let [app_id, channel, event] = ["2", CHANNEL, "e"].map(str::to_owned);
    let data = serde_json::value::to_raw_value("c").unwrap();
    hub.publish_event(&PublishEvent { app: app_id, channel, event, data }).await.unwrap();
    hub.close_durable_histories();
    assert!(DiskFailure::of(&folder.log()).is_noted());
    let next = folder.hub();
    assert_eq!(events(&next), ["a"], "the disk works again");
    assert_ne!(publish(&next, "b").await.0, EPOCH.to_string());
}

/// What waits for the disk takes no room for what waits for delivery, of which other apps need some.
#[tokio::test]
async fn events_get_room_on_the_cores_once_they_can_be_written() {
    use crate::broker::{Broker, ServerEvent};
    use crate::pusher::channel::ChannelName;
    use crate::pusher::limits::PusherLimits;

    let hub = Folder::new().hub();
    let app = hub.app_by_id("1").unwrap();
    let name = ChannelName::parse(CHANNEL, &PusherLimits::default()).unwrap();
    let event =
        ServerEvent { name: "e", data: "1", except: None, idempotency_key: None, trace: None };
    let joining = crate::channel::JoinRequest {
        core: 0,
        member: None,
        recover: None,
        needs_position: true,
        wants_member_changes: false,
        now: hub.clock.now(),
    };
    hub.broker.subscribe(&app, &name, &joining, |_, _| {}).unwrap();
    let budget = &hub.cores.get(0).budget;
    let mut prepared = hub.broker.local.prepare_all(&app, [(&name, event)].into_iter()).unwrap();
    assert_eq!(budget.waiting().0, 0, "it is prepared, and waits");
    let mut one: Vec<_> = prepared.iter_mut().map(|(one, _)| one).collect();
    hub.broker.local.reserve_all(&mut one).unwrap();
    assert_eq!(budget.waiting().0, 1);
    drop(prepared);
    let (events_max, _) = budget.limits();
    let others: Vec<_> = (0..events_max).map(|_| budget.reserve_always(0)).collect();
    let refused = try_publish(&hub, "a").await.unwrap_err();
    assert!(refused.to_string().contains("core_queue_events_max"), "{refused}");
    drop(others);
    assert_eq!(publish(&hub, "b").await.1, 1, "the offset of the rejected event was not used");
}

#[tokio::test]
async fn events_that_have_no_room_to_wait_are_rejected_and_counted() {
    let hub = Folder::new().hub();
    let max = hub.settings().limits.durable_queue_bytes_max;
    let queue = hub.metrics.durable_queue();
    queue.inc_by(i64::try_from(max).unwrap());
    let refused = try_publish(&hub, "a").await.unwrap_err();
    assert!(refused.to_string().contains("durable_queue_bytes_max"), "{refused}");
    let hits = hub.metrics.limits_hit();
    let hit = hits.iter().find(|hit| hit.limit.ends_with("durable_queue_bytes_max")).unwrap();
    assert_eq!(hit.hits, 1);
    queue.dec_by(i64::try_from(max).unwrap());
    publish(&hub, "a").await;
    hub.close_durable_histories();
    assert_eq!(queue.get(), 0);
}

#[tokio::test]
async fn a_restored_backup_has_the_log_in_new_epochs() {
    let folder = Folder::new();
    let hub = folder.hub();
    let (epoch, _) = publish(&hub, "a").await;
    hub.close_durable_histories();
    let restored = crate::saved::begin_new_epochs(&folder.file(), &folder.log()).unwrap();
    assert_eq!((restored.channels, restored.events), (1, 1));
    assert!(!folder.log().exists());
    let hub = folder.hub();
    assert_eq!(events(&hub), ["a"]);
    let (new, offset) = publish(&hub, "b").await;
    assert!(new != epoch && offset == 2);
}

/// After an error of the disk, the file has what was delivered, and the log may lack the last events.
#[tokio::test]
async fn a_restored_backup_with_a_file_and_a_log_has_what_the_file_has() {
    let folder = Folder::new();
    folder.write(&[begin(&boot_id(), &["1"]), event(1, "of the log")]);
    let hub = hub_of(vec![app("1", false)]);
    for data in ["of the file", "and another"] {
        publish(&hub, data).await;
    }
    hub.save(&folder.file()).unwrap();
    let restored = crate::saved::begin_new_epochs(&folder.file(), &folder.log()).unwrap();
    assert_eq!((restored.channels, restored.events), (1, 2));
    assert_eq!(events(&folder.hub()), ["of the file", "and another"]);
}

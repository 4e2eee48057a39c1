//! A sync that failed: the pages may be gone, so nothing is promised any more.

use weir_log::{AppendError, Class, SimulatedDisk, SyncError};

use crate::history::{body_of, filled, numbers, open, options, read};

#[test]
fn failed_sync_poisons_the_log() {
    let disk = SimulatedDisk::new(1);
    let (mut log, positions) = filled(&disk, 20);
    let durable = log.durable();
    log.append(Class::Job, &20u32.to_le_bytes(), &[&body_of(20)]).expect("appended");
    disk.fail_sync_after(0);
    assert!(matches!(log.syncer().sync(), Err(SyncError::Poisoned(_))));
    // The disk works again, but what it lost it will never write.
    assert!(matches!(log.syncer().sync(), Err(SyncError::Poisoned(_))));
    assert!(matches!(log.syncer().maintain(), Err(SyncError::Poisoned(_))));
    assert!(matches!(log.flush(), Err(SyncError::Poisoned(_))));
    let append = log.append(Class::Essential, b"", &[]);
    assert!(matches!(append, Err(AppendError::Poisoned(_))));
    assert!(matches!(log.rotate(), Err(AppendError::Poisoned(_))));
    assert_eq!(log.durable(), durable);
    let what = log.poisoned().expect("it says why").what().to_owned();
    assert!(what.contains("sync 0000000001.log"), "{what}");
    assert_eq!(read(&log, positions[3]).expect("reading goes on"), body_of(3));
    let survivors = numbers(&open(&disk.crash()));
    assert!(survivors.len() >= 20, "what was durable before is there");
}

#[test]
fn failed_directory_sync_poisons_the_log() {
    let disk = SimulatedDisk::new(2);
    let (mut log, _) = filled(&disk, 5);
    log.rotate().expect("rotated");
    disk.fail_sync_after(1); // the new segment's header, then its name
    assert!(matches!(log.syncer().maintain(), Err(SyncError::Poisoned(_))));
    assert!(matches!(log.syncer().sync(), Err(SyncError::Poisoned(_))));
}

/// The first segment's name was not yet durable when the process ended, and the next process finds
/// no room for a second segment: it must not rely on that one's making to sync the directory.
#[test]
fn reopening_on_a_full_disk_makes_names_durable() {
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        disk.fail_sync_after(1); // the first segment's header, then its name
        assert!(weir_log::SegmentLog::open(disk.clone(), options()).is_err());
        let disk = disk.kill();
        disk.set_space(Some(disk.used_bytes()));
        let mut log = open(&disk);
        log.append(Class::Job, &0u32.to_le_bytes(), &[&body_of(0)]).expect("the file has room");
        log.syncer().sync().expect("synced");
        assert_eq!(numbers(&open(&disk.crash())), [0], "seed {seed}");
    }
}

//! Upkeep comes in pieces, so that syncs can go between them.

use weir_log::{SimulatedDisk, Upkeep};

use crate::history::filled;

#[test]
fn removed_segments_are_deleted_one_at_a_time() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = filled(&disk, 400);
    let first = log.segments()[0].number;
    let there = |number: u32| disk.file_bytes(&format!("{number:010}.log")).is_some();
    let syncer = log.syncer();
    for _ in 0..3 {
        assert!(log.remove_first_segment());
    }
    syncer.sync().expect("synced");
    let mut left = Vec::new();
    for _ in 0..3 {
        let upkeep = syncer.maintain_some().expect("maintained");
        left.push(((first..first + 3).filter(|number| there(*number)).count(), upkeep));
    }
    assert_eq!(left, [(2, Upkeep::More), (1, Upkeep::More), (0, Upkeep::Done)]);
}

//! A full disk: nothing is lost, jobs are refused first, and appends come back with the space.

use weir_log::{AppendError, Class, SegmentLog, SimulatedDisk, Space, SyncError};

use crate::history::{body_of, filled, numbers, open, options, read};

fn append_until_refused(
    log: &mut SegmentLog<SimulatedDisk>,
    class: Class,
    from: u32,
) -> (u32, AppendError) {
    for number in from..from + 10_000 {
        if let Err(error) = log.append(class, &number.to_le_bytes(), &[&body_of(number)]) {
            return (number, error);
        }
        let _ = log.syncer().sync();
        let _ = log.syncer().maintain();
    }
    panic!("never refused");
}

#[test]
fn jobs_are_rejected_at_the_reserve_and_essential_records_when_full() {
    let disk = SimulatedDisk::new(1);
    disk.set_space(Some(3 * 8 * 1024 + 100));
    let mut log = open(&disk);
    assert!(matches!(log.space(), Space::Ok { .. }));

    let (jobs, refusal) = append_until_refused(&mut log, Class::Job, 0);
    assert!(matches!(refusal, AppendError::NoSpace), "{refusal}");
    let Space::Low { room_bytes, job_bytes } = log.space() else { panic!("{:?}", log.space()) };
    assert!(room_bytes >= 2 * 1024, "the reserve is untouched");
    assert!(job_bytes < 200, "no job fits, {job_bytes} bytes are left");

    let (all, refusal) = append_until_refused(&mut log, Class::Essential, jobs);
    assert!(matches!(refusal, AppendError::NoSpace), "{refusal}");
    assert!(all >= jobs + 10, "the reserve of 2 KiB takes some ten records of 150 bytes");
    assert_eq!(log.syncer().sync().expect("what was accepted has its room"), log.end());
    assert!(matches!(log.syncer().maintain(), Err(SyncError::NoSpace)));

    disk.set_space(Some(8 * 8 * 1024));
    log.syncer().maintain().expect("there is space again");
    assert!(matches!(log.space(), Space::Ok { .. }));
    log.append(Class::Job, &all.to_le_bytes(), &[&body_of(all)]).expect("accepted again");
    log.syncer().sync().expect("synced");
    let log = open(&disk.crash());
    assert_eq!(numbers(&log), (0..=all).collect::<Vec<_>>());
}

#[test]
fn full_disk_log_reopens_with_its_reserve() {
    let disk = SimulatedDisk::new(2);
    disk.set_space(Some(3 * 8 * 1024 + 100));
    let mut log = open(&disk);
    let (jobs, _) = append_until_refused(&mut log, Class::Job, 0);
    log.syncer().sync().expect("synced");
    let mut log = open(&disk.crash());
    assert_eq!(numbers(&log), (0..jobs).collect::<Vec<_>>());
    let job = log.append(Class::Job, b"job!", &[&body_of(0)]);
    assert!(matches!(job, Err(AppendError::NoSpace)));
    let essential = log.append(Class::Essential, b"done", &[&body_of(1)]).expect("the reserve");
    log.syncer().sync().expect("synced");
    assert_eq!(read(&log, essential).expect("readable"), body_of(1));
}

#[test]
fn removing_a_segment_makes_room() {
    let disk = SimulatedDisk::new(3);
    disk.set_space(Some(3 * 8 * 1024 + 100));
    let mut log = open(&disk);
    let (jobs, _) = append_until_refused(&mut log, Class::Job, 0);
    log.remove_first_segment();
    log.remove_first_segment();
    log.syncer().sync().expect("synced");
    log.syncer().maintain().expect("the files are gone");
    log.append(Class::Job, &jobs.to_le_bytes(), &[&body_of(jobs)]).expect("accepted again");
}

#[test]
fn full_disk_keeps_bytes_in_memory_without_allocation() {
    let disk = SimulatedDisk::new(4);
    disk.set_allocates(false);
    disk.set_short_transfers(true);
    let mut log = open(&disk);
    disk.set_space(Some(disk.used_bytes() + 1000));
    for number in 0..20u32 {
        log.append(Class::Job, &number.to_le_bytes(), &[&body_of(number)]).expect("in memory");
    }
    let durable = log.durable();
    assert!(matches!(log.syncer().sync(), Err(SyncError::NoSpace)));
    assert!(matches!(log.flush(), Err(SyncError::NoSpace)));
    assert_eq!(log.durable(), durable, "nothing more is promised");
    assert!(log.poisoned().is_none(), "a full disk is no reason to stop");
    let refused = log.append(Class::Job, b"job!", &[]);
    assert!(matches!(refused, Err(AppendError::NoSpace)));
    log.append(Class::Essential, &20u32.to_le_bytes(), &[&body_of(20)]).expect("in memory");

    disk.set_space(None);
    assert_eq!(log.syncer().sync().expect("tried again"), log.end());
    log.append(Class::Job, &21u32.to_le_bytes(), &[&body_of(21)]).expect("accepted again");
    log.syncer().sync().expect("synced");
    assert_eq!(numbers(&open(&disk.crash())), (0..22).collect::<Vec<_>>());
}

#[test]
fn slow_sync_thread_causes_backpressure() {
    let disk = SimulatedDisk::new(5);
    let mut log = open(&disk);
    let refusal = (0..10_000u32).find_map(|number| {
        log.append(Class::Job, &number.to_le_bytes(), &[&body_of(number)]).err()
    });
    assert!(matches!(refusal, Some(AppendError::Backpressure)));
    log.syncer().sync().expect("synced");
    log.syncer().maintain().expect("maintained");
    log.append(Class::Job, b"more", &[]).expect("accepted again");
}

#[test]
fn memory_is_bounded_by_buffered_bytes_max() {
    let mut options = options();
    options.buffered_bytes_max = 3000;
    let (mut log, _) = SegmentLog::open(SimulatedDisk::new(6), options).expect("opens");
    while !log.must_wait() {
        log.append(Class::Job, b"", &[&[0; 200]]).expect("below the limit");
    }
    let refused = log.append(Class::Essential, b"", &[]);
    assert!(matches!(refused, Err(AppendError::Backpressure)));
    assert!(log.end().0 < 3000 + 300);
    log.flush().expect("flushed");
    log.append(Class::Job, b"", &[]).expect("accepted again");
}

#[test]
fn record_above_the_limit_is_rejected() {
    let (mut log, _) = filled(&SimulatedDisk::new(7), 3);
    let refused = log.append(Class::Job, b"head", &[&[0; 1021]]);
    assert!(matches!(refused, Err(AppendError::TooLarge { bytes: 1025, max: 1024 })));
    let position = log.append(Class::Job, b"head", &[&[1; 1020]]).expect("at the limit");
    log.flush().expect("flushed");
    assert_eq!(read(&log, position).expect("readable"), [1; 1020]);
}

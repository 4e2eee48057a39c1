//! A reader with windows sees what one without sees.

use proptest::prelude::*;
use weir_log::{Class, ReadAhead, RecordError, RecordPosition, SimulatedDisk};

use crate::history::{body_of, damage, filled, open};

/// Where the next record to read lies from the last one, or anywhere.
#[derive(Clone, Debug)]
enum Step {
    On(usize),
    To(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3usize).prop_map(Step::On),
        1 => (0..1_000usize).prop_map(Step::To),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_read_returns_the_requested_record(steps in steps(), records in 1..500u32) {
        let disk = SimulatedDisk::new(1);
        let (mut log, mut positions) = filled(&disk, records);
        // Not yet written: these are read from memory.
        for number in records..records + 5 {
            let head = number.to_le_bytes();
            positions.push(log.append(Class::Job, &head, &[&body_of(number)]).expect("appended"));
        }
        let mut ahead = ReadAhead::new(log.reader());
        let mut nth = 0;
        for step in steps {
            nth = match step {
                Step::On(by) => nth + by,
                Step::To(place) => place,
            } % positions.len();
            let record = ahead.read(positions[nth]).expect("readable");
            let number = u32::try_from(nth).unwrap();
            prop_assert_eq!(record.head, &number.to_le_bytes());
            prop_assert_eq!(record.body, &body_of(number)[..]);
        }
    }
}

#[test]
fn damage_is_reported_and_other_records_are_read() {
    let disk = SimulatedDisk::new(1);
    let (log, positions) = filled(&disk, 120);
    drop(log);
    let bad = positions[20];
    let file = format!("{:010}.log", bad.segment);
    damage(&disk, &file, |bytes| bytes[bad.offset as usize + 20] ^= 1);
    let log = open(&disk);
    let mut ahead = ReadAhead::new(log.reader());
    for (number, position) in (0..120u32).zip(&positions) {
        match ahead.read(*position) {
            Ok(record) => assert_eq!((record.body, number != 20), (&body_of(number)[..], true)),
            Err(RecordError::Damaged { offset, .. }) => {
                assert_eq!((number, offset), (20, bad.offset))
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn removed_segment_has_no_records() {
    let disk = SimulatedDisk::new(1);
    let (log, _) = filled(&disk, 5);
    let mut ahead = ReadAhead::new(log.reader());
    let nowhere = RecordPosition { segment: 99, offset: 64 };
    assert!(matches!(ahead.read(nowhere), Err(RecordError::Gone { segment: 99 })));
}

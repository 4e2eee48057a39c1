//! Random histories on the simulated disk: what was promised is there after power cuts and kills.

use proptest::prelude::*;
use weir_log::{
    AppendError, Class, Disk, OpenError, RecordPosition, SegmentLog, SegmentLogOptions,
    SimulatedDisk,
};

/// What happens to a log.
#[derive(Clone, Debug)]
enum Step {
    Append {
        head_bytes: usize,
        body_bytes: usize,
    },
    Flush,
    Sync,
    Maintain,
    Rotate,
    RemoveFirst,
    Mark,
    ReadSome,
    /// The power goes after so many operations of the disk.
    CutPowerAfter(u32),
    /// The power goes now, and once more during recovery after so many operations.
    Crash {
        again_after: Option<u32>,
    },
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (0usize..24, 0usize..900)
            .prop_map(|(head_bytes, body_bytes)| Step::Append { head_bytes, body_bytes }),
        4 => Just(Step::Flush),
        8 => Just(Step::Sync),
        6 => Just(Step::Maintain),
        1 => Just(Step::Rotate),
        3 => Just(Step::RemoveFirst),
        1 => Just(Step::Mark),
        2 => Just(Step::ReadSome),
        1 => (0u32..12).prop_map(Step::CutPowerAfter),
        3 => proptest::option::of(0u32..10).prop_map(|again_after| Step::Crash { again_after }),
        1 => Just(Step::Kill),
    ];
    proptest::collection::vec(step, 1..120)
}

fn options() -> SegmentLogOptions {
    SegmentLogOptions {
        segment_bytes: 6 * 1024,
        reserve_bytes: 512,
        record_bytes_max: 1024,
        buffered_bytes_max: 8 * 1024,
        open_files_max: 2,
        set_aside_bytes_max: 64 * 1024,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    position: RecordPosition,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// A log beside the list of what was appended to it.
struct Run {
    disk: SimulatedDisk,
    log: SegmentLog<SimulatedDisk>,
    records: Vec<Record>,
    /// How many of `records` must survive a power cut, and how many a kill.
    durable: usize,
    flushed: usize,
    /// Segments below this were removed; beside each, how many records there were then.
    removed: Vec<(u32, usize)>,
    appended: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let disk = SimulatedDisk::new(seed);
        disk.set_short_transfers(seed.is_multiple_of(2));
        disk.set_allocates(!seed.is_multiple_of(5));
        let (log, _) = SegmentLog::open(disk.clone(), options()).expect("an empty disk opens");
        Run {
            disk,
            log,
            records: Vec::new(),
            durable: 0,
            flushed: 0,
            removed: Vec::new(),
            appended: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Append { head_bytes, body_bytes } => self.append(head_bytes, body_bytes),
            Step::Flush => {
                if let Ok(lsn) = self.log.flush() {
                    assert_eq!(lsn, self.log.end());
                    self.flushed = self.records.len();
                }
            }
            Step::Sync => {
                if let Ok(lsn) = self.log.syncer().sync() {
                    assert_eq!(lsn, self.log.end(), "nothing was appended meanwhile");
                    self.durable = self.records.len();
                    self.flushed = self.records.len();
                }
            }
            Step::Maintain => drop(self.log.syncer().maintain()),
            Step::Rotate => drop(self.log.rotate()),
            Step::RemoveFirst => {
                let first = self.log.segments()[0].number;
                if self.log.remove_first_segment() {
                    self.removed.push((first, self.records.len()));
                }
            }
            Step::Mark => self.log.mark(),
            Step::ReadSome => self.check_reads(),
            Step::CutPowerAfter(operations) => self.disk.cut_power_after(operations),
            Step::Crash { again_after } => self.crash(again_after),
            Step::Kill => self.kill(),
        }
    }

    fn append(&mut self, head_bytes: usize, body_bytes: usize) {
        self.appended += 1;
        let mut rng = fastrand::Rng::with_seed(self.appended);
        let head: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(head_bytes).collect();
        let body: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(body_bytes).collect();
        let (left, right) = body.split_at(body_bytes / 3);
        match self.log.append(Class::Job, &head, &[left, right]) {
            Ok(position) => {
                if let Some(last) = self.records.last() {
                    assert!(position > last.position);
                }
                self.records.push(Record { position, head, body });
            }
            Err(AppendError::Backpressure | AppendError::NoSpace | AppendError::Poisoned(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn check_reads(&self) {
        let mut buffer = Vec::new();
        let first = self.log.segments().first().map_or(0, |segment| segment.number);
        for record in self.records.iter().rev().take(20) {
            let read = self.log.reader().read(record.position, &mut buffer);
            if record.position.segment < first {
                assert!(read.is_err());
            } else if let Ok(parts) = read {
                assert_eq!(&buffer[parts.head], &record.head);
                assert_eq!(&buffer[parts.body], &record.body);
            } // else the power is out
        }
    }

    fn crash(&mut self, again_after: Option<u32>) {
        self.disk = self.disk.crash();
        if let Some(operations) = again_after {
            self.disk.cut_power_after(operations);
            match SegmentLog::open(self.disk.clone(), options()) {
                Ok(_) | Err(OpenError::Io { .. } | OpenError::Poisoned(_)) => {}
                Err(error) => panic!("after a power cut: {error}"),
            }
            self.disk = self.disk.crash();
        }
        self.reopen(self.durable);
    }

    fn kill(&mut self) {
        // With the power out already there is no page cache to find.
        if self.disk.list().is_ok() {
            self.disk = self.disk.kill();
            self.reopen(self.flushed);
        }
    }

    /// Opens the log and compares: at least `promised` of the records are there.
    fn reopen(&mut self, promised: usize) {
        let opened = SegmentLog::open(self.disk.clone(), options());
        self.log = opened.unwrap_or_else(|error| panic!("after a power cut: {error}")).0;
        let found = stored(&self.log);
        let first = self.log.segments().first().map_or(u32::MAX, |segment| segment.number);
        let start = self.records.partition_point(|record| record.position.segment < first);
        let end = start + found.len();
        assert!(end <= self.records.len(), "more is there than was appended");
        assert_eq!(found, self.records[start..end], "exactly what was appended, in order");
        assert!(end >= promised, "{end} records are there, {promised} were promised");
        for (segment, records_then) in &self.removed {
            assert!(*segment >= first || end >= *records_then, "removed before it was safe");
        }
        let removed = self.removed.last().map_or(1, |(segment, _)| segment + 1);
        assert!(first <= removed, "segments that were not removed are there");
        self.removed.retain(|(segment, _)| *segment < first);
        self.records.truncate(end);
        self.durable = end;
        self.flushed = end;
    }
}

/// All data records, through footers and reads.
fn stored(log: &SegmentLog<SimulatedDisk>) -> Vec<Record> {
    let mut heads = Vec::new();
    for segment in log.segments() {
        let before = heads.len();
        log.heads(segment.number, &mut |head| {
            heads.push((head.position, head.head.to_vec(), head.record_bytes));
        })
        .expect("heads are readable");
        assert_eq!(heads.len() - before, segment.records as usize);
    }
    let reader = log.reader();
    let mut buffer = Vec::new();
    let read = |(position, head, record_bytes): (RecordPosition, Vec<u8>, u32)| {
        let parts = reader.read_sized(position, record_bytes, &mut buffer).expect("readable");
        assert_eq!(buffer.len(), record_bytes as usize);
        assert_eq!(&buffer[parts.head], &head);
        Record { position, head, body: buffer[parts.body].to_vec() }
    };
    heads.into_iter().map(read).collect()
}

/// More with `PROPTEST_CASES`.
const CASES: u32 = 3000;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(CASES),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn durable_records_survive_and_the_rest_is_a_prefix(seed: u64, steps in steps()) {
        let mut run = Run::new(seed);
        for step in &steps {
            run.step(step);
        }
        run.check_reads();
        run.crash(None);
    }
}

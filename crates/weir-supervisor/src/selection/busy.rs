//! What workers say of themselves, in memory that they share with the parent, the service and the
//! kernel's programs (docs/front-sockets.md is the workers' side of it).
//!
//! The memory is a list of records of four words of 64 bits, in the machine's order. The first
//! [`HEADER`] records are Weir's own; each worker has one of the others:
//!
//! | word | who writes it | what it says |
//! | --- | --- | --- |
//! | 0 | worker; kernel 0 -> 1; repair 1 -> 0 | 0 idle; 1 a connection is on its way; otherwise when the oldest of its requests began, in milliseconds of `CLOCK_MONOTONIC` |
//! | 1 | worker | requests that it has answered |
//! | 2 | Weir | 0: no program chooses it; otherwise its socket, plus 1 |
//! | 3 | | nothing yet |
//!
//! A slot has two records, for its present worker and for a successor.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};

use super::Plan;
use crate::system::{self, Mapping};
use crate::workers::PROCESSES_MAX;

/// The variables that tell a worker about its record.
pub const FD_VARIABLE: &str = "WEIR_BUSY_FD";
pub const INDEX_VARIABLE: &str = "WEIR_BUSY_INDEX";

/// Records that belong to no worker.
pub const HEADER: usize = 2;
/// Records of one slot.
pub const PER_SLOT: usize = 2;
pub(super) const RECORD_BYTES: usize = 32;
/// Programs look at a power of two.
const RECORDS: usize = HEADER + (PER_SLOT * PROCESSES_MAX as usize).next_power_of_two();
const WORDS_PER_RECORD: usize = RECORD_BYTES / size_of::<u64>();

/// The record of the header that holds the plan.
const PLAN: usize = 1;
/// Words of the other: the record to begin with, counted from the first worker's.
pub(super) const TURN: usize = 0;
/// The source whose connections get to `TARGET`; 0: none.
pub(super) const PROBE: usize = 1;
pub(super) const TARGET: usize = 2;
/// When `TURN` was written last, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) const TURN_SINCE: usize = 3;
/// Words of a record.
pub(super) const STATE: usize = 0;
const SERVED: usize = 1;
pub(super) const DOOR: usize = 2;

pub(super) const IDLE: u64 = 0;
pub(super) const CLAIMED: u64 = 1;

/// The records of an app's workers.
#[derive(Debug)]
pub struct Records {
    descriptor: OwnedFd,
    mapping: Mapping,
}

/// What a worker does, by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyState {
    /// Or it doesn't say.
    Idle,
    /// It was chosen for a connection and has not begun with it.
    Claimed,
    /// Its oldest request has been running for this long.
    Busy(Duration),
}

/// The record of a worker: one of the two of its slot.
#[must_use]
pub fn record(slot: usize, which: usize) -> usize {
    HEADER + PER_SLOT * slot + which
}

impl Records {
    /// In memory that the kernel's programs do not see.
    pub(super) fn in_memory() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = rustix::fs::memfd_create("weir-busy", flags)?;
        rustix::fs::ftruncate(&descriptor, (RECORDS * RECORD_BYTES) as u64)?;
        // A worker that makes it shorter would take the service down with it (SIGBUS).
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&descriptor, seals)?;
        Self::adopt(descriptor)
    }

    /// In a map that programs can use.
    pub(super) fn in_kernel() -> io::Result<Self> {
        let bytes = u32::try_from(RECORDS * RECORD_BYTES).map_err(io::Error::other)?;
        Self::adopt(system::create_map(bytes)?)
    }

    /// Those that another process has made.
    pub(super) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let words = NonZero::new(RECORDS * WORDS_PER_RECORD).unwrap_or(NonZero::<usize>::MIN);
        let mapping = Mapping::of(&descriptor, words)?;
        Ok(Self { descriptor, mapping })
    }

    /// What a worker does.
    #[must_use]
    pub fn state(&self, record: usize) -> BusyState {
        match self.word(record, STATE).load(Ordering::Relaxed) {
            IDLE => BusyState::Idle,
            CLAIMED => BusyState::Claimed,
            began_ms => {
                let began = Duration::from_millis(began_ms);
                BusyState::Busy(crate::monotonic().saturating_sub(began))
            }
        }
    }

    /// Requests that a worker has answered, as it says itself.
    #[must_use]
    pub fn served(&self, record: usize) -> u64 {
        self.word(record, SERVED).load(Ordering::Relaxed)
    }

    /// Makes a worker idle again that was chosen for a connection which never came to it. False: it
    /// has begun meanwhile.
    pub fn repair(&self, record: usize) -> bool {
        let state = self.word(record, STATE);
        state.compare_exchange(CLAIMED, IDLE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// For a new worker, or after the end of one.
    pub(crate) fn reset(&self, record: usize) {
        for word in [DOOR, STATE, SERVED] {
            self.word(record, word).store(0, Ordering::SeqCst);
        }
    }

    /// Lets programs choose a worker, by that socket; None: no more.
    pub(crate) fn set_door(&self, record: usize, socket: Option<usize>) {
        let door = socket.map_or(0, |socket| socket as u64 + 1);
        self.word(record, DOOR).store(door, Ordering::SeqCst);
    }

    pub(super) fn set_plan(&self, plan: &Plan) {
        for (word, value) in plan.words().into_iter().enumerate() {
            self.word(PLAN, word).store(value, Ordering::SeqCst);
        }
    }

    /// That of the process that created the memory; None: there is none.
    pub(super) fn plan(&self) -> Option<Plan> {
        let word = |word| self.word(PLAN, word).load(Ordering::SeqCst);
        Plan::from_words([word(0), word(1), word(2), word(3)])
    }

    /// Connections from `source` get to `socket`.
    pub(super) fn steer(&self, source: SocketAddr, socket: usize) {
        let header = |word| self.word(0, word);
        header(PROBE).store(0, Ordering::SeqCst);
        header(TARGET).store(socket as u64, Ordering::SeqCst);
        header(PROBE).store(mark(source), Ordering::SeqCst);
    }

    fn word(&self, record: usize, word: usize) -> &AtomicU64 {
        self.mapping.word(record * WORDS_PER_RECORD + word)
    }
}

impl AsFd for Records {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A client as a program sees it: the last four bytes of its address and then its port, as the
/// processor reads them.
fn mark(source: SocketAddr) -> u64 {
    let port = u16::from_ne_bytes(source.port().to_be_bytes());
    (u64::from(u32::from_ne_bytes(last_bytes(source.ip()))) << 16) | u64::from(port)
}

/// The last four bytes of an address.
pub(super) fn last_bytes(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => address.octets().last_chunk().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_a_worker_does_to_everybody_who_has_the_memory() {
        let ours = Records::in_memory().expect("made");
        let theirs = Records::adopt(ours.as_fd().try_clone_to_owned().expect("a copy"));
        let theirs = theirs.expect("mapped");
        let worker = record(999, 1);
        assert_eq!(theirs.state(worker), BusyState::Idle);
        let began = crate::monotonic() - Duration::from_secs(7);
        let began_ms = u64::try_from(began.as_millis()).expect("fits");
        theirs.word(worker, STATE).store(began_ms, Ordering::Relaxed);
        let BusyState::Busy(age) = ours.state(worker) else { panic!("{:?}", ours.state(worker)) };
        assert!(age >= Duration::from_secs(7), "{age:?}");
        assert!(!ours.repair(worker), "it has begun");
        theirs.word(worker, STATE).store(CLAIMED, Ordering::Relaxed);
        assert_eq!(ours.state(worker), BusyState::Claimed);
        assert!(ours.repair(worker));
        assert_eq!(theirs.state(worker), BusyState::Idle);
    }

    #[test]
    fn nobody_can_make_the_memory_shorter() {
        let records = Records::in_memory().expect("made");
        assert!(rustix::fs::ftruncate(&records, 0).is_err());
    }

    #[test]
    fn records_of_slots_do_not_overlap() {
        assert_eq!(record(0, 0), HEADER);
        assert_eq!(record(1, 0), record(0, 1) + 1);
    }
}

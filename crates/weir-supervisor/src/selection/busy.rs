//! The load that workers report, in memory shared with the parent, the service and the kernel's
//! programs (docs/front-sockets.md describes the workers' side).
//!
//! The memory is a list of records of four 64-bit words, in the machine's byte order. The first
//! [`HEADER`] records are Weir's own; each worker has one of the others:
//!
//! | word | who writes it | what it says |
//! | --- | --- | --- |
//! | 0 | worker; kernel 0 -> 1; repair 1 -> 0 | 0 idle; 1 a connection is on its way; otherwise when the oldest of its requests began, in milliseconds of `CLOCK_MONOTONIC` |
//! | 1 | worker | requests that it has answered |
//! | 2 | Weir | 0: no program chooses it; otherwise its socket, plus 1 |
//! | 3 | | nothing yet |
//!
//! A slot has two records, for its current worker and for a successor.

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

/// The environment variables with the descriptor and the index of a worker's record.
pub const FD_VARIABLE: &str = "WEIR_BUSY_FD";
pub const INDEX_VARIABLE: &str = "WEIR_BUSY_INDEX";

/// Number of records at the start that belong to no worker.
pub const HEADER: usize = 2;
/// Records per slot.
pub const PER_SLOT: usize = 2;
pub(super) const RECORD_BYTES: usize = 32;
/// The kernel's programs require a power of two.
const RECORDS: usize = HEADER + (PER_SLOT * PROCESSES_MAX as usize).next_power_of_two();
const WORDS_PER_RECORD: usize = RECORD_BYTES / size_of::<u64>();

/// The header record that stores the plan.
const PLAN: usize = 1;
/// Words of the other header record: where a search begins, relative to the first worker's record.
pub(super) const TURN: usize = 0;
/// The client address whose connections go to `TARGET`; 0: none.
pub(super) const PROBE: usize = 1;
pub(super) const TARGET: usize = 2;
/// When `TURN` was last written, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) const TURN_SINCE: usize = 3;
/// Words of a worker's record.
pub(super) const STATE: usize = 0;
const SERVED: usize = 1;
pub(super) const SOCKET: usize = 2;

pub(super) const IDLE: u64 = 0;
pub(super) const CLAIMED: u64 = 1;

/// The records of an app's workers.
#[derive(Debug)]
pub struct Records {
    descriptor: OwnedFd,
    mapping: Mapping,
}

/// A worker's load, according to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyState {
    /// Idle, or the worker does not report its load.
    Idle,
    /// Chosen for a connection that it has not begun to process.
    Claimed,
    /// Its oldest request has been running for this long.
    Busy(Duration),
}

/// Returns the index of a record: the first (0) or second (1) of its slot.
#[must_use]
pub fn record(slot: usize, index: usize) -> usize {
    HEADER + PER_SLOT * slot + index
}

impl Records {
    /// Creates records in memory that is not visible to the kernel's programs.
    pub(super) fn in_memory() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = rustix::fs::memfd_create("weir-busy", flags)?;
        rustix::fs::ftruncate(&descriptor, (RECORDS * RECORD_BYTES) as u64)?;
        // A worker that truncated it would crash the service (SIGBUS).
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&descriptor, seals)?;
        Self::adopt(descriptor)
    }

    /// Creates records in a BPF map, which the kernel's programs can access.
    pub(super) fn in_kernel() -> io::Result<Self> {
        let bytes = u32::try_from(RECORDS * RECORD_BYTES).map_err(io::Error::other)?;
        Self::adopt(system::create_map(bytes)?)
    }

    /// Maps records that another process has created.
    pub(super) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let words = NonZero::new(RECORDS * WORDS_PER_RECORD).unwrap_or(NonZero::<usize>::MIN);
        let mapping = Mapping::map(&descriptor, words)?;
        Ok(Self { descriptor, mapping })
    }

    /// Returns a worker's load.
    #[must_use]
    pub fn state(&self, record: usize) -> BusyState {
        match self.word(record, STATE).load(Ordering::Relaxed) {
            IDLE => BusyState::Idle,
            CLAIMED => BusyState::Claimed,
            started_ms => {
                let started = Duration::from_millis(started_ms);
                BusyState::Busy(crate::monotonic().saturating_sub(started))
            }
        }
    }

    /// Returns the number of requests that a worker has finished, as it reports.
    #[must_use]
    pub fn served(&self, record: usize) -> u64 {
        self.word(record, SERVED).load(Ordering::Relaxed)
    }

    /// Marks a worker idle that was chosen for a connection which it never received. Returns false
    /// if it has begun a request meanwhile.
    pub fn repair(&self, record: usize) -> bool {
        let state = self.word(record, STATE);
        state.compare_exchange(CLAIMED, IDLE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Clears the record for a new worker, or after the end of one.
    pub(crate) fn reset(&self, record: usize) {
        for word in [SOCKET, STATE, SERVED] {
            self.word(record, word).store(0, Ordering::SeqCst);
        }
    }

    /// Sets the socket by which programs may choose a worker; None: they may not.
    pub(crate) fn set_socket(&self, record: usize, socket: Option<usize>) {
        let socket_number = socket.map_or(0, |socket| socket as u64 + 1);
        self.word(record, SOCKET).store(socket_number, Ordering::SeqCst);
    }

    pub(super) fn set_plan(&self, plan: &Plan) {
        for (word, value) in plan.encode().into_iter().enumerate() {
            self.word(PLAN, word).store(value, Ordering::SeqCst);
        }
    }

    /// Returns the plan of the process that created the memory; None: it stored none.
    pub(super) fn plan(&self) -> Option<Plan> {
        let word = |word| self.word(PLAN, word).load(Ordering::SeqCst);
        Plan::decode([word(0), word(1), word(2), word(3)])
    }

    /// Directs connections from `source` to `socket`.
    pub(super) fn direct(&self, source: SocketAddr, socket: usize) {
        let header = |word| self.word(0, word);
        header(PROBE).store(0, Ordering::SeqCst);
        header(TARGET).store(socket as u64, Ordering::SeqCst);
        header(PROBE).store(address_key(source), Ordering::SeqCst);
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

/// Returns a client address as a program compares it: the last four bytes of the IP address and the
/// port, as loaded by the processor.
fn address_key(source: SocketAddr) -> u64 {
    let port = u16::from_ne_bytes(source.port().to_be_bytes());
    (u64::from(u32::from_ne_bytes(last_bytes(source.ip()))) << 16) | u64::from(port)
}

/// Returns the last four bytes of an address.
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
    fn a_workers_state_is_visible_to_all_processes_with_the_memory() {
        let ours = Records::in_memory().expect("made");
        let theirs = Records::adopt(ours.as_fd().try_clone_to_owned().expect("a copy"));
        let theirs = theirs.expect("mapped");
        let worker = record(999, 1);
        assert_eq!(theirs.state(worker), BusyState::Idle);
        let started = crate::monotonic() - Duration::from_secs(7);
        let started_ms = u64::try_from(started.as_millis()).expect("fits");
        theirs.word(worker, STATE).store(started_ms, Ordering::Relaxed);
        let BusyState::Busy(age) = ours.state(worker) else { panic!("{:?}", ours.state(worker)) };
        assert!(age >= Duration::from_secs(7), "{age:?}");
        assert!(!ours.repair(worker), "it has begun");
        theirs.word(worker, STATE).store(CLAIMED, Ordering::Relaxed);
        assert_eq!(ours.state(worker), BusyState::Claimed);
        assert!(ours.repair(worker));
        assert_eq!(theirs.state(worker), BusyState::Idle);
    }

    #[test]
    fn the_shared_memory_cannot_be_shortened() {
        let records = Records::in_memory().expect("made");
        assert!(rustix::fs::ftruncate(&records, 0).is_err());
    }

    #[test]
    fn records_of_slots_do_not_overlap() {
        assert_eq!(record(0, 0), HEADER);
        assert_eq!(record(1, 0), record(0, 1) + 1);
    }
}

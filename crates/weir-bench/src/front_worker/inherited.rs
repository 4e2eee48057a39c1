//! What a worker inherits from its parent: listening sockets, and records that it shares with other processes.

#![expect(unsafe_code, reason = "inherited descriptors and shared memory have no safe interface")]

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::sockopt::socket_acceptconn;

/// The first descriptor of sd_listen_fds(3).
const FIRST: i32 = 3;

/// The descriptors that LISTEN_FDS announces.
pub(super) fn listen_fds(count: i32) -> Range<i32> {
    FIRST..FIRST.saturating_add(count)
}

/// Takes ownership of descriptor `fd`, which nothing else in this process may own.
pub(super) fn take_listener(fd: i32) -> Result<OwnedFd> {
    let not_listening = || format!("descriptor {fd} is not a listening socket");
    anyhow::ensure!(fd >= FIRST, not_listening());
    // SAFETY: borrowed for this call only; a number that is no descriptor makes the call fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    anyhow::ensure!(socket_acceptconn(borrowed).with_context(not_listening)?, not_listening());
    // SAFETY: it is open, it was inherited (this process has opened no listening socket), and each number is taken
    // once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Words of a record.
const WORDS: usize = 4;

/// Record `index` of the array behind descriptor `fd`, mapped until this process ends.
pub(super) fn map_record(fd: i32, index: usize) -> Result<&'static [AtomicU64; WORDS]> {
    const RECORD: usize = size_of::<[AtomicU64; WORDS]>();
    let bytes = index.checked_add(1).and_then(|records| records.checked_mul(RECORD));
    let bytes = bytes.with_context(|| format!("record {index} is out of reach"))?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: borrowed for this call only; a number that is no descriptor makes it fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, borrowed, 0) };
    let start = start.with_context(|| format!("mapping descriptor {fd}"))?;
    // SAFETY: the mapping holds index + 1 records, begins at a page, is never unmapped, and all who share it access
    // whole words atomically.
    Ok(unsafe { &*start.cast::<[AtomicU64; WORDS]>().add(index) })
}

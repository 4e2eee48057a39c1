//! Programs that select a socket of a group (`bpf(2)`), and memory shared with workers and with the
//! service (`mmap(2)`).

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::check;

// linux/bpf.h
const MAP_CREATE: libc::c_int = 0;
const PROGRAM_LOAD: libc::c_int = 5;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_CAN_BE_MAPPED: u32 = 1 << 10;
const PROGRAM_TYPE_SOCKET_FILTER: u32 = 1;
/// Size of the verifier's log about a rejected program.
const LOG_BYTES: usize = 16 << 10;

/// One instruction of an extended program, as in linux/bpf.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// The destination in the lower half byte, the source in the upper one.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

/// One instruction of a classic program, as in linux/filter.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassicInstruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) operand: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Creates an array map with one entry of `bytes`, shared by programs and processes.
pub(crate) fn create_map(bytes: u32) -> io::Result<OwnedFd> {
    let attributes = MapAttributes {
        kind: MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: bytes,
        entries: 1,
        flags: MAP_CAN_BE_MAPPED,
    };
    bpf(MAP_CREATE, &attributes)
}

/// Loads a program into the kernel. An error ends with the verifier's last message, if there is
/// one.
pub(crate) fn load_program(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    // The called functions are not restricted to GPL programs, so any licence is accepted.
    let license = c"Apache-2.0";
    let mut attributes = ProgramAttributes {
        kind: PROGRAM_TYPE_SOCKET_FILTER,
        count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: address(instructions.as_ptr()),
        license: address(license.as_ptr()),
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    let error = match bpf(PROGRAM_LOAD, &attributes) {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => error,
        loaded_or_forbidden => return loaded_or_forbidden,
    };
    // Load again with a log, to get the reason.
    let mut log = vec![0_u8; LOG_BYTES];
    attributes.log_level = 1;
    attributes.log_bytes = u32::try_from(LOG_BYTES).map_err(io::Error::other)?;
    attributes.log = address(log.as_mut_ptr());
    let _ = bpf(PROGRAM_LOAD, &attributes);
    let log_text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log_text.trim_matches('\0').lines().collect();
    // The last line is a count of instructions.
    let reason = lines.iter().rev().nth(1).copied().unwrap_or_default();
    Err(io::Error::new(error.kind(), format!("{error} ({reason})")))
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let pointer = std::ptr::from_ref(attributes);
    // SAFETY: both attributes are laid out as linux/bpf.h defines for their command, and their size
    // is given; the kernel reads them, the program and the licence, and writes at most `log_bytes`
    // into the log. All of these live until the call has returned.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    let descriptor = check(libc::c_int::try_from(result).map_err(io::Error::other)?)?;
    // SAFETY: the kernel has just created the descriptor for this process, close-on-exec as all of
    // bpf(2)'s are.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Lets `program` select among all sockets that listen at the address of `socket`.
pub(crate) fn attach_program(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_ATTACH_REUSEPORT_EBPF, &program.as_raw_fd())
}

/// Like [`attach_program`] with a classic program, which needs no privileges.
pub(crate) fn attach_classic(
    socket: BorrowedFd<'_>,
    program: &[ClassicInstruction],
) -> io::Result<()> {
    #[repr(C)]
    struct Program {
        count: libc::c_ushort,
        instructions: *const ClassicInstruction,
    }
    let count = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let program = Program { count, instructions: program.as_ptr() };
    set_option(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

fn set_option<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let pointer = std::ptr::from_ref(value).cast();
    let bytes = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `bytes` at the pointer, and for a classic program its instructions;
    // both live until the call has returned.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, pointer, bytes) };
    check(result).map(drop)
}

/// Returns the number of connections in the backlog of a listening socket.
pub(crate) fn waiting(socket: BorrowedFd<'_>) -> io::Result<u32> {
    /// The index of `tcpi_unacked` in `struct tcp_info`, which has eight bytes and then words. For
    /// a listening socket it is the length of the accept queue.
    const UNACKED: usize = 2 + 4;
    let mut info = [0_u32; UNACKED + 1];
    let mut bytes = libc::socklen_t::try_from(size_of_val(&info)).map_err(io::Error::other)?;
    let pointer = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `bytes` at the pointer, which is the size of the array.
    let result = unsafe {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(socket.as_raw_fd(), level, option, pointer, &raw mut bytes)
    };
    check(result)?;
    Ok(info[UNACKED])
}

/// Shared memory as words that other processes may change at any time.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    words: NonZero<usize>,
}

// SAFETY: the memory stays mapped as long as the value lives, in any thread, and is only accessed
// through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `words` words of `descriptor`.
    pub(crate) fn map(descriptor: impl AsFd, words: NonZero<usize>) -> io::Result<Self> {
        let bytes = words.get() * size_of::<AtomicU64>();
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other memory.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let number = descriptor.as_fd().as_raw_fd();
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, number, 0)
        };
        match NonNull::new(start.cast()) {
            Some(mapped) if start != libc::MAP_FAILED => Ok(Self { start: mapped, words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns a word. Panics if `index` is out of range.
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words.get(), "word {index} of {}", self.words);
        // SAFETY: within the mapping, which lives as long as `self` and begins on a page, so every
        // word is aligned; a word of any value is a valid AtomicU64.
        unsafe { self.start.add(index).as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = self.words.get() * size_of::<AtomicU64>();
        // SAFETY: mapped by `map` with this size; no reference into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

//! Operations that need `unsafe`, beyond the standard library and rustix. The only such module of
//! the workspace.
//!
//! - [`hand_over`]: the descriptors of a child, and its signal mask;
//! - [`take_descriptor`]: the child's side of it;
//! - `signal_descriptor`, `next_signal`: signals as a descriptor to poll;
//! - `exec`: limits, user and `LISTEN_PID` of a worker between fork and exec;
//! - [`reexec`]: re-execution of this process;
//! - `identity`: users and groups by name;
//! - `bpf`: programs that select a socket, and memory that they share with workers;
//! - `orphans`: orphaned descendants.
#![expect(unsafe_code, reason = "descriptor passing and signal masks have no safe interface")]

mod bpf;
mod exec;
mod identity;
mod orphans;
mod reexec;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;

pub(crate) use bpf::{
    ClassicInstruction, Instruction, Mapping, attach_classic, attach_program, create_map,
    load_program, waiting,
};
pub(crate) use exec::{Image, Launch, exec_by_hand};
pub(crate) use identity::Identity;
pub use identity::user_name;
pub(crate) use orphans::{adopt_orphans, ended_child, reap};
pub use reexec::reexec;

/// The first inherited descriptor of a child; 0, 1 and 2 are its standard streams.
pub const FIRST_DESCRIPTOR: RawFd = 3;

/// The highest standard signal.
const SIGNAL_MAX: libc::c_int = 31;

/// Signals that the parent handles.
const RECEIVED: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR2];

/// Descriptors that [`take_descriptor`] has returned.
static TAKEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Passes `descriptors` to the child that `command` starts, at 3, 4, 5 .. in this order, and resets
/// its blocked and ignored signals. The descriptors must stay open until the spawn.
pub fn hand_over(command: &mut Command, descriptors: &[BorrowedFd<'_>]) {
    let mut sources: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let end = FIRST_DESCRIPTOR.saturating_add(RawFd::try_from(sources.len()).unwrap_or(RawFd::MAX));
    let prepare = move || {
        for signal in 1..=SIGNAL_MAX {
            stop_ignoring(signal);
        }
        unblock_signals()?;
        // Copy above 3 .. end first, then to the target: a direct dup2 in order could overwrite a
        // descriptor that is not copied yet.
        for source in &mut sources {
            // SAFETY: fcntl on a number; an invalid one gives EBADF.
            *source = check(unsafe { libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, end) })?;
        }
        for (target, source) in (FIRST_DESCRIPTOR..end).zip(&sources) {
            // SAFETY: dup2 on numbers; the copy has no close-on-exec flag, so exec keeps it.
            check(unsafe { libc::dup2(*source, target) })?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions run: signal, sigemptyset,
    // pthread_sigmask, fcntl and dup2. Nothing allocates, the vector was filled before the fork.
    unsafe { command.pre_exec(prepare) };
}

/// Takes ownership of the inherited descriptor `number`. Returns an error for a standard stream, a
/// closed descriptor, or one that was taken before.
pub fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    let reject = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text.to_owned()));
    if number < FIRST_DESCRIPTOR {
        return reject("a standard stream is not an inherited descriptor");
    }
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if taken.contains(&number) {
        return reject("the descriptor was taken before");
    }
    // SAFETY: fcntl on a number; an invalid one gives EBADF.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    taken.push(number);
    // SAFETY: it is open (checked above), the parent passed it to this process only, and `TAKEN`
    // prevents a second owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR2 in the calling thread and returns a non-blocking
/// descriptor that reads them.
pub(crate) fn signal_descriptor() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; the others read or change an initialised one.
    unsafe {
        check(libc::sigemptyset(set.as_mut_ptr()))?;
        for signal in RECEIVED {
            check(libc::sigaddset(set.as_mut_ptr(), signal))?;
        }
        check_errno(libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))?;
    }
    // `nohup` and shells can start the process with some signals ignored, which a signalfd does not
    // receive.
    for signal in RECEIVED {
        stop_ignoring(signal);
    }
    // SAFETY: the set is initialised; -1 requests a new descriptor, which nothing else owns.
    unsafe {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        Ok(OwnedFd::from_raw_fd(check(libc::signalfd(-1, set.as_ptr(), flags))?))
    }
}

/// Returns the next pending signal, if any.
pub(crate) fn next_signal(descriptor: BorrowedFd<'_>) -> Option<libc::c_int> {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(descriptor, &mut info).ok()?;
    // The signal's number is the first field, a u32 in the machine's order (signalfd(2)).
    let number = info.first_chunk::<4>().filter(|_| read == info.len())?;
    libc::c_int::try_from(u32::from_ne_bytes(*number)).ok()
}

/// Resets a signal to its default action; SIGKILL and SIGSTOP are unaffected.
fn stop_ignoring(signal: libc::c_int) {
    // SAFETY: signal(2) on a number; an invalid one gives EINVAL, and SIG_DFL is no function of
    // ours that could run.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn unblock_signals() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before the mask is read from it.
    unsafe {
        check(libc::sigemptyset(set.as_mut_ptr()))?;
        check_errno(libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()))
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_errno(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

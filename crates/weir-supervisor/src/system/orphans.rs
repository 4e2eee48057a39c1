//! Orphaned descendants, which this process inherits as a subreaper.

use std::io;
use std::mem::MaybeUninit;

use rustix::process::Pid;

use super::check;

/// Makes this process the subreaper: orphaned descendants become its children instead of init's.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Returns the pid of some child that has ended, without reaping it.
pub(crate) fn ended_child() -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: waitid fills in `info`, which is valid for writing.
    check(unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) }).ok()?;
    // SAFETY: all zeros are a valid siginfo_t; waitid(2) leaves si_pid 0 if no child has ended and
    // fills it in otherwise.
    let pid = unsafe { info.assume_init_ref().si_pid() };
    Pid::from_raw(pid)
}

/// Reaps the child `pid`, which has ended.
pub(crate) fn reap(pid: Pid) {
    // SAFETY: waitpid on a number; null means that the status is not needed.
    unsafe { libc::waitpid(pid.as_raw_pid(), std::ptr::null_mut(), libc::WNOHANG) };
}

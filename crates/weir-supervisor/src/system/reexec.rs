//! Re-execution of this process.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::RawFd;

use super::check;

/// Executes `program` with `arguments` (the program's name first) in this process, which keeps its
/// children, pid, environment, blocked signals and the descriptors `descriptors`. Returns only on
/// failure, and then nothing has changed.
pub fn reexec(program: &CString, arguments: &[CString], descriptors: &[RawFd]) -> io::Error {
    if let Err(error) = close_on_exec(descriptors, false) {
        let _ = close_on_exec(descriptors, true);
        return error;
    }
    let null = std::ptr::null();
    let texts = arguments.iter().map(|text| text.as_ptr());
    let pointers: Vec<*const c_char> = texts.chain([null]).collect();
    // SAFETY: the program ends with NUL; the array ends with null, and all before it points to
    // texts that end with NUL and live until the call is over.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    let error = io::Error::last_os_error();
    // Children that are started from now on must not inherit them.
    let _ = close_on_exec(descriptors, true);
    error
}

fn close_on_exec(descriptors: &[RawFd], closes: bool) -> io::Result<()> {
    for descriptor in descriptors {
        let flag = if closes { libc::FD_CLOEXEC } else { 0 };
        // SAFETY: fcntl on a number; an invalid one gives EBADF.
        check(unsafe { libc::fcntl(*descriptor, libc::F_SETFD, flag) })?;
    }
    Ok(())
}

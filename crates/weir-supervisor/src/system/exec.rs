//! The steps of a worker's start between fork and exec, and the exec itself.
//!
//! `LISTEN_PID` must be the pid of the process that executes the program, which is known only after
//! the fork. Instead of a second program that sets it, the digits are written into a prepared
//! environment after the fork, and `execve(2)` is called directly: nothing allocates, and no second
//! exec is needed. The standard library reports errors to the parent, because it sees a failed
//! `pre_exec` hook.

use std::ffi::{CString, c_char};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal};

use super::{FIRST_DESCRIPTOR, Identity, check};

/// The variable whose value is known only after the fork.
const LISTEN_PID: &[u8] = b"LISTEN_PID=";
/// The most digits of a u32.
const DIGITS_MAX: usize = 10;

/// The properties of a process that are set after the fork.
pub(crate) struct Launch {
    /// Number of inherited descriptors besides the standard streams.
    pub(crate) descriptors: usize,
    pub(crate) limits: Vec<(Resource, u64)>,
    /// None: the parent's identity.
    pub(crate) identity: Option<Identity>,
    /// Sent when the parent dies. Otherwise a worker would run unsupervised, and the listening
    /// sockets that it inherited would stay in use.
    pub(crate) death_signal: Signal,
    pub(crate) image: Image,
}

/// A program with its arguments and its environment, in the form of `execve(2)`.
pub(crate) struct Image {
    /// Candidate paths of the program; the first that can be executed is used. Tried after the
    /// change of user, since not every user can access every folder of `PATH`.
    programs: Vec<CString>,
    /// Pointers into `_texts`, then null.
    arguments: Vec<*const c_char>,
    /// Pointers into `_texts`, then one for `listen_pid` if it is set, then null.
    environment: Vec<*const c_char>,
    /// `LISTEN_PID=` with space for the digits and a NUL.
    listen_pid: Option<Vec<u8>>,
    /// Owns the pointers' targets; never accessed.
    _texts: (Vec<CString>, Vec<CString>),
}

// SAFETY: the pointers point into heap memory that the same value owns and that nothing changes;
// moving the value to another thread moves neither that memory nor access to it.
unsafe impl Send for Image {}
// SAFETY: through a shared reference nothing can be read or changed: it has no `&self` method.
unsafe impl Sync for Image {}

impl Image {
    /// Creates an image. `with_listen_pid` sets `LISTEN_PID` to the pid at exec.
    pub(crate) fn new(
        programs: Vec<CString>,
        arguments: Vec<CString>,
        environment: Vec<CString>,
        with_listen_pid: bool,
    ) -> Self {
        let null = std::ptr::null();
        let listen_pid = with_listen_pid.then(|| {
            let mut text = LISTEN_PID.to_vec();
            text.resize(LISTEN_PID.len() + DIGITS_MAX + 1, 0);
            text
        });
        let placeholder = listen_pid.iter().map(|_| null);
        Self {
            programs,
            arguments: pointers(&arguments).chain([null]).collect(),
            environment: pointers(&environment).chain(placeholder).chain([null]).collect(),
            listen_pid,
            _texts: (arguments, environment),
        }
    }

    /// Executes the program. Returns only on failure.
    fn execute(&mut self) -> io::Error {
        if let Some(text) = &mut self.listen_pid {
            write_digits(std::process::id(), &mut text[LISTEN_PID.len()..]);
            let index = self.environment.len() - 2;
            self.environment[index] = text.as_ptr().cast();
        }
        let mut failure = libc::ENOENT;
        for program in &self.programs {
            let (arguments, environment) = (self.arguments.as_ptr(), self.environment.as_ptr());
            // SAFETY: the program ends with NUL; both arrays end with null, and all before it
            // points to texts that end with NUL and that `self` owns.
            unsafe { libc::execve(program.as_ptr(), arguments, environment) };
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // As execvp(3): a later path may be accessible.
                Some(libc::EACCES) => failure = libc::EACCES,
                other => return io::Error::from_raw_os_error(other.unwrap_or(failure)),
            }
        }
        io::Error::from_raw_os_error(failure)
    }
}

/// Makes `command` execute `launch` after its other preparations. The program, arguments and
/// environment of `command` are ignored.
pub(crate) fn exec_by_hand(command: &mut Command, mut launch: Launch) {
    let parent = rustix::process::getpid();
    let become_it = move || {
        keep_only(launch.descriptors)?;
        for (resource, limit) in &launch.limits {
            let limit = Rlimit { current: Some(*limit), maximum: Some(*limit) };
            rustix::process::setrlimit(*resource, limit)?;
        }
        if let Some(identity) = &launch.identity {
            become_somebody(identity)?;
        }
        // After the change of identity, which resets it.
        rustix::process::set_parent_process_death_signal(Some(launch.death_signal))?;
        if rustix::process::getppid() != Some(parent) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Err(launch.image.execute())
    };
    // SAFETY: between fork and exec only async-signal-safe calls run: close_range, setrlimit,
    // setgroups, setgid, setuid, prctl, getpid, getppid and execve. Nothing allocates; an error is
    // a number or a kind.
    unsafe { command.pre_exec(become_it) };
}

/// Closes further descriptors at exec. The process that started the parent may have leaked
/// descriptors to all descendants: a socket or lock among them would stay in use as long as a
/// worker lives.
fn keep_only(descriptors: usize) -> io::Result<()> {
    let first = FIRST_DESCRIPTOR.unsigned_abs() as usize + descriptors;
    // SAFETY: close_range(2) takes numbers, and with this flag closes nothing before exec.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Linux before 5.9 lacks this call, before 5.11 the flag: then they stay open.
        Some(libc::ENOSYS | libc::EINVAL) => Ok(()),
        _ if result < 0 => Err(error),
        _ => Ok(()),
    }
}

/// Sets the groups first: without the privileges of the old user, they cannot be set.
fn become_somebody(identity: &Identity) -> io::Result<()> {
    // SAFETY: the pointer and the count are those of one vector; the others take numbers.
    unsafe {
        check(libc::setgroups(identity.groups.len(), identity.groups.as_ptr()))?;
        check(libc::setgid(identity.gid))?;
        check(libc::setuid(identity.uid))?;
    }
    Ok(())
}

fn pointers(texts: &[CString]) -> impl Iterator<Item = *const c_char> {
    texts.iter().map(|text| text.as_ptr())
}

/// Writes decimal digits and a NUL, without leading zeros, which some readers treat as octal.
fn write_digits(mut number: u32, target: &mut [u8]) {
    let mut digits = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let count = DIGITS_MAX - start;
    target[..count].copy_from_slice(&digits[start..]);
    target[count] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_have_no_leading_zeros_and_a_nul() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            let mut text = [b'x'; DIGITS_MAX + 1];
            write_digits(number, &mut text);
            let end = text.iter().position(|&byte| byte == 0).expect("an end");
            assert_eq!(std::str::from_utf8(&text[..end]), Ok(number.to_string().as_str()));
        }
    }
}

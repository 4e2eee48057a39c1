//! What happens in a worker between fork and exec, and the exec itself.
//!
//! `LISTEN_PID` must be the pid of the process that executes the program, and only that process
//! knows it. Instead of a second program that sets it and executes the first, its digits are
//! written into a prepared environment after the fork, and `execve(2)` is called by hand: nothing
//! allocates, and no second exec is paid for. Errors reach the parent by the standard library's own
//! way, because to it this is a `pre_exec` hook that failed.

use std::ffi::{CString, c_char};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal};

use super::{FIRST_DESCRIPTOR, Identity, check};

/// The variable whose value is known only after the fork.
const LISTEN_PID: &[u8] = b"LISTEN_PID=";
/// A u32 has at most so many digits.
const DIGITS_MAX: usize = 10;

/// What becomes of a process after the fork.
pub(crate) struct Launch {
    /// How many it inherits besides its standard streams.
    pub(crate) descriptors: usize,
    pub(crate) limits: Vec<(Resource, u64)>,
    /// None: as the parent.
    pub(crate) identity: Option<Identity>,
    /// Sent when the parent dies: nobody else would end a worker that nobody watches, and the
    /// listening sockets that it inherited would stay taken.
    pub(crate) death_signal: Signal,
    pub(crate) image: Image,
}

/// A program with its arguments and its environment, in the form of `execve(2)`.
pub(crate) struct Image {
    /// Where the program may be, the first that can be executed counts: after the change of user,
    /// because not everybody can reach every folder of `PATH`.
    programs: Vec<CString>,
    /// Into `_texts`, then null.
    arguments: Vec<*const c_char>,
    /// Into `_texts`, then a place for `listen_pid` if there is one, then null.
    environment: Vec<*const c_char>,
    /// `LISTEN_PID=` and room for the digits and a NUL.
    listen_pid: Option<Vec<u8>>,
    /// Owns what the pointers point to; never touched.
    _texts: (Vec<CString>, Vec<CString>),
}

// SAFETY: the pointers point into heap memory that the same value owns and that nobody changes;
// moving the value to another thread moves neither that memory nor access to it.
unsafe impl Send for Image {}
// SAFETY: through a shared reference nothing can be read or changed: it has no `&self` method.
unsafe impl Sync for Image {}

impl Image {
    /// `with_listen_pid`: `LISTEN_PID` is the pid after exec.
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
        let place = listen_pid.iter().map(|_| null);
        Self {
            programs,
            arguments: pointers(&arguments).chain([null]).collect(),
            environment: pointers(&environment).chain(place).chain([null]).collect(),
            listen_pid,
            _texts: (arguments, environment),
        }
    }

    /// Returns only when it failed.
    fn execute(&mut self) -> io::Error {
        if let Some(text) = &mut self.listen_pid {
            write_digits(std::process::id(), &mut text[LISTEN_PID.len()..]);
            let place = self.environment.len() - 2;
            self.environment[place] = text.as_ptr().cast();
        }
        let mut failure = libc::ENOENT;
        for program in &self.programs {
            let (arguments, environment) = (self.arguments.as_ptr(), self.environment.as_ptr());
            // SAFETY: the program ends with NUL; both arrays end with null, and all before it points
            // to texts that end with NUL and that `self` owns.
            unsafe { libc::execve(program.as_ptr(), arguments, environment) };
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // As execvp(3): somewhere else there may be one for everybody.
                Some(libc::EACCES) => failure = libc::EACCES,
                other => return io::Error::from_raw_os_error(other.unwrap_or(failure)),
            }
        }
        io::Error::from_raw_os_error(failure)
    }
}

/// Makes `command`, after everything else that it prepares, become `launch`. What it was given as
/// program, arguments and environment doesn't count.
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
        // After the change of identity, which clears it.
        rustix::process::set_parent_process_death_signal(Some(launch.death_signal))?;
        if rustix::process::getppid() != Some(parent) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Err(launch.image.execute())
    };
    // SAFETY: between fork and exec only async-signal-safe calls run: close_range, setrlimit,
    // setgroups, setgid, setuid, prctl, getpid, getppid and execve. Nothing allocates; an error is a number or a kind.
    unsafe { command.pre_exec(become_it) };
}

/// Whoever started the parent may have left descriptors open for all its descendants: a socket or a
/// lock among them would stay taken as long as a worker lives.
fn keep_only(descriptors: usize) -> io::Result<()> {
    let first = FIRST_DESCRIPTOR.unsigned_abs() as usize + descriptors;
    // SAFETY: close_range(2) takes numbers, and with this flag closes nothing before exec.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Linux before 5.9 knows no such call, before 5.11 no such flag: then they stay open.
        Some(libc::ENOSYS | libc::EINVAL) => Ok(()),
        _ if result < 0 => Err(error),
        _ => Ok(()),
    }
}

/// Groups first: they cannot be set any more without the user's rights.
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

/// Decimal digits and a NUL. No leading zeros: some readers would take the number for octal.
fn write_digits(mut number: u32, to: &mut [u8]) {
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
    to[..count].copy_from_slice(&digits[start..]);
    to[count] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_have_no_leading_zeros_and_end() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            let mut text = [b'x'; DIGITS_MAX + 1];
            write_digits(number, &mut text);
            let end = text.iter().position(|&byte| byte == 0).expect("an end");
            assert_eq!(std::str::from_utf8(&text[..end]), Ok(number.to_string().as_str()));
        }
    }
}

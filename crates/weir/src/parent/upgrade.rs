//! Re-executes the parent as another program, whose file may have been replaced, which continues
//! with all state: its children, their sockets and descriptors, the lock of the data directory.
//!
//! First the new program is started as a child to check whether it could take over: it reads the
//! state and the settings. Only then it is executed in the parent's process, since that cannot be
//! undone.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};
use weir_supervisor::carried::{self, CarriedSupervisor, Carrier, VERSION};
use weir_supervisor::system;

use super::Handover;
use super::applied_settings::AppliedSettings;
use weir_config::{SharedSockets, environment};

/// The prefix of the flags of `weir up` that hand over to another program.
const FLAG: &str = "--takeover";
/// How long the new program may take for the check: it reads two small files.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Far more than the state of a parent with the most workers possible.
const JSON_BYTES_MAX: u64 = 256 << 20;

/// The state that one program passes to the next. `S`: the supervisor's [`CarriedSupervisor`], or a
/// reference to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carried<S> {
    version: u32,
    /// The settings of the service.
    pub(super) handover: Handover,
    pub(super) data_dir: PathBuf,
    /// The configured listening addresses, by names of descriptors.
    pub(super) addresses: BTreeMap<String, SocketAddr>,
    /// The shared sockets of apps, by the names of the apps.
    pub(super) shared: BTreeMap<String, Option<SharedSockets>>,
    pub(super) state: S,
}

/// Only the version, which every program can read.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The path of this program, as it was called.
#[derive(Clone, Debug)]
pub(super) struct Program(PathBuf);

impl<'a> Carried<&'a CarriedSupervisor> {
    pub(super) fn new(
        handover: Handover,
        data_dir: PathBuf,
        applied: &AppliedSettings,
        state: &'a CarriedSupervisor,
    ) -> Self {
        let (addresses, shared) = (applied.addresses(), applied.shared().clone());
        Self { version: VERSION, handover, data_dir, addresses, shared, state }
    }

    fn write(&self) -> anyhow::Result<OwnedFd> {
        let memory = rustix::fs::memfd_create("weir-takeover", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(memory);
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        Ok(file.into())
    }
}

impl Carried<CarriedSupervisor> {
    /// Reads the state of an earlier program.
    pub(super) fn read(descriptor: RawFd) -> anyhow::Result<Self> {
        let mut file = File::from(carried::take(descriptor)?);
        let mut json = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(JSON_BYTES_MAX).read_to_end(&mut json)?;
        let Versioned { version } = serde_json::from_slice(&json)
            .context("what the earlier program left is not readable")?;
        if version != VERSION {
            bail!(
                "the running parent hands over in version {version}, but this program supports version {VERSION}; stop Weir and start it again"
            );
        }
        serde_json::from_slice(&json).context("what the earlier program left is not understood")
    }
}

impl Program {
    /// Returns the path by which this program was started, if that leads to it: a symbolic link may
    /// lead to another file later, which an upgrade must find.
    pub(super) fn running() -> std::io::Result<Self> {
        let running = std::env::current_exe()?;
        let Some(name) = std::env::args_os().next().map(PathBuf::from) else {
            return Ok(Self(running));
        };
        let named = match name.parent() {
            Some(folder) if folder.as_os_str().is_empty() => environment::search_path()
                .map(|folder| folder.join(&name))
                .find(|path| path.is_file())
                .unwrap_or(name),
            _ => std::path::absolute(name)?,
        };
        let is_running_program =
            |path: &Path| path.canonicalize().is_ok_and(|path| path == running);
        Ok(Self(if is_running_program(&named) { named } else { running }))
    }

    /// Executes the current program file. Returns only on failure.
    pub(super) fn reexec(
        &self,
        carried: &Carried<&CarriedSupervisor>,
        mut carrier: Carrier,
    ) -> anyhow::Error {
        let memory = match self.check(carried) {
            Ok(memory) => memory,
            Err(error) => return error,
        };
        let flag = format!("{FLAG}={}", carrier.keep_open(&memory.as_fd()));
        let arguments = std::iter::once(self.0.clone().into_os_string())
            .chain(arguments())
            .chain([OsString::from(flag)]);
        let arguments: Result<Vec<CString>, _> =
            arguments.map(|text| CString::new(text.into_vec())).collect();
        let program = CString::new(self.0.as_os_str().as_bytes());
        let (Ok(program), Ok(arguments)) = (program, arguments) else {
            return anyhow::anyhow!("an argument has a NUL byte");
        };
        let error = system::reexec(&program, &arguments, carrier.numbers());
        anyhow::Error::new(error).context(format!("{} can't be executed", self.0.display()))
    }

    /// Lets the current program file check whether it could take over, and returns the state for
    /// it.
    fn check(&self, carried: &Carried<&CarriedSupervisor>) -> anyhow::Result<OwnedFd> {
        let shown = self.0.display();
        let memory = carried.write().context("what to hand over can't be written down")?;
        let mut command = Command::new(&self.0);
        let flag = format!("{FLAG}-check={}", system::FIRST_DESCRIPTOR);
        command.args(arguments()).arg(flag);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        system::hand_over(&mut command, &[memory.as_fd()]);
        let child = command.spawn().with_context(|| format!("{shown} can't be executed"))?;
        let error_text = wait_for(child).with_context(|| format!("{shown} can't take over"))?;
        if let Some(error_text) = error_text {
            bail!("{shown} can't take over: {error_text}");
        }
        Ok(memory)
    }
}

/// Returns this program's arguments without those of an earlier handover.
fn arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os().skip(1).filter(|text| !text.as_bytes().starts_with(FLAG.as_bytes()))
}

/// Returns the error of the check; None: it passed.
fn wait_for(mut child: Child) -> anyhow::Result<Option<String>> {
    let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let wait = Timespec::try_from(CHECK_TIMEOUT)?;
    let ended = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&wait))?;
    if ended == 0 {
        child.kill()?;
        child.wait()?;
        bail!("it did not say so within {CHECK_TIMEOUT:?}");
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(None);
    }
    let error_text = String::from_utf8_lossy(&output.stderr);
    let error_text = error_text.trim().trim_start_matches("error: ");
    Ok(Some(if error_text.is_empty() { output.status.to_string() } else { error_text.to_owned() }))
}

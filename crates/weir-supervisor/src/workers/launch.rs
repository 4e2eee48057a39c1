//! Starts the process of one generation: sockets, command, environment, then fork and exec.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};

use super::blueprint::{Blueprint, INDEX, NAME};
use super::check::RESERVED;
use super::endpoint::WorkerEndpoint;
use super::notify_socket::NotifySocket;
use super::output::WorkerOutput;
use super::process::{SlotIndex, WorkerProcess};
use super::spec::{GroupSpec, Readiness};
use super::template::{Unknown, Values};
use super::values::WorkerValues;
use crate::control::WorkerAddress;
use crate::selection::busy::{FD_VARIABLE, INDEX_VARIABLE};
use crate::system::{self, FIRST_DESCRIPTOR, Identity, Image, Launch};

/// The search path when the environment has no `PATH` (as `execvp(3)`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error(
        "{program} is in no folder of PATH that the worker can reach; give its whole path, or set \
         PATH in the environment of the group"
    )]
    NotFound { program: String },
    #[error("can't be given something to listen on: {0}")]
    Endpoint(io::Error),
    #[error("NOTIFY_SOCKET can't be made: {0}")]
    Notify(io::Error),
    #[error("{program} can't be started in {folder}: {error}")]
    Start { program: String, folder: String, error: io::Error },
    #[error("{0}")]
    Placeholder(Unknown),
}

impl LaunchError {
    /// Returns whether another attempt would fail in the same way until the program is installed.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::NotFound { .. } => true,
            Self::Start { error, .. } => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            }
            Self::Endpoint(_) | Self::Notify(_) | Self::Placeholder(_) => false,
        }
    }
}

type ProcessEnvironment = BTreeMap<OsString, OsString>;

/// Starts `generation` at `slot_index`.
pub(crate) fn launch(
    blueprint: &Blueprint,
    slot_index: SlotIndex,
    (generation, worker_values): (u64, &WorkerValues),
    now: Duration,
    is_taken: impl Fn(&WorkerAddress) -> bool,
) -> Result<WorkerProcess, LaunchError> {
    let spec = &blueprint.spec;
    let ids = (slot_index.slot, generation);
    let endpoint = WorkerEndpoint::prepare(&spec.sockets, &blueprint.folder, ids, is_taken)
        .map_err(LaunchError::Endpoint)?;
    let wants_notify = spec.readiness == Readiness::Notify || spec.watchdog.is_some();
    let notify = wants_notify
        .then(|| {
            let path = blueprint.folder.notify(generation);
            NotifySocket::bind(path, blueprint.identity.as_ref()).map_err(LaunchError::Notify)
        })
        .transpose()?;

    let descriptors = endpoint.descriptors(&spec.sockets, slot_index.slot);
    let record = endpoint.record(&spec.sockets);
    let mut values = values(blueprint, slot_index.slot, &endpoint, descriptors.len());
    values.extend(spec.jobs.iter().flat_map(|jobs| jobs.variables(worker_values)));
    let mut environment = environment(blueprint, &values, notify.as_ref(), &descriptors)?;
    environment.extend(record.into_iter().flat_map(|(_, index)| busy(descriptors.len(), index)));
    let arguments = arguments(blueprint, &values)?;
    let program = arguments[0].clone();
    let has_listen_fds = environment.contains_key(OsStr::new(LISTEN_FDS));
    let image = image(arguments, environment, has_listen_fds);
    let mut descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|(_, fd)| *fd).collect();
    descriptors.extend(record.map(|(records, _)| records.as_fd()));
    let spawned = spawn(blueprint, image, &descriptors);
    let (pid, pidfd, pipe) = spawned.map_err(|error| failure(program, spec, error))?;
    let name = blueprint.worker_name(slot_index.slot);
    let output = WorkerOutput::new(pipe, &name, pid.as_raw_pid());
    Ok(WorkerProcess {
        slot_index,
        name,
        pid,
        pidfd,
        output,
        notify,
        endpoint,
        started_at: now,
        kill_reason: None,
        stop_signal: spec.stop_signal,
        dump_signal: spec.dump.map(|dump| dump.signal),
    })
}

/// The variable with the number of passed descriptors (`sd_listen_fds(3)`).
const LISTEN_FDS: &str = "LISTEN_FDS";

fn values(
    blueprint: &Blueprint,
    index: usize,
    endpoint: &WorkerEndpoint,
    descriptors: usize,
) -> Values {
    let mut values = endpoint.values(descriptors);
    values.insert(INDEX.to_owned(), vec![index.to_string()]);
    values.insert(NAME.to_owned(), vec![blueprint.worker_name(index)]);
    values.extend(blueprint.spec.variables.clone());
    values
}

/// Returns the variables for the record of the worker's load. Its descriptor follows those that the
/// worker listens on.
fn busy(descriptors: usize, index: usize) -> [(OsString, OsString); 2] {
    let number = FIRST_DESCRIPTOR.unsigned_abs() as usize + descriptors;
    let variable = |name: &str, value: usize| (name.into(), value.to_string().into());
    [variable(FD_VARIABLE, number), variable(INDEX_VARIABLE, index)]
}

/// Expands the command. An empty list is an error: there is no program to start.
fn arguments(blueprint: &Blueprint, values: &Values) -> Result<Vec<String>, LaunchError> {
    let mut arguments = Vec::new();
    for template in &blueprint.command {
        arguments.extend(template.expand_arguments(values).map_err(LaunchError::Placeholder)?);
    }
    if arguments.is_empty() {
        arguments.push(String::new());
    }
    Ok(arguments)
}

fn environment(
    blueprint: &Blueprint,
    values: &Values,
    notify: Option<&NotifySocket>,
    descriptors: &[(&str, BorrowedFd<'_>)],
) -> Result<ProcessEnvironment, LaunchError> {
    // systemd's variables for the parent are not passed on to workers.
    let mut environment: ProcessEnvironment = std::env::vars_os()
        .filter(|(name, _)| !RESERVED.iter().any(|reserved| OsStr::new(reserved) == name))
        .collect();
    let mut set = |name: &str, value: OsString| environment.insert(name.into(), value);
    for (name, value) in blueprint.identity.iter().flat_map(login_variables) {
        set(name, value.into());
    }
    if !descriptors.is_empty() && !blueprint.names_descriptors() {
        let names: Vec<&str> = descriptors.iter().map(|(name, _)| *name).collect();
        set(LISTEN_FDS, descriptors.len().to_string().into());
        set("LISTEN_FDNAMES", names.join(":").into());
    }
    if let Some(notify) = notify {
        set("NOTIFY_SOCKET", notify.path().into());
    }
    if let Some(watchdog) = blueprint.spec.watchdog {
        set("WATCHDOG_USEC", watchdog.as_micros().to_string().into());
    }
    for (name, value) in &blueprint.environment {
        set(name, value.expand(values).map_err(LaunchError::Placeholder)?.into());
    }
    Ok(environment)
}

/// Returns the variables that a login would set.
fn login_variables(identity: &Identity) -> Vec<(&'static str, String)> {
    let name = identity.name.as_ref();
    let known = [("HOME", identity.home.as_ref()), ("USER", name), ("LOGNAME", name)];
    known.into_iter().filter_map(|(variable, value)| Some((variable, value?.clone()))).collect()
}

/// Returns the paths where the program may be. One with a `/` is a path relative to the worker's
/// folder, as are the folders of `PATH`.
fn program_candidates(program: &str, environment: &ProcessEnvironment) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![PathBuf::from(program)];
    }
    let path = environment.get(OsStr::new("PATH")).cloned();
    let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
}

fn image(arguments: Vec<String>, environment: ProcessEnvironment, with_listen_pid: bool) -> Image {
    let program_candidates = program_candidates(&arguments[0], &environment);
    let programs = program_candidates
        .into_iter()
        .map(|slot_index| text(slot_index.into_os_string().into_vec()));
    let environment = environment.into_iter().map(|(name, value)| {
        let mut entry = name.into_vec();
        entry.push(b'=');
        entry.extend_from_slice(value.as_bytes());
        text(entry)
    });
    let arguments = arguments.into_iter().map(|argument| text(argument.into_bytes()));
    let arguments = arguments.collect();
    Image::new(programs.collect(), arguments, environment.collect(), with_listen_pid)
}

fn failure(program: String, spec: &GroupSpec, error: io::Error) -> LaunchError {
    if error.kind() == io::ErrorKind::NotFound && !program.contains('/') {
        return LaunchError::NotFound { program };
    }
    let folder = spec.folder.as_deref().unwrap_or(Path::new("."));
    LaunchError::Start { program, folder: folder.display().to_string(), error }
}

/// Converts to a C string. The check rejects NUL bytes and the system's own texts have none. A NUL
/// from a path ends the text there, as it would for the kernel.
fn text(mut bytes: Vec<u8>) -> CString {
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    CString::new(bytes).unwrap_or_default()
}

type Spawned = (Pid, std::os::fd::OwnedFd, std::os::fd::OwnedFd);

fn spawn(
    blueprint: &Blueprint,
    image: Image,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<Spawned> {
    let (pipe, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&pipe, true)?;
    // This name is not used: the image determines what is executed.
    let mut command = Command::new("worker");
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    if let Some(folder) = &blueprint.spec.folder {
        command.current_dir(folder);
    }
    system::hand_over(&mut command, descriptors);
    let launch = Launch {
        descriptors: descriptors.len(),
        limits: blueprint.limits.clone(),
        identity: blueprint.identity.clone(),
        death_signal: blueprint.spec.stop_signal.0,
        image,
    };
    system::exec_by_hand(&mut command, launch);
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid, pidfd, pipe)),
        Err(error) => {
            // Without a pidfd it could not be supervised.
            child.kill()?;
            child.wait()?;
            Err(error.into())
        }
    }
}

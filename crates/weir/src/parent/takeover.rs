//! The new program's side of an upgrade: it continues in the process of the earlier one.

use std::os::fd::{AsFd, RawFd};
use std::time::Duration;

use anyhow::{Context, bail};
use weir_supervisor::Supervisor;
use weir_supervisor::carried::CarriedSupervisor;
use weir_supervisor::requests::Requests;

use super::applied_settings::AppliedSettings;
use super::listeners::Listeners;
use super::shared_sockets::Groups;
use super::upgrade::{Carried, Program};
use super::{Handover, Lock, Parent, finish, handover, lock, notify, service_spec, workers};
use crate::logging;
use weir_cli::Exit;
use weir_config::{Loaded, environment};

/// Checks whether this program could continue from the state in the descriptor with the current
/// settings.
pub(crate) fn check(handover: &Handover, descriptor: RawFd) -> anyhow::Result<Exit> {
    let carried = Carried::read(descriptor)?;
    check_settings(handover, &carried)?;
    Ok(Exit::Fine)
}

/// Returns the settings if this program can continue with them.
fn check_settings(
    handover: &Handover,
    carried: &Carried<CarriedSupervisor>,
) -> anyhow::Result<Loaded> {
    let loaded = load(handover, carried)?;
    let settings = &loaded.settings;
    let only = handover.only(settings)?;
    Listeners::check(settings, &only, &carried.addresses)?;
    Groups::check(settings, &only, &carried.shared)?;
    workers::make_run_folder(settings)?;
    Ok(loaded)
}

/// Continues from an earlier program. `fresh` are the current settings.
pub(crate) fn resume(fresh: Handover, descriptor: RawFd) -> anyhow::Result<Exit> {
    let requests = Requests::signals().context("cannot receive signals")?;
    let mut carried = Carried::read(descriptor)?;
    let mut bound = carried.state.descriptors()?;
    let text = bound.remove(handover::DESCRIPTOR).context("the settings are missing")?;
    let text = handover::SettingsFile::resume(text);
    let lock = Lock::resume(bound.remove(lock::DESCRIPTOR).context("the lock is missing")?);
    // The check has just passed. If it fails now, there is no way back: continue with the service's
    // settings and the existing sockets.
    let (loaded, changed) = match check_settings(&fresh, &carried) {
        Ok(loaded) => (loaded, None),
        Err(error) => (load(&carried.handover, &carried)?, Some(error)),
    };
    let settings = &loaded.settings;
    let only = &fresh.only(settings)?;
    let listeners = Listeners::resume(settings, only, &carried.addresses, &mut bound)?;
    let shared = Groups::bind(settings, only, Duration::ZERO, |name| bound.remove(name))?;
    // Closes sockets at addresses that are no longer configured.
    drop(bound);
    let log = logging::start(&settings.log, fresh.flags.is_coloured);
    if let Some(error) = changed {
        tracing::error!(
            "cannot read the changed settings, the previous ones stay in effect: {error:#}"
        );
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "took over from the previous program");
    let ready_line = listeners.ready_line() + &shared.ready_words();
    let addresses = listeners.urls().into_iter().chain(shared.urls()).collect();
    let service = service_spec(settings, listeners, &shared, &lock, &text)?;
    let groups = workers::groups(settings, only, &shared)?;
    // Unused sockets of an earlier program are closed here.
    drop(carried.state.listening()?);
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    let inputs = (requests, notify()?, stderr);
    let run_folder = workers::make_run_folder(settings)?;
    let supervisor = {
        let groups = (groups, workers::limits(settings));
        Supervisor::resume(carried.state, service, groups, &run_folder, inputs)?
    };
    let mut parent = Parent {
        handover: Handover { flags: fresh.flags, ..carried.handover },
        previous: None,
        applied: AppliedSettings::from_settings(settings),
        program: Program::running()?,
        text,
        log,
        ready_line,
        addresses,
    };
    let supervisor = supervisor.adopting_orphans()?;
    let deadline = settings.supervisor.replace_deadline;
    let outcome = supervisor.replacing_service_within(deadline).run(&mut parent);
    Ok(finish(&outcome, settings, lock))
}

fn load(handover: &Handover, carried: &Carried<CarriedSupervisor>) -> anyhow::Result<Loaded> {
    let loaded = handover.load(&environment::variable)?;
    let (now, previous) = (&loaded.settings.data_dir, &carried.data_dir);
    if now != previous {
        let (now, previous) = (now.display(), previous.display());
        bail!(
            "data_dir changed from {previous} to {now}; stop Weir and start it again to apply that"
        );
    }
    Ok(loaded)
}

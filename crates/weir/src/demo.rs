//! `weir demo`: starts `weir up` in a folder of its own and the load of weir-demo beside it, and ends both.
//!
//! - [`folder`]: settings, log and data, and their removal.
//! - [`child`]: the process of `weir up`.
//! - [`welcome`]: the addresses that are printed, and what to try.

mod child;
mod folder;
mod welcome;

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::bail;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use weir_base::shutdown::ShutdownToken;
use weir_cli::{DemoArguments, Exit, output};
use weir_demo::{LoadEvent, LoadSettings, load};

use self::child::WeirProcess;
use self::folder::DemoFolder;
use self::welcome::Addresses;
use crate::run::raise_open_files;

/// Runs until Ctrl-C.
pub(crate) fn run(arguments: DemoArguments) -> anyhow::Result<Exit> {
    raise_open_files();
    // Removed at the end, after the process that uses it.
    let folder = DemoFolder::create(arguments.data_dir.as_deref())?;
    folder.write_settings(&arguments.config()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut stop = StopSignals::new()?;
        let secret = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let mut weir = WeirProcess::start(&folder, &secret)?;
        let served = Box::pin(serve(&arguments, &folder, secret, &mut weir, &mut stop)).await;
        weir.stop(stop.received()).await?;
        served
    })?;
    output::raw(&farewell(folder, arguments.json));
    Ok(ended)
}

/// Removes a temporary folder. Returns what is printed last.
fn farewell(folder: DemoFolder, is_json: bool) -> String {
    let path = folder.path.clone();
    drop(folder);
    let (shown, is_removed) = (path.display(), !path.exists());
    if is_json {
        return format!("{}\n", json!({ "stopped": { "folder": path, "is_removed": is_removed } }));
    }
    match is_removed {
        true => format!("Weir has stopped. Its folder {shown} is removed.\n"),
        false => format!("Weir has stopped. Its folder {shown} is kept.\n"),
    }
}

/// Starts the load once Weir serves.
async fn serve(
    arguments: &DemoArguments,
    folder: &DemoFolder,
    secret: String,
    weir: &mut WeirProcess,
    stop: &mut StopSignals,
) -> anyhow::Result<Exit> {
    let ready_line = tokio::select! {
        ready_line = weir.ready_line() => ready_line?,
        () = stop.received() => return Ok(Exit::Fine),
    };
    let addresses = Addresses::parse(&ready_line, folder)?;
    output::raw(&addresses.welcome(arguments, &secret));
    let settings = LoadSettings {
        jobs: addresses.jobs,
        front: addresses.front,
        admin: addresses.admin.clone(),
        secret,
        clients: arguments.clients,
        every: Duration::from_secs(arguments.every),
        has_autopilot: arguments.postgres.is_some(),
    };
    let (shutdown, unread) = (ShutdownToken::new(), Notify::new());
    let mut load = Box::pin(load::run(settings, shutdown.clone(), |event| {
        if output::try_raw(&line(event, arguments.json)).is_err() {
            unread.notify_one();
        }
    }));
    let ended: Option<ExitStatus> = tokio::select! {
        // It ends only when it is asked to.
        () = &mut load => return Ok(Exit::Fine),
        () = stop.received() => None,
        // `weir demo | head`: no one reads what else would be printed.
        () = unread.notified() => None,
        status = weir.ended() => Some(status?),
    };
    shutdown.request();
    load.await;
    if let Some(status) = ended {
        bail!("Weir ended by itself ({status}):\n{}", weir.last_lines());
    }
    Ok(Exit::Fine)
}

fn line(event: &LoadEvent, is_json: bool) -> String {
    match (event, is_json) {
        (LoadEvent::Report(report), false) => format!("{report}\n"),
        (LoadEvent::Flood(flood), false) => format!("\n{flood}\n\n"),
        (LoadEvent::End(demo), false) => format!("\n{demo}\n\n"),
        (LoadEvent::Report(report), true) => format!("{}\n", json!(report)),
        (LoadEvent::Flood(flood), true) => format!("{}\n", json!({ "flood_summary": flood })),
        (LoadEvent::End(demo), true) => format!("{}\n", json!({ "summary": demo })),
    }
}

/// Ctrl-C, and the other requests to end.
#[derive(Debug)]
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves at the next of them.
    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

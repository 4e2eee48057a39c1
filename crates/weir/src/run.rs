//! The lifecycle of the service process.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use weir_supervisor::inherited::{ChildStatus, Inherited};

use crate::compose::{Lingering, UnexpectedEnd, Unopened, Weir};
use crate::health_reporter::HealthReporter;
use crate::logging::{self, OwnOutput};
use crate::parent::Handover;
use crate::reload::Reload;
use weir_cli::Exit;
use weir_config::environment;

/// Why the service ends.
#[derive(Debug)]
enum StopReason {
    /// SIGTERM, SIGINT: drain.
    Requested,
    /// SIGUSR1: another service process has taken over.
    Replaced,
    /// The parent is gone: end at once, since a new one may need the data directory.
    Orphaned,
    /// A part ended by itself; the parent restarts the service.
    Broken(String),
}

/// The sources of requests to end.
struct StopRequests {
    terminate: Signal,
    interrupt: Signal,
    replaced: Signal,
    parent: pipe::Receiver,
    /// The parent's own log, and what writes to it once there is no parent.
    last_log: Option<(File, OwnOutput)>,
}

/// Runs the service until it is asked to end.
pub(crate) fn run() -> anyhow::Result<Exit> {
    let text = environment::inherited().context("this command is started by `weir up` only")?;
    let mut inherited = Inherited::take_over(&text)?;
    let mut settings_file = File::from(inherited.expect(crate::parent::DESCRIPTOR)?);
    let handover = Handover::receive(&mut settings_file)?;
    let loaded = handover.load(&environment::variable)?;
    let log = logging::start(&loaded.settings.log, handover.flags.is_coloured);
    raise_open_files();
    let status = inherited.status()?;
    let life = inherited.life_pipe()?;
    let last_log = File::from(inherited.expect(crate::parent::LOG)?);
    let last_log = (last_log, log.own_output());

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut stop_requests = StopRequests::new(life, last_log)?;
        let hangup = signal(SignalKind::hangup())?;
        let close_streams = signal(SignalKind::user_defined2())?;
        let interval = loaded.settings.supervisor.alive_interval;
        let mut health = HealthReporter::new(status, interval);
        let only = handover.only(&loaded.settings)?;
        let (mut weir, unopened) = Weir::prepare(&loaded.settings, &only, inherited).await?;
        let mut reload = Reload { hangup, settings_file, loaded, log };
        let ended =
            open_and_serve(&mut weir, unopened, &mut stop_requests, &mut health, &mut reload).await;
        match &ended {
            Ok(end) => tracing::info!(?end, "ending"),
            // Realtime may serve already: its clients are told to reconnect.
            Err(_) => tracing::info!("shutting down: the start failed"),
        }
        let deadline = reload.loaded.settings.shutdown_deadline;
        let mut signals = (reload.hangup, close_streams);
        let stopped = match ended {
            Ok(StopReason::Replaced) => {
                let lingering = Box::pin(linger(weir, deadline, &mut stop_requests, &mut signals));
                health.run_until(lingering).await
            }
            Ok(StopReason::Orphaned) => health.run_until(weir.stop(Duration::ZERO)).await,
            _ => health.run_until(weir.stop(deadline)).await,
        };
        // The reason for the end takes precedence over errors of the shutdown.
        let end = ended?;
        stopped?;
        Ok::<_, anyhow::Error>(end)
    })?;
    // A store that is still being opened has acknowledged nothing, so its thread is not waited for.
    runtime.shutdown_background();
    match ended {
        StopReason::Requested | StopReason::Replaced | StopReason::Orphaned => Ok(Exit::Fine),
        StopReason::Broken(why) => bail!("{why}"),
    }
}

/// Raises the soft limit of open files to the hard limit, since the system's default is low.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Opens the store and serves until the end. Waiting for the previous process and opening the store
/// may take long, so a request to end interrupts them.
async fn open_and_serve(
    weir: &mut Weir,
    mut unopened: Unopened,
    stop_requests: &mut StopRequests,
    health: &mut HealthReporter,
    reload: &mut Reload,
) -> anyhow::Result<StopReason> {
    let settings = &reload.loaded.settings;
    let opening = async {
        weir.serve(settings, &mut unopened, || health.send(ChildStatus::Standby)).await?;
        weir.open(settings, unopened).await
    };
    tokio::select! {
        opened = opening => opened?,
        end = stop_requests.next() => return Ok(end),
    }
    health.send(ChildStatus::Ready);
    Ok(serve(weir, stop_requests, health, reload).await)
}

/// Serves from readiness until the end.
async fn serve(
    weir: &mut Weir,
    stop_requests: &mut StopRequests,
    health: &mut HealthReporter,
    reload: &mut Reload,
) -> StopReason {
    loop {
        tokio::select! {
            end = stop_requests.next() => return end,
            UnexpectedEnd(why) = weir.unexpected_end() => return StopReason::Broken(why),
            _ = reload.hangup.recv() => {
                if reload.run(weir).await {
                    health.send(ChildStatus::Reloaded);
                }
            }
            () = health.next_tick() => tokio::select! {
                // A part that hangs must not delay the end.
                end = stop_requests.next() => return end,
                () = health.check(weir) => {}
            }
        }
    }
}

/// Serves the existing connections until they end, or until another reason to end.
async fn linger(
    weir: Weir,
    deadline: Duration,
    stop_requests: &mut StopRequests,
    (hangup, close_streams): &mut (Signal, Signal),
) -> anyhow::Result<()> {
    let token = CancellationToken::new;
    let lingering = Lingering { close_streams: token(), stop: token(), at_once: token(), deadline };
    let (signals_to_weir, reopen_logs) = (lingering.clone(), weir.log_reopener());
    let mut ending = Box::pin(weir.linger(lingering));
    loop {
        tokio::select! {
            ended = &mut ending => return ended,
            _ = close_streams.recv() => signals_to_weir.close_streams.cancel(),
            _ = hangup.recv() => reopen_logs(),
            end = stop_requests.next() => match end {
                StopReason::Orphaned => {
                    signals_to_weir.at_once.cancel();
                    return ending.await;
                }
                // Already known.
                StopReason::Replaced => {}
                _ => signals_to_weir.stop.cancel(),
            }
        }
    }
}

impl StopRequests {
    fn new(life: OwnedFd, last_log: (File, OwnOutput)) -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            replaced: signal(SignalKind::user_defined1())?,
            parent: pipe::Receiver::from_owned_fd(life)?,
            last_log: Some(last_log),
        })
    }

    /// Resolves when the service must end.
    async fn next(&mut self) -> StopReason {
        tokio::select! {
            _ = self.terminate.recv() => StopReason::Requested,
            _ = self.interrupt.recv() => StopReason::Requested,
            _ = self.replaced.recv() => StopReason::Replaced,
            // The parent never writes: readable means that it closed its end.
            _ = self.parent.readable() => {
                self.note_parents_end();
                StopReason::Orphaned
            }
        }
    }

    /// Logs the end of the parent, which wrote the log of this process until now.
    fn note_parents_end(&mut self) {
        let Some((log, own_output)) = self.last_log.take() else { return };
        own_output.set(log);
        tracing::error!("the parent process has ended: shutting down");
    }
}

//! The service process, from its start to its end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use weir_supervisor::inherited::{Inherited, Word};

use crate::alive::Alive;
use crate::compose::{Joined, Lingering, Unopened, Weir};
use crate::logging;
use crate::parent::Handover;
use crate::reload::Reload;
use weir_cli::Exit;
use weir_config::environment;

/// Why the service ends.
#[derive(Debug)]
enum End {
    /// SIGTERM, SIGINT: drain.
    Asked,
    /// SIGUSR1: another service process has taken over.
    Replaced,
    /// The parent is gone: a new one may want the folder, so end at once.
    Orphaned,
    /// A part ended by itself; starting again is the parent's business.
    Broken(String),
}

/// Where the wish to end comes from.
struct Wishes {
    terminate: Signal,
    interrupt: Signal,
    replaced: Signal,
    parent: pipe::Receiver,
}

/// Runs until told to end.
pub(crate) fn run() -> anyhow::Result<Exit> {
    let text = environment::inherited().context("this command is started by `weir up` only")?;
    let mut inherited = Inherited::take_over(&text)?;
    let mut settings_file = File::from(inherited.expect(crate::parent::DESCRIPTOR)?);
    let handover = Handover::receive(&mut settings_file)?;
    let loaded = handover.load(&environment::variable)?;
    let log = logging::start(&loaded.settings.log, handover.flags.is_coloured);
    raise_open_files();
    let status = inherited.status()?;
    let life = inherited.life()?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut wishes = Wishes::listen_to(life)?;
        let hangup = signal(SignalKind::hangup())?;
        let close_streams = signal(SignalKind::user_defined2())?;
        let interval = loaded.settings.supervisor.alive_interval;
        let mut alive = Alive::new(status, interval);
        let only = handover.only(&loaded.settings)?;
        let (mut weir, unopened) = Weir::prepare(&loaded.settings, &only, inherited).await?;
        let mut reload = Reload { hangup, settings_file, loaded, log };
        let ended = open_and_serve(&mut weir, unopened, &mut wishes, &mut alive, &mut reload).await;
        match &ended {
            Ok(end) => tracing::info!(?end, "ending"),
            // Realtime may serve already: its clients are told to come back.
            Err(_) => tracing::info!("shutting down: the start failed"),
        }
        let deadline = reload.loaded.settings.shutdown_deadline;
        let mut signals = (reload.hangup, close_streams);
        let stopped = match ended {
            Ok(End::Replaced) => {
                let lingering = Box::pin(linger(weir, deadline, &mut wishes, &mut signals));
                alive.until(lingering).await
            }
            Ok(End::Orphaned) => alive.until(weir.stop(Duration::ZERO)).await,
            _ => alive.until(weir.stop(deadline)).await,
        };
        // Why it ends matters more than how.
        let end = ended?;
        stopped?;
        Ok::<_, anyhow::Error>(end)
    })?;
    // A store that is still being opened has promised nothing: nobody waits for its thread.
    runtime.shutdown_background();
    match ended {
        End::Asked | End::Replaced | End::Orphaned => Ok(Exit::Fine),
        End::Broken(why) => bail!("{why}"),
    }
}

/// Systems start processes with a low limit of open files and allow more to who asks.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Everything that happens between the preparations and the end. To wait for the process before, and
/// to open the store, may take long; whoever wants an end meanwhile gets it.
async fn open_and_serve(
    weir: &mut Weir,
    mut unopened: Unopened,
    wishes: &mut Wishes,
    alive: &mut Alive,
    reload: &mut Reload,
) -> anyhow::Result<End> {
    let settings = &reload.loaded.settings;
    let opening = async {
        weir.serve(settings, &mut unopened, || alive.say(Word::Standby)).await?;
        weir.open(settings, unopened).await
    };
    tokio::select! {
        opened = opening => opened?,
        end = wishes.end() => return Ok(end),
    }
    alive.say(Word::Ready);
    Ok(serve(weir, wishes, alive, reload).await)
}

/// Everything that happens between ready and the end.
async fn serve(
    weir: &mut Weir,
    wishes: &mut Wishes,
    alive: &mut Alive,
    reload: &mut Reload,
) -> End {
    loop {
        tokio::select! {
            end = wishes.end() => return end,
            Joined(why) = weir.joined() => return End::Broken(why),
            _ = reload.hangup.recv() => {
                if reload.run(weir).await {
                    alive.say(Word::Reloaded);
                }
            }
            () = alive.due() => tokio::select! {
                // Nobody who wants an end waits for a part that hangs.
                end = wishes.end() => return end,
                () = alive.tell(weir) => {}
            }
        }
    }
}

/// Serves the connections that there are until they end, or somebody wants something else.
async fn linger(
    weir: Weir,
    deadline: Duration,
    wishes: &mut Wishes,
    (hangup, close_streams): &mut (Signal, Signal),
) -> anyhow::Result<()> {
    let token = CancellationToken::new;
    let lingering = Lingering { close_streams: token(), stop: token(), at_once: token(), deadline };
    let (told, reopen_logs) = (lingering.clone(), weir.log_reopener());
    let mut ending = Box::pin(weir.linger(lingering));
    loop {
        tokio::select! {
            ended = &mut ending => return ended,
            _ = close_streams.recv() => told.close_streams.cancel(),
            _ = hangup.recv() => reopen_logs(),
            end = wishes.end() => match end {
                End::Orphaned => {
                    told.at_once.cancel();
                    return ending.await;
                }
                // It knows.
                End::Replaced => {}
                _ => told.stop.cancel(),
            }
        }
    }
}

impl Wishes {
    fn listen_to(life: OwnedFd) -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            replaced: signal(SignalKind::user_defined1())?,
            parent: pipe::Receiver::from_owned_fd(life)?,
        })
    }

    /// Resolves when it is time to end.
    async fn end(&mut self) -> End {
        tokio::select! {
            _ = self.terminate.recv() => End::Asked,
            _ = self.interrupt.recv() => End::Asked,
            _ = self.replaced.recv() => End::Replaced,
            // Nobody ever writes: readable means that the other end is closed.
            _ = self.parent.readable() => End::Orphaned,
        }
    }
}

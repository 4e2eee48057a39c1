//! The phases of one connection: greeting, HELLO, commands, close.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use super::error::FaktoryError;
use super::hello::{Hello, greeting};
use super::password::Challenge;
use super::session::FaktorySession;
use super::signal::Signal;
use super::wire::{CloseReason, LineLimits, Wire};
use crate::metrics::JobServerLimit;
use crate::model::Wid;
use crate::server::JobService;
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::Store;
use crate::workers::{ConnectionEnd, HelloOutcome, Profile, TooManyWorkers};

/// Whether a new connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Serve,
    /// The connection is rejected after its HELLO because there are too many.
    Reject,
}

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct FaktoryClient {
    pub(crate) address: IpAddr,
    /// `None` for a producer.
    pub(crate) wid: Option<Wid>,
    pub(crate) signal: Rc<Signal>,
    /// How the connection ends, as far as the client has said.
    pub(crate) end: Cell<ConnectionEnd>,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<S: Store, IO: AsyncRead + AsyncWrite + Unpin>(
    service: Rc<JobService<S>>,
    io: IO,
    address: IpAddr,
    signal: Rc<Signal>,
    admission: Admission,
) {
    let mut wire = Wire::new(io, Rc::clone(&service.buffers), Rc::clone(&signal));
    let client = FaktoryClient { address, wid: None, signal, end: Cell::default() };
    let end = run_session(&service, &mut wire, client, admission).await;
    let Err(end) = end else { return };
    let limits = &service.settings().limits;
    match end {
        CloseReason::Silent => {
            // Send the replies to earlier commands. Errors are ignored, since the client may be
            // gone.
            if wire.send(limits.write_timeout).await.is_ok() {
                wire.finish(limits.write_timeout).await;
            }
        }
        CloseReason::Rejected(error) => {
            if let Some(limit) = error.limit() {
                service.metrics.limit_hit(limit);
            }
            tracing::debug!(%address, refusal = %error, "connection closed");
            wire.replies.error(&error);
            if wire.send(limits.write_timeout).await.is_ok() {
                wire.close(limits.linger_timeout).await;
            }
        }
        CloseReason::Limit(limit) => {
            service.metrics.limit_hit(limit);
            tracing::debug!(%address, limit = limit.name(), "connection closed");
            // A client that does not read can't receive an orderly close.
            if limit != JobServerLimit::WriteTimeout {
                wire.finish(limits.write_timeout).await;
            }
        }
        CloseReason::Io(error) => tracing::debug!(%address, %error, "connection lost"),
    }
}

async fn run_session<S: Store, IO: AsyncRead + AsyncWrite + Unpin>(
    service: &Rc<JobService<S>>,
    wire: &mut Wire<IO>,
    mut client: FaktoryClient,
    admission: Admission,
) -> Result<(), CloseReason> {
    let settings = service.settings();
    let challenge = settings.password.as_ref().map(|_| Challenge::draw());
    let hello_timeout = settings.limits.hello_timeout;
    let hello = timeout(hello_timeout, handshake(wire, challenge.as_ref(), &settings)).await;
    let hello = hello.map_err(|_| CloseReason::Limit(JobServerLimit::HelloTimeout))??;
    if admission == Admission::Reject {
        wire.replies.simple("OK");
        return Err(FaktoryError::TooManyConnections.into());
    }
    if let Some(challenge) = challenge {
        check_password(service, &client, challenge, &hello, &settings).await?;
    }
    if let Some(wid) = &hello.wid {
        register(service, wid, &client, hello.profile, &settings.limits)?;
    }
    wire.replies.simple("OK");
    client.wid = hello.wid;
    // The session holds no settings while it is idle, because they may be reloaded.
    drop(settings);
    let result = FaktorySession::new(Rc::clone(service), &client).run(wire).await;
    if let Some(wid) = &client.wid {
        service.workers.borrow_mut().disconnect(wid, &client.signal, client.end.get());
    }
    result
}

async fn handshake<IO: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<IO>,
    challenge: Option<&Challenge>,
    settings: &JobServerSettings,
) -> Result<Hello, CloseReason> {
    let limits = &settings.limits;
    let announced_batch_max = settings.announce_batch.then_some(limits.batch_jobs_max);
    wire.replies.simple(&greeting(challenge, announced_batch_max));
    wire.send(limits.hello_timeout).await?;
    let line_limits = LineLimits {
        bytes_max: limits.hello_bytes_max,
        limit: JobServerLimit::HelloBytesMax,
        buffered_bytes_max: limits.buffered_bytes_max,
        // The caller limits the time of the whole greeting.
        timeout: Duration::MAX,
    };
    let line = wire.line(line_limits).await?;
    let hello = Hello::parse(&line, limits).ok_or(CloseReason::Silent)?;
    Ok(hello?)
}

/// Checks the password of a HELLO. Every kind of wrong password gets the same error. After many
/// wrong ones, each check for that address is delayed.
async fn check_password<S: Store>(
    service: &JobService<S>,
    client: &FaktoryClient,
    challenge: Challenge,
    hello: &Hello,
    settings: &JobServerSettings,
) -> Result<(), CloseReason> {
    let Some(password) = settings.password.clone() else {
        return Ok(());
    };
    let limits = &settings.limits;
    let address = client.address;
    let _slot = service
        .password_checks
        .try_enter(limits.password_checks_max)
        .ok_or(FaktoryError::PasswordChecks(address))?;
    let wrong = service.wrong_passwords.borrow().count(address, service.clock.now());
    if wrong >= limits.wrong_passwords_max {
        service.metrics.limit_hit(JobServerLimit::WrongPasswordsMax);
        sleep(limits.wrong_password_delay).await;
    }
    let (version, proof) = (hello.version, hello.password_hash.clone());
    // Thousands of rounds of SHA-256 would block every connection on this thread.
    let check = tokio::task::spawn_blocking(move || challenge.proves(&password, version, &proof));
    if check.await.unwrap_or(false) {
        return Ok(());
    }
    tracing::warn!(%address, "wrong password");
    service.wrong_passwords.borrow_mut().add(address, service.clock.now());
    Err(FaktoryError::InvalidPassword.into())
}

fn register<S: Store>(
    service: &JobService<S>,
    wid: &Wid,
    client: &FaktoryClient,
    profile: Profile,
    limits: &JobServerLimits,
) -> Result<(), FaktoryError> {
    let max = limits.workers_max;
    let (signal, now) = (Rc::clone(&client.signal), service.clock.now());
    let hello = service.workers.borrow_mut().hello(wid, profile, signal, now, max);
    match hello {
        Ok(HelloOutcome::Registered) => Ok(()),
        Ok(HelloOutcome::Replaced(end)) => {
            service.owe_release(wid.clone(), end);
            Ok(())
        }
        Err(TooManyWorkers) => Err(FaktoryError::TooManyWorkers { max }),
    }
}

/// Rejects a connection immediately, if there are too many even to wait for HELLO.
pub(crate) async fn reject_immediately<IO: AsyncWrite + Unpin>(
    mut io: IO,
    reason: &str,
    limit: Duration,
) {
    use tokio::io::AsyncWriteExt as _;
    let text = format!("-ERR {reason}\r\n");
    let rejecting = async {
        io.write_all(text.as_bytes()).await?;
        io.shutdown().await
    };
    // Best effort: the client may not read the error.
    let _ = timeout(limit, rejecting).await;
}

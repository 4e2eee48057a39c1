//! Runs the commands of one connection in the order in which they arrive.

use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::buffers::Buffer;
use super::connection::FaktoryClient;
use super::error::FaktoryError;
use super::fetch::NamedQueues;
use super::lines::{CompleteLines, FaktoryCommand};
use super::replies::{FaktoryReply, SEND_BYTES};
use super::signal::SignalLevel;
use super::wire::{CloseReason, LineLimits, Wire};
use super::{ack, batch, beat, fail, fetch, flush, info, job_batch, mutate, push, queue, track};
use crate::metrics::{CommandResult, FaktoryVerb, JobServerLimit};
use crate::server::JobService;
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::Store;
use crate::workers::ConnectionEnd;

/// Processes a client's commands after HELLO.
#[derive(Debug)]
pub(crate) struct FaktorySession<'c, S> {
    pub(super) service: Rc<JobService<S>>,
    pub(super) client: &'c FaktoryClient,
    pub(super) named_queues: NamedQueues,
}

impl<'c, S: Store> FaktorySession<'c, S> {
    pub(crate) fn new(service: Rc<JobService<S>>, client: &'c FaktoryClient) -> Self {
        Self { service, client, named_queues: NamedQueues::default() }
    }

    /// Runs commands until the connection ends.
    pub(crate) async fn run<IO: AsyncRead + AsyncWrite + Unpin>(
        mut self,
        wire: &mut Wire<IO>,
    ) -> Result<(), CloseReason> {
        loop {
            let settings = self.service.settings();
            wire.send(settings.limits.write_timeout).await?;
            let line_limits = line_limits(&settings.limits);
            drop(settings);
            let arrived = wire.lines(line_limits).await?;
            self.run_commands(wire, arrived).await?;
            if self.client.signal.order() == SignalLevel::Close {
                return Err(CloseReason::Silent);
            }
        }
    }

    async fn run_commands<IO: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        wire: &mut Wire<IO>,
        arrived: Buffer,
    ) -> Result<(), CloseReason> {
        let settings = self.service.settings();
        let mut arrived = Some(arrived);
        let mut consumed = 0;
        while let Some(bytes) = &arrived {
            let mut lines = CompleteLines::of(&bytes[consumed..]);
            let Some(line) = lines.next() else { break };
            check_length(line, &settings.limits)?;
            let command = FaktoryCommand::parse(line);
            if matches!(command.verb, FaktoryVerb::Fetch | FaktoryVerb::Fetchb) {
                let verb = command.verb;
                let job_count = self.read_fetch(command, &settings.limits);
                consumed = bytes.len() - lines.bytes_left();
                if consumed == bytes.len() {
                    // A FETCH may wait for long, so release its buffer.
                    arrived = None;
                }
                self.fetch(wire, &settings, verb, job_count).await?;
            } else {
                self.run_command(wire, &settings, command, &mut lines).await?;
                consumed = bytes.len() - lines.bytes_left();
            }
            if wire.replies.bytes().len() > SEND_BYTES {
                wire.send(settings.limits.write_timeout).await?;
            }
            // Let other tasks run during a long pipeline.
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    /// Stores the queues of a FETCH or a FETCHB. Returns the number of jobs requested.
    fn read_fetch(
        &mut self,
        command: FaktoryCommand<'_>,
        limits: &JobServerLimits,
    ) -> Result<usize, FaktoryError> {
        let (jobs, queues) = match command.verb {
            FaktoryVerb::Fetchb => fetch::split_count(command.rest, limits)?,
            _ => (1, command.rest),
        };
        let is_changed = self.named_queues.read(queues, limits)?;
        if is_changed && let Some(wid) = &self.client.wid {
            let queues = self.named_queues.queues();
            let mut workers = self.service.workers.borrow_mut();
            workers.record_queues(wid, &self.client.signal, queues, limits.worker_queues_max);
        }
        Ok(jobs)
    }

    async fn fetch<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<IO>,
        settings: &JobServerSettings,
        verb: FaktoryVerb,
        job_count: Result<usize, FaktoryError>,
    ) -> Result<(), CloseReason> {
        let reply = match job_count {
            Ok(jobs) if verb == FaktoryVerb::Fetchb => {
                fetch::fetchb(self, wire, settings, jobs).await?
            }
            Ok(_) => fetch::fetch(self, wire, settings).await?,
            Err(error) => Err(error),
        };
        self.reply(wire, verb, reply);
        Ok(())
    }

    /// Runs one command, or consecutive ones that the store handles as a batch.
    async fn run_command<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<IO>,
        settings: &JobServerSettings,
        command: FaktoryCommand<'_>,
        lines: &mut CompleteLines<'_>,
    ) -> Result<(), CloseReason> {
        let (verb, reporter) = (command.verb, self.client.wid.as_ref());
        let reply = match verb {
            FaktoryVerb::Push => return self.push_batch(wire, settings, command.rest, lines).await,
            FaktoryVerb::Ack => return self.ack_batch(wire, command.rest, lines).await,
            FaktoryVerb::End => {
                self.count(verb, CommandResult::Ok);
                self.client.end.set(ConnectionEnd::Orderly);
                return Err(CloseReason::Silent);
            }
            FaktoryVerb::Pushb => push::pushb(&self.service, settings, command.rest).await,
            FaktoryVerb::Ackb => batch::ackb(&self.service, reporter, settings, command.rest).await,
            FaktoryVerb::Fail => fail::fail(&self.service, reporter, command.rest).await,
            FaktoryVerb::Failb => {
                batch::failb(&self.service, reporter, settings, command.rest).await
            }
            FaktoryVerb::Beat => beat::beat(&self.service, command.rest),
            FaktoryVerb::Info => info::info(&self.service).await,
            FaktoryVerb::Flush => flush::flush(&self.service, settings).await,
            FaktoryVerb::Queue => queue::queue(&self.service, settings, command.rest).await,
            FaktoryVerb::Mutate => mutate::mutate(&self.service, settings, command.rest).await,
            FaktoryVerb::Track => track::track(&self.service, &settings.limits, command.rest).await,
            FaktoryVerb::Batch => job_batch::batch(&self.service, settings, command.rest).await,
            // FETCH and FETCHB never get here: their queues are stored before their line is
            // released.
            FaktoryVerb::Unknown | FaktoryVerb::Fetch | FaktoryVerb::Fetchb => {
                Err(FaktoryError::unknown_command(command.verb_text))
            }
        };
        self.reply(wire, verb, reply);
        Ok(())
    }

    async fn push_batch<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<IO>,
        settings: &JobServerSettings,
        first: &[u8],
        lines: &mut CompleteLines<'_>,
    ) -> Result<(), CloseReason> {
        let mut following = std::iter::from_fn(|| lines.next_if(FaktoryVerb::Push)).peekable();
        if following.peek().is_none() {
            let reply = push::push(&self.service, settings, first).await;
            self.reply(wire, FaktoryVerb::Push, reply);
            return Ok(());
        }
        let run =
            std::iter::once(first).chain(following.map(|line| FaktoryCommand::parse(line).rest));
        for reply in push::push_batch(&self.service, settings, run).await {
            self.reply(wire, FaktoryVerb::Push, reply);
        }
        Ok(())
    }

    async fn ack_batch<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<IO>,
        first: &[u8],
        lines: &mut CompleteLines<'_>,
    ) -> Result<(), CloseReason> {
        let mut following = std::iter::from_fn(|| lines.next_if(FaktoryVerb::Ack)).peekable();
        if following.peek().is_none() {
            let reply = ack::ack(&self.service, self.client.wid.as_ref(), first).await;
            self.reply(wire, FaktoryVerb::Ack, reply);
            return Ok(());
        }
        let run =
            std::iter::once(first).chain(following.map(|line| FaktoryCommand::parse(line).rest));
        for reply in ack::ack_batch(&self.service, self.client.wid.as_ref(), run).await {
            self.reply(wire, FaktoryVerb::Ack, reply);
        }
        Ok(())
    }

    /// Writes the reply and counts the command.
    fn reply<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<IO>,
        verb: FaktoryVerb,
        reply: Result<FaktoryReply, FaktoryError>,
    ) {
        match reply {
            Ok(reply) => {
                self.count(
                    verb,
                    if reply.is_empty() { CommandResult::Empty } else { CommandResult::Ok },
                );
                wire.replies.reply(&reply);
            }
            Err(error) => {
                self.count(verb, CommandResult::Error);
                if let Some(limit) = error.limit() {
                    self.service.metrics.limit_hit(limit);
                }
                wire.replies.error(&error);
            }
        }
    }

    fn count(&self, verb: FaktoryVerb, result: CommandResult) {
        self.service.metrics.command(verb, result);
        self.service.commands_total.set(self.service.commands_total.get() + 1);
    }
}

/// Returns an error if a line is too long. Lines that arrive complete in one buffer may be.
fn check_length(line: &[u8], limits: &JobServerLimits) -> Result<(), FaktoryError> {
    let max = limits.line_bytes_max;
    if line.len() <= max {
        return Ok(());
    }
    Err(FaktoryError::LineTooLong { max, limit: JobServerLimit::LineBytesMax })
}

fn line_limits(limits: &JobServerLimits) -> LineLimits {
    LineLimits {
        bytes_max: limits.line_bytes_max,
        limit: JobServerLimit::LineBytesMax,
        buffered_bytes_max: limits.buffered_bytes_max,
        timeout: limits.line_timeout,
    }
}

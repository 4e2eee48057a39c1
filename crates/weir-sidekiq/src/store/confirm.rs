//! Pushes that are acknowledged only after the disk of Redis, or replicas, have them.
//!
//! `WAIT` and `WAITAOF` block their connection and cover the writes of that connection alone. So these
//! pushes have connections of their own, and each connection confirms a group of pushes with one
//! wait; pushes that arrive meanwhile form the next group. Workers may get a job before it is
//! confirmed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::join_all;
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::StoreError;

use super::RedisStoreOptions;
use super::confirm_command::{ConfirmCommand, ConfirmRefusal};
use super::link::RedisLink;
use super::push_call::{PushCall, PushReply, is_cut};
use super::store_core::StoreCore;

type PushOutcome = Result<PushReply, StoreError>;

/// The pushes that wait for their group, and the connections that take one.
#[derive(Debug)]
pub(super) struct ConfirmedPushes {
    /// `None`: pushes are acknowledged once they are in the memory of Redis.
    command: Option<ConfirmCommand>,
    /// Of the Redis, for messages.
    name: String,
    group_jobs_max: usize,
    unconfirmed_jobs_max: usize,
    state: RefCell<ConfirmState>,
}

#[derive(Debug, Default)]
struct ConfirmState {
    waiting: VecDeque<WaitingPush>,
    /// Jobs that wait, and those that Redis is confirming.
    jobs: usize,
    idle: Vec<ConfirmLink>,
}

#[derive(Debug)]
struct WaitingPush {
    call: PushCall,
    reply: oneshot::Sender<PushOutcome>,
}

/// A connection for one group at a time.
#[derive(Debug)]
struct ConfirmLink {
    redis: RedisLink,
    /// Its server confirms pushes.
    is_checked: bool,
}

impl ConfirmedPushes {
    pub(super) fn new(options: &RedisStoreOptions, unconfirmed_jobs_max: usize) -> Self {
        let settings = &options.settings.confirm;
        let link = || {
            // The wait is a command, too.
            let command_timeout = options.settings.command_timeout + settings.timeout;
            let redis = RedisLink::new(
                options.endpoint.clone(),
                options.settings.connect_timeout,
                command_timeout,
                options.settings.retry_wait_max,
            );
            ConfirmLink { redis, is_checked: false }
        };
        let links = if settings.is_on() { settings.connections } else { 0 };
        let idle = std::iter::repeat_with(link).take(links).collect();
        Self {
            command: settings.is_on().then(|| ConfirmCommand::new(settings)),
            name: options.endpoint.to_string(),
            group_jobs_max: settings.group_jobs_max,
            unconfirmed_jobs_max,
            state: RefCell::new(ConfirmState { idle, ..ConfirmState::default() }),
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.command.is_some()
    }

    /// Returns why this server can never confirm pushes, if so.
    pub(super) async fn lasting_refusal(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Option<String> {
        let refusal = self.command?.refusal(connection).await.ok().flatten()?;
        refusal.is_lasting.then_some(refusal.text)
    }

    /// Adds a push, unless too many wait.
    fn enter(&self, call: PushCall) -> Option<oneshot::Receiver<PushOutcome>> {
        let mut state = self.state.borrow_mut();
        // A single push may have more than the limit.
        if state.jobs > 0 && state.jobs + call.jobs() > self.unconfirmed_jobs_max {
            return None;
        }
        state.jobs += call.jobs();
        let (reply, outcome) = oneshot::channel();
        state.waiting.push_back(WaitingPush { call, reply });
        Some(outcome)
    }

    /// Returns an idle connection if a push waits.
    fn next_link(&self) -> Option<ConfirmLink> {
        let mut state = self.state.borrow_mut();
        if state.waiting.is_empty() { None } else { state.idle.pop() }
    }

    /// Returns the next group: one push, or several with at most `group_jobs_max` jobs.
    fn next_group(&self) -> Vec<WaitingPush> {
        let mut state = self.state.borrow_mut();
        let (mut group, mut jobs) = (Vec::new(), 0);
        while let Some(push) = state.waiting.front() {
            jobs += push.call.jobs();
            if jobs > self.group_jobs_max && !group.is_empty() {
                break;
            }
            group.extend(state.waiting.pop_front());
        }
        group
    }

    fn finish(&self, group: Vec<WaitingPush>, outcomes: Vec<PushOutcome>) {
        for (push, outcome) in group.into_iter().zip(outcomes) {
            self.state.borrow_mut().jobs -= push.call.jobs();
            // The client may have gone.
            let _ = push.reply.send(outcome);
        }
    }
}

impl StoreCore {
    /// Stores the jobs of a push and waits until they are confirmed.
    pub(super) async fn push_confirmed(self: &Rc<Self>, call: PushCall) -> PushOutcome {
        let Some(outcome) = self.confirmed.enter(call) else {
            self.metrics.limit_hit(JobServerLimit::UnconfirmedJobsMax);
            let (max, setting) =
                (self.confirmed.unconfirmed_jobs_max, JobServerLimits::UNCONFIRMED_JOBS_MAX);
            let text =
                format!("too many pushes wait to be confirmed: at most {max} jobs ({setting})");
            return Err(StoreError::Unavailable(text));
        };
        while let Some(link) = self.confirmed.next_link() {
            tokio::task::spawn_local(Rc::clone(self).confirm_groups(link));
        }
        outcome.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Tells doctor what this node waits for.
    pub(super) async fn publish_confirmation(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        let text = ConfirmCommand::describe(self.confirmed.command);
        let written = connection.set(self.keys.push_confirmation(), text).await;
        written.map_err(|error| self.link.failed(&error))
    }

    /// Takes groups until no push waits.
    async fn confirm_groups(self: Rc<Self>, mut link: ConfirmLink) {
        loop {
            let group = self.confirmed.next_group();
            if group.is_empty() {
                self.confirmed.state.borrow_mut().idle.push(link);
                return;
            }
            let outcomes = self.confirm_group(&mut link, &group).await;
            self.confirmed.finish(group, outcomes);
        }
    }

    async fn confirm_group(
        &self,
        link: &mut ConfirmLink,
        group: &[WaitingPush],
    ) -> Vec<PushOutcome> {
        let Some(command) = self.confirmed.command else { return Vec::new() };
        let mut connection = match link.checked(command).await {
            Ok(connection) => connection,
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut outcomes = self.write_group(link, &connection, group).await;
        if outcomes.iter().all(Result::is_err) {
            return outcomes;
        }
        self.kick();
        let began = Instant::now();
        let name = &self.confirmed.name;
        let error = match command.wait(&mut connection).await {
            Ok(missing) => missing.map(|missing| format!("Redis {name}: {missing}")),
            Err(error) => Some(link.failed(&error).to_string()),
        };
        self.metrics.observe_sync(began.elapsed().as_secs_f64());
        if let Some(text) = error {
            for (outcome, push) in outcomes.iter_mut().zip(group) {
                if outcome.is_ok() {
                    *outcome = Err(push.call.uncertain(&text));
                }
            }
        }
        outcomes
    }

    /// Runs the pushes of a group.
    async fn write_group(
        &self,
        link: &mut ConfirmLink,
        connection: &MultiplexedConnection,
        group: &[WaitingPush],
    ) -> Vec<PushOutcome> {
        let runs = group.iter().map(|push| {
            let mut connection = connection.clone();
            async move { push.call.run(&self.scripts.push, &mut connection).await }
        });
        // A broken connection is one error, whatever the number of pushes.
        let mut cut: Option<StoreError> = None;
        let outcomes = join_all(runs).await.into_iter().zip(group).map(|(ran, push)| {
            ran.map_err(|error| {
                if !is_cut(&error) {
                    return link.failed(&error);
                }
                let failed = cut.get_or_insert_with(|| link.failed(&error)).clone();
                push.call.failed(&error, failed)
            })
        });
        outcomes.collect()
    }
}

impl ConfirmLink {
    /// Returns the connection, once its server has been found to confirm pushes.
    async fn checked(
        &mut self,
        command: ConfirmCommand,
    ) -> Result<MultiplexedConnection, StoreError> {
        let mut connection = self.redis.connection().await?;
        if !self.is_checked {
            let refusal = command.refusal(&mut connection).await;
            let refusal = refusal.map_err(|error| self.failed(&error))?;
            if let Some(ConfirmRefusal { text, .. }) = refusal {
                let text = format!("it can't confirm pushes ({text}); job not stored");
                return Err(self.redis.lost(text));
            }
            self.is_checked = true;
        }
        Ok(connection)
    }

    fn failed(&mut self, error: &redis::RedisError) -> StoreError {
        // The next connection may lead to another server.
        self.is_checked = false;
        self.redis.failed(error)
    }
}

//! The pushes that wait to be confirmed, and the connections that confirm a group of them at a time.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::oneshot;
use weir_jobs::store::StoreError;
use weir_redis::RedisEndpoint;

use super::confirm_command::{ConfirmCommand, ConfirmRefusal};
use super::link::RedisLink;
use super::link_connection::LinkConnection;
use super::push_call::{PushCall, PushReply};
use super::settings::RedisStoreSettings;

pub(super) type PushOutcome = Result<PushReply, StoreError>;

/// The pushes that wait for their group, and the connections that take one.
#[derive(Debug)]
pub(super) struct ConfirmedPushes {
    /// `None`: pushes are acknowledged once they are in the memory of Redis.
    pub(super) command: Option<ConfirmCommand>,
    /// Of the Redis, for messages.
    pub(super) name: String,
    group_jobs_max: usize,
    pub(super) unconfirmed_jobs_max: usize,
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
pub(super) struct WaitingPush {
    pub(super) call: PushCall,
    reply: oneshot::Sender<PushOutcome>,
}

/// A connection for one group at a time.
#[derive(Debug)]
pub(super) struct ConfirmLink {
    pub(super) redis: RedisLink,
    /// Its server confirms pushes.
    is_checked: bool,
}

impl ConfirmedPushes {
    pub(super) fn new(
        endpoint: &RedisEndpoint,
        store: &RedisStoreSettings,
        unconfirmed_jobs_max: usize,
    ) -> Self {
        let settings = &store.confirm;
        let link = || {
            // The wait is a command, too.
            let command_timeout = store.command_timeout + settings.timeout;
            let store = RedisStoreSettings { command_timeout, ..store.clone() };
            ConfirmLink { redis: RedisLink::of_store(endpoint, &store), is_checked: false }
        };
        let links = if settings.is_on() { settings.connections } else { 0 };
        let idle = std::iter::repeat_with(link).take(links).collect();
        Self {
            command: settings.is_on().then(|| ConfirmCommand::new(settings)),
            name: endpoint.to_string(),
            group_jobs_max: settings.group_jobs_max,
            unconfirmed_jobs_max,
            state: RefCell::new(ConfirmState { idle, ..ConfirmState::default() }),
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.command.is_some()
    }

    /// Returns why this server can never confirm pushes, if so.
    pub(super) async fn lasting_refusal(&self, connection: &mut LinkConnection) -> Option<String> {
        let refusal = self.command?.refusal(connection).await.ok().flatten()?;
        refusal.is_lasting.then_some(refusal.text)
    }

    /// Adds a push, unless too many wait.
    pub(super) fn enter(&self, call: PushCall) -> Option<oneshot::Receiver<PushOutcome>> {
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
    pub(super) fn next_link(&self) -> Option<ConfirmLink> {
        let mut state = self.state.borrow_mut();
        if state.waiting.is_empty() { None } else { state.idle.pop() }
    }

    /// Returns the next group: one push, or several with at most `group_jobs_max` jobs.
    pub(super) fn next_group(&self) -> Vec<WaitingPush> {
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

    /// Takes a connection back that has no group.
    pub(super) fn release(&self, link: ConfirmLink) {
        self.state.borrow_mut().idle.push(link);
    }

    pub(super) fn finish(&self, group: Vec<WaitingPush>, outcomes: Vec<PushOutcome>) {
        for (push, outcome) in group.into_iter().zip(outcomes) {
            self.state.borrow_mut().jobs -= push.call.jobs();
            // The client may have gone.
            let _ = push.reply.send(outcome);
        }
    }
}

impl ConfirmLink {
    /// Returns the connection, once its server has been found to confirm pushes.
    pub(super) async fn checked(
        &mut self,
        command: ConfirmCommand,
    ) -> Result<LinkConnection, StoreError> {
        let mut connection = self.redis.connection().await?;
        if !self.is_checked {
            let refusal = command.refusal(&mut connection).await;
            let refusal = refusal.map_err(|error| self.failed(&error))?;
            if let Some(ConfirmRefusal { text, .. }) = refusal {
                let text = format!("it can't confirm pushes ({text}); job not stored");
                return Err(self.redis.rejected(text));
            }
            self.is_checked = true;
        }
        Ok(connection)
    }

    pub(super) fn failed(&mut self, error: &redis::RedisError) -> StoreError {
        // The next connection may lead to another server.
        self.is_checked = false;
        self.redis.failed(error)
    }
}

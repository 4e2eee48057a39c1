//! Pushes that are acknowledged only after the disk of Redis, or replicas, have them.
//!
//! `WAIT` and `WAITAOF` block their connection and cover the writes of that connection alone. So these
//! pushes have connections of their own, and each connection confirms a group of pushes with one
//! wait; pushes that arrive meanwhile form the next group. Workers may get a job before it is
//! confirmed.

use std::rc::Rc;

use futures_util::future::join_all;
use redis::AsyncCommands as _;
use tokio::time::Instant;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::StoreError;

use super::confirm_command::ConfirmCommand;
use super::confirmed_pushes::{ConfirmLink, PushOutcome, WaitingPush};
use super::link_connection::LinkConnection;
use super::push_call::{PushCall, is_cut};
use super::store_core::StoreCore;

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
        connection: &mut LinkConnection,
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
                self.confirmed.release(link);
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
        // A primary that was replaced may still confirm what it is about to lose.
        link.redis.follow(&self.link);
        let mut connection = match link.checked(command).await {
            Ok(connection) => connection,
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut outcomes = self.write_group(link, &connection, group).await;
        if outcomes.iter().all(Result::is_err) {
            return outcomes;
        }
        self.wake_waiting_fetches();
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
        connection: &LinkConnection,
        group: &[WaitingPush],
    ) -> Vec<PushOutcome> {
        let runs = group.iter().map(|push| {
            let mut connection = connection.clone();
            async move { push.call.run(&self.scripts, &mut connection).await }
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

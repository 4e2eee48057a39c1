//! Jobs that were reserved and not delivered return to their queues.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::model::QueueName;
use weir_jobs::rules;
use weir_jobs::store::StoreError;

use super::handover::GiveBack;
use super::link_connection::LinkConnection;
use super::settlement::Settlement;
use super::store_core::StoreCore;

/// The age at which a count of kills starts again.
pub(super) const COUNT_AGE_MAX: Duration = rules::KILLS_AGE_MAX;
/// Jobs that one script returns.
pub(super) const RETURNED_PER_SCRIPT_MAX: usize = 25;

impl GiveBack for StoreCore {
    /// Ends reservations at once. Their jobs return before the next operation, or when the store's
    /// task comes to it.
    fn give_back(&self, numbers: &[u64]) {
        let mut state = self.state.borrow_mut();
        for number in numbers {
            // A job that its worker has lost meanwhile is not this FETCH's any more.
            if let Some(reservation) = state.reservations.remove(*number) {
                state.undelivered.push((reservation.queue, *number));
            }
        }
        drop(state);
        self.work_arrived.notify_one();
    }
}

impl StoreCore {
    /// Returns the jobs that were given back to their queues.
    pub(super) async fn return_undelivered(
        &self,
        connection: &LinkConnection,
    ) -> Result<(), StoreError> {
        if self.state.borrow().undelivered.is_empty() && self.returning.try_lock().is_ok() {
            return Ok(());
        }
        let _guard = self.returning.lock().await;
        let undelivered = std::mem::take(&mut self.state.borrow_mut().undelivered);
        let mut queues: BTreeMap<QueueName, Vec<u64>> = BTreeMap::new();
        for (queue, number) in undelivered {
            queues.entry(queue).or_default().push(number);
        }
        for (queue, numbers) in queues {
            let jobs: Vec<_> = numbers.iter().map(|number| (*number, "")).collect();
            let moved = self.put_back(&mut connection.clone(), &queue, &jobs).await;
            if let Err(error) = moved {
                let numbers = numbers.into_iter().map(|number| (queue.clone(), number));
                self.state.borrow_mut().undelivered.extend(numbers);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts this node's reserved jobs back to where they are served next, the lowest number first.
    /// Counts the return of those with a jid.
    pub(super) async fn put_back(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        jobs: &[(u64, &str)],
    ) -> Result<(), StoreError> {
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        let mut jobs: Vec<_> = jobs.iter().map(|(number, jid)| (*number, *jid)).collect();
        jobs.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        let fields: Vec<_> =
            jobs.iter().map(|(number, jid)| (owner.field(*number), (*jid).to_owned())).collect();
        for step in fields.chunks(RETURNED_PER_SCRIPT_MAX) {
            let moved =
                self.return_fields(connection, queue.as_str(), Settlement::default(), step).await?;
            let moved = moved.into_iter().filter(|is_moved| *is_moved).count() as u64;
            self.count_traffic(queue, |traffic| traffic.added += moved);
        }
        Ok(())
    }

    /// Puts reserved jobs back, the last one to be served first. Each has its id and its jid, or no
    /// jid if its return does not count. Returns which were moved.
    pub(super) async fn return_fields(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        by: Settlement<'_>,
        fields: &[(String, String)],
    ) -> Result<Vec<bool>, StoreError> {
        let mut invocation = self.scripts.give_back.key(self.keys.reserved(queue));
        let list = self.keys.list(queue);
        invocation.key(&list).key(self.lease_key(&list)).key(self.kills_key(queue));
        self.add_queues_key(&mut invocation);
        invocation.arg(queue).arg(by.victim).arg(by.token);
        invocation.arg(self.seconds_argument()).arg(COUNT_AGE_MAX.as_secs());
        for (field, jid) in fields {
            invocation.arg(field).arg(jid);
        }
        let moved: Result<Vec<u8>, _> = invocation.invoke_async(connection).await;
        let moved = moved.map_err(|error| self.link.failed(&error))?;
        if moved.contains(&1) {
            self.add_queues(connection, &[queue]).await?;
        }
        Ok(moved.into_iter().map(|moved| moved == 1).collect())
    }
}

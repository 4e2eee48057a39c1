//! Jobs that were reserved and not delivered return to their queues.

use std::collections::BTreeMap;
use weir_jobs::model::QueueName;
use weir_jobs::store::StoreError;

use super::handover::GiveBack;
use super::link_connection::LinkConnection as MultiplexedConnection;
use super::store_core::StoreCore;

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
        connection: &MultiplexedConnection,
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
            let moved = self.put_back(&mut connection.clone(), &queue, &numbers).await;
            if let Err(error) = moved {
                let numbers = numbers.into_iter().map(|number| (queue.clone(), number));
                self.state.borrow_mut().undelivered.extend(numbers);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts this node's reserved jobs back to where they are served next, the lowest number first.
    /// Returns, in descending order of the numbers, which were still there.
    pub(super) async fn put_back(
        &self,
        connection: &mut MultiplexedConnection,
        queue: &QueueName,
        numbers: &[u64],
    ) -> Result<Vec<bool>, StoreError> {
        let Some(owner) = self.owner.borrow().clone() else { return Ok(Vec::new()) };
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let fields: Vec<String> = numbers.iter().map(|number| owner.field(*number)).collect();
        self.put_fields_back(connection, queue.as_str(), "", &fields).await
    }

    /// Puts reserved jobs back, the last one to be served first. With an `owner`, only if its lease
    /// is over.
    pub(super) async fn put_fields_back(
        &self,
        connection: &mut MultiplexedConnection,
        queue: &str,
        owner: &str,
        fields: &[String],
    ) -> Result<Vec<bool>, StoreError> {
        let mut invocation = self.scripts.give_back.key(self.keys.reserved(queue));
        invocation.key(self.keys.list(queue)).key(self.keys.queues()).key(self.keys.nodes());
        invocation.arg(queue).arg(owner).arg(fields);
        let moved: Result<Vec<u8>, _> = invocation.invoke_async(connection).await;
        let moved = moved.map_err(|error| self.link.failed(&error))?;
        Ok(moved.into_iter().map(|moved| moved == 1).collect())
    }
}

//! Which jobs were pushed before.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_jobs::model::NewJob;
use weir_jobs::store::StoreError;

use super::push_memory;
use super::store_core::StoreCore;

impl StoreCore {
    /// Returns which of these jobs, whose targets are queues, the push memory knows.
    pub(super) async fn known_pushes(
        self: &Rc<Self>,
        jobs: &[NewJob<'_>],
    ) -> Result<Vec<bool>, StoreError> {
        let mut known = vec![false; jobs.len()];
        if !self.push_memory.is_on() || jobs.is_empty() {
            return Ok(known);
        }
        let mut connection = self.ready().await?;
        let mut queues: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, job) in jobs.iter().enumerate() {
            queues.entry(job.queue).or_default().push(place);
        }
        for (queue, places) in queues {
            let marks: Vec<_> = places.iter().map(|it| push_memory::mark(&jobs[*it])).collect();
            for half in self.keys.pushed(&self.keys.list(queue)) {
                let found = redis::cmd("SMISMEMBER").arg(half).arg(&marks).clone();
                let found = found.query_async::<Vec<bool>>(&mut connection).await;
                let found = found.map_err(|error| self.link.failed(&error))?;
                places.iter().zip(found).for_each(|(place, is_known)| known[*place] |= is_known);
            }
        }
        Ok(known)
    }
}

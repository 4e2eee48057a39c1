//! The names of queues in Redis. Others add any number of them, so all reads are bounded by
//! `queues_max`.

use std::collections::BTreeSet;

use super::blocked_names;
use super::link_connection::LinkConnection;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::QueueName;
use weir_jobs::store::StoreError;

use super::store_core::StoreCore;

/// Names that are read at once, more or less.
const NAMES_PER_STEP: usize = 1_000;

/// One step through a set of names.
#[derive(Debug)]
struct NamesPage {
    cursor: u64,
    names: Vec<Vec<u8>>,
}

impl StoreCore {
    /// Returns the queues in Sidekiq's set that Weir can serve. Of more than `queues_max`, those that
    /// this node has used, and some others.
    pub(super) async fn visible_queues(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<BTreeSet<QueueName>, StoreError> {
        let (names, is_complete) = self.bounded_names(connection, self.keys.queues()).await?;
        let mut queues = self.parsed_names(&names);
        if !is_complete {
            self.note_too_many_queues();
            queues.extend(self.used_queues(connection).await?);
        }
        Ok(queues)
    }

    /// Returns the queues that may have reservations, those that somebody has deleted included.
    pub(super) async fn reserving_queues(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<BTreeSet<QueueName>, StoreError> {
        self.named_queues(connection, self.keys.reserving()).await
    }

    /// Returns the names in a set of Weir's own.
    pub(super) async fn named_queues(
        &self,
        connection: &mut LinkConnection,
        key: String,
    ) -> Result<BTreeSet<QueueName>, StoreError> {
        let (names, _) = self.bounded_names(connection, key).await?;
        Ok(self.parsed_names(&names))
    }

    /// Returns all queues that Weir may have to look at.
    pub(super) async fn all_queues(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<BTreeSet<QueueName>, StoreError> {
        let mut queues = self.visible_queues(connection).await?;
        queues.extend(self.reserving_queues(connection).await?);
        Ok(queues)
    }

    /// Returns whether each of `names` is in Sidekiq's set, and the size of the set.
    pub(super) async fn are_queues(
        &self,
        connection: &mut LinkConnection,
        names: &[&str],
    ) -> Result<(Vec<bool>, usize), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SMISMEMBER").arg(self.keys.queues()).arg(names);
        pipeline.scard(self.keys.queues());
        let reply = pipeline.query_async(connection).await;
        reply.map_err(|error| self.link.failed(&error))
    }

    /// Returns up to `queues_max` members of a set, more or less, and whether these are all. A key of
    /// another type has none.
    async fn bounded_names(
        &self,
        connection: &mut LinkConnection,
        key: String,
    ) -> Result<(BTreeSet<Vec<u8>>, bool), StoreError> {
        let (mut names, mut cursor) = (BTreeSet::new(), 0);
        loop {
            let page = self.names_page(connection, &key, cursor).await?;
            names.extend(page.names);
            if page.cursor == 0 {
                return Ok((names, true));
            }
            if names.len() >= self.limits.queues_max {
                return Ok((names, false));
            }
            cursor = page.cursor;
        }
    }

    async fn names_page(
        &self,
        connection: &mut LinkConnection,
        key: &str,
        cursor: u64,
    ) -> Result<NamesPage, StoreError> {
        let mut command = redis::cmd("SSCAN");
        command.arg(key).arg(cursor).arg("COUNT").arg(NAMES_PER_STEP);
        let page: Result<(u64, Vec<Vec<u8>>), _> = command.query_async(connection).await;
        match page {
            Ok((cursor, names)) => Ok(NamesPage { cursor, names }),
            Err(error) if error.code() == Some("WRONGTYPE") => {
                Ok(NamesPage { cursor: 0, names: Vec::new() })
            }
            Err(error) => Err(self.link.failed(&error)),
        }
    }

    fn parsed_names(&self, names: &BTreeSet<Vec<u8>>) -> BTreeSet<QueueName> {
        let parse = |name: &Vec<u8>| {
            let name = String::from_utf8_lossy(name);
            if let Some(list) =
                blocked_names::split_name(&name).and(blocked_names::parse_name(&name))
            {
                return Some(list);
            }
            let parsed = QueueName::parse(&name, &self.limits);
            if parsed.is_err() && self.state.borrow_mut().note_invalid_name(&name) {
                tracing::warn!(
                    queue = &*name,
                    "Weir does not serve this queue: use letters, digits, '.', '_' and '-' only"
                );
            }
            parsed.ok()
        };
        names.iter().filter_map(parse).collect()
    }

    /// Returns the queues that this node has used and that are still in Sidekiq's set.
    async fn used_queues(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<Vec<QueueName>, StoreError> {
        let max = self.limits.queues_max;
        let used: Vec<QueueName> = self.state.borrow().queues.keys().take(max).cloned().collect();
        if used.is_empty() {
            return Ok(used);
        }
        let names: Vec<&str> = used.iter().map(QueueName::as_str).collect();
        let (visible, _) = self.are_queues(connection, &names).await?;
        Ok(used.into_iter().zip(visible).filter(|(_, it)| *it).map(|(queue, _)| queue).collect())
    }

    fn note_too_many_queues(&self) {
        self.metrics.limit_hit(JobServerLimit::QueuesMax);
        let is_first = !std::mem::replace(&mut self.state.borrow_mut().has_too_many_queues, true);
        if is_first {
            tracing::warn!(
                max = self.limits.queues_max,
                "Redis has more names of queues than are read (jobs.limits.advanced.queues_max): \
                 figures are incomplete; delete unused queues there"
            );
        }
    }
}

//! Returns the jobs of nodes whose lease is over to their queues.
//!
//! Every node does so at its own pace. A step checks in Redis that the owner's lease is over, that
//! the lease of the node that returns the jobs is alive, and that each job is still reserved: two
//! nodes, or one that was stopped in between, move no job twice.
//!
//! Reservations are read in bounded steps, and only if a lease has ended or once in the time of a
//! lease.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use weir_jobs::model::QueueName;
use weir_jobs::store::StoreError;
use weir_jobs::tracks::TrackState;

use super::link_connection::LinkConnection;
use super::owner::parse_field;
use super::prune::Unused;
use super::settlement::Settlement;
use super::store_core::StoreCore;
use super::stored::StoredText;
use super::undelivered::{RETURNED_PER_SCRIPT_MAX, ReturningField, ReturningJob};

/// Reservations that one script reads, more or less.
const READ_PER_SCRIPT: usize = 100;
/// Jobs of one queue that are returned in one pass. The next pass returns the others.
const RETURNED_PER_PASS_MAX: usize = 100_000;
/// Leases that are read. An owner beyond them counts as dead until a script checks its lease.
const LEASES_READ_MAX: isize = 10_000;
/// Every so many passes read all reservations, also if no lease has ended.
const FULL_PASS_EVERY: u64 = 12;

/// Redis' time, and the end of each owner's lease.
type LeasesReply = ((f64, f64), Vec<(Vec<u8>, f64)>);

/// All owners with a lease.
#[derive(Debug, Default)]
struct Leases {
    alive: BTreeSet<String>,
    ended: BTreeSet<String>,
}

/// Reserved jobs of one queue that nobody runs any more, by number.
#[derive(Debug, Default)]
struct OrphanedJobs {
    /// Of this node: the reply to the script that reserved them was lost.
    own: BTreeSet<u64>,
    by_owner: BTreeMap<String, BTreeSet<u64>>,
    is_empty_queue: bool,
}

impl StoreCore {
    /// Returns orphaned jobs if there may be any.
    pub(super) async fn reap_if_needed(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        self.return_unlimited(connection).await?;
        let has_ended = !self.leases(connection).await?.ended.is_empty();
        let is_full_pass = {
            let mut state = self.state.borrow_mut();
            state.reap_passes += 1;
            std::mem::take(&mut state.reply_lost)
                || state.reap_passes.is_multiple_of(FULL_PASS_EVERY)
        };
        if has_ended || is_full_pass {
            self.reap(connection).await
        } else {
            self.prune(connection, &Unused::default()).await
        }
    }

    /// Returns the jobs of all owners without a lease, and those that this node has reserved without
    /// knowing it, because the reply to a script was lost.
    pub(super) async fn reap(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let known_below = self.settled_below();
        let leases = self.leases(connection).await?;
        let mut unused = Unused { owners: leases.ended.clone(), ..Unused::default() };
        let mut failed = None;
        let moved = self.end_left_moves(connection, |owner| leases.alive.contains(owner)).await;
        failed = failed.or(moved.err());
        let queues = match self.is_split() {
            // A node may have stopped before it noted the name of a queue.
            true => self.all_queues(connection).await?,
            false => self.reserving_queues(connection).await?,
        };
        for queue in queues {
            match self.reap_queue(connection, &queue, &leases, known_below).await {
                Ok(orphaned) if orphaned.is_empty_queue => unused.queues.push(queue),
                Ok(orphaned) => {
                    unused.owners.retain(|it| !orphaned.by_owner.contains_key(it));
                    unused.in_use.push(queue);
                }
                Err(error) if self.link.absence_text().is_some() => return Err(error),
                // A key of another type stops no other queue.
                Err(error) => {
                    tracing::warn!(%queue, %error, "reserved jobs can't be returned");
                    failed = Some(error);
                }
            }
        }
        if failed.is_some() {
            unused.owners.clear();
        }
        self.prune(connection, &unused).await?;
        failed.map_or(Ok(()), Err)
    }

    /// Returns a number: all jobs below it that this node has reserved are in its table, unless the
    /// reply was lost.
    fn settled_below(&self) -> u64 {
        self.rounds.reserving_from().unwrap_or_else(|| self.state.borrow().next_number)
    }

    /// Returns whether another node's lease is alive, which has not stopped in order.
    pub(super) async fn has_other_nodes(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<bool, StoreError> {
        let own = self.token()?;
        let stopped = connection.hgetall(self.clean_key()).await;
        let stopped: BTreeMap<String, String> =
            stopped.map_err(|error| self.link.failed(&error))?;
        let stopped: BTreeSet<String> =
            stopped.into_iter().map(|(node, epoch)| format!("{node}-{epoch}")).collect();
        let alive = self.leases(connection).await?.alive;
        Ok(alive.iter().any(|owner| *owner != own && !stopped.contains(owner)))
    }

    async fn leases(&self, connection: &mut LinkConnection) -> Result<Leases, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("TIME");
        pipeline.zrange_withscores(self.nodes_key(), 0, LEASES_READ_MAX - 1);
        let reply = pipeline.query_async(connection).await;
        let ((seconds, _), mut owners): LeasesReply =
            reply.map_err(|error| self.link.failed(&error))?;
        if self.is_split() {
            // Where they were before this Redis was used with slots.
            let earlier = connection.zrange_withscores(self.keys.nodes(), 0, LEASES_READ_MAX - 1);
            let earlier: Vec<_> = earlier.await.map_err(|error| self.link.failed(&error))?;
            owners.extend(earlier);
        }
        let mut leases = Leases::default();
        for (owner, end) in owners {
            // Any other text is no owner.
            if let Ok(owner) = String::from_utf8(owner) {
                let leases = if end > seconds { &mut leases.alive } else { &mut leases.ended };
                leases.insert(owner);
            }
        }
        Ok(leases)
    }

    /// Returns the orphaned jobs of one queue. Returns those that there were.
    async fn reap_queue(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        queue: &QueueName,
        leases: &Leases,
        known_below: u64,
    ) -> Result<OrphanedJobs, StoreError> {
        let orphaned = self.orphaned_jobs(connection, queue, leases, known_below).await?;
        let own = orphaned.own.iter();
        let own = own.map(|number| ReturningJob { number: *number, jid: "", lock: None });
        self.put_back(connection, queue, own.collect()).await?;
        for (owner, numbers) in &orphaned.by_owner {
            // The one to be served first returns last.
            let numbers: Vec<u64> = numbers.iter().rev().copied().collect();
            for step in numbers.chunks(RETURNED_PER_SCRIPT_MAX) {
                self.reap_step(connection, queue, owner, step).await?;
            }
        }
        Ok(orphaned)
    }

    async fn orphaned_jobs(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        leases: &Leases,
        known_below: u64,
    ) -> Result<OrphanedJobs, StoreError> {
        let own = self.token()?;
        let mut orphaned = OrphanedJobs { is_empty_queue: true, ..OrphanedJobs::default() };
        let (mut cursor, mut found) = ("0".to_owned(), 0);
        loop {
            let mut invocation = self.scripts.reserved.key(self.keys.reserved(queue.as_str()));
            invocation.arg(&cursor).arg(READ_PER_SCRIPT);
            let ids: Result<Vec<Vec<u8>>, _> = invocation.invoke_async(connection).await;
            let ids = ids.map_err(|error| self.link.failed(&error))?;
            let mut ids = ids.iter().map(|id| String::from_utf8_lossy(id));
            cursor = ids.next().map_or_else(|| "0".to_owned(), Cow::into_owned);
            for id in ids {
                orphaned.is_empty_queue = false;
                let Some((owner, number)) = parse_field(&id) else { continue };
                if owner == own {
                    if number < known_below && !self.state.borrow().knows(number) {
                        orphaned.own.insert(number);
                    }
                } else if !leases.alive.contains(owner) {
                    found += 1;
                    orphaned.by_owner.entry(owner.to_owned()).or_default().insert(number);
                }
            }
            if cursor == "0" || found >= RETURNED_PER_PASS_MAX {
                return Ok(orphaned);
            }
        }
    }

    /// Returns some jobs of an owner whose lease is over, the last one to be served first.
    async fn reap_step(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        queue: &QueueName,
        owner: &str,
        numbers: &[u64],
    ) -> Result<(), StoreError> {
        self.take_queue_leases(connection, std::iter::once(queue.as_str())).await?;
        let token = self.token()?;
        // An earlier process of this node has ended, whatever is left of its lease beside the list.
        let is_own = self.is_split() && owner.split('-').next() == Some(self.node.as_str());
        let by = Settlement { victim: if is_own { "" } else { owner }, token: &token, tag: None };
        let fields: Vec<String> =
            numbers.iter().map(|number| format!("{owner}:{number}")).collect();
        let values = connection.hmget(self.keys.reserved(queue.as_str()), &fields).await;
        let values: Vec<Option<Vec<u8>>> = values.map_err(|error| self.link.failed(&error))?;
        let jids: Vec<Option<String>> =
            values.iter().map(|value| jid_of(value.as_deref()?)).collect();
        // Their workers may live: that a node ended is not counted against a job.
        let returning = fields.into_iter();
        let returning: Vec<_> = returning
            .map(|field| ReturningField { field, jid: String::new(), lock: None })
            .collect();
        let moved = self.return_fields(connection, queue.as_str(), by, &returning).await?;
        for (value, _) in values.iter().zip(&moved).filter(|(_, moved)| **moved) {
            if let Some(payload) = value.as_deref().and_then(payload_of) {
                self.note_stored(payload, TrackState::Enqueued);
            }
        }
        for (jid, _) in jids.into_iter().zip(moved).filter(|(_, moved)| *moved) {
            if let Some(jid) = jid {
                self.state.borrow_mut().returned.insert(&jid, queue.clone());
            }
        }
        Ok(())
    }
}

fn payload_of(value: &[u8]) -> Option<&[u8]> {
    let end = value.iter().position(|byte| *byte == b'\n')?;
    Some(&value[end + 1..])
}

fn jid_of(value: &[u8]) -> Option<String> {
    let text = StoredText::parse(payload_of(value)?, usize::MAX).ok()?;
    Some(text.jid)
}

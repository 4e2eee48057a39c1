//! Moves jobs between slots, in two steps.
//!
//! 1. `leave`: the jobs leave their source, and each move is noted beside it with its target and its
//!    text. From then on the job is Weir's to deliver.
//! 2. `arrive`: the jobs enter their target, which remembers the moves, so that a second arrival of
//!    the same move changes nothing.
//!
//! Then the note is deleted. If a node stops in between, the others end its moves once its lease is over,
//! and while a target is away, its moves wait beside their sources. A node whose own clock says that its
//! lease is over ends no moves.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::AsyncCommands as _;
use weir_jobs::model::SetName;
use weir_jobs::store::StoreError;
use weir_redis::slots::slot_of;

use super::lease::lease_is_over;
use super::link_connection::LinkConnection;
use super::move_run::{MOVED, NearPositions};
use super::owner::parse_field;
use super::settlement::Settlement;
use super::store_core::StoreCore;

/// How long moves that have arrived are remembered at least.
const ARRIVALS_KEPT: Duration = Duration::from_secs(3_600);
/// Moves that are remembered for each list and set in any case. Each takes some 100 bytes.
const ARRIVALS_KEPT_MIN: usize = 10_000;
/// Moves that are read in one step, more or less.
const READ_PER_STEP: usize = 100;

/// The key that jobs leave, and what they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferSource<'a> {
    /// Fields of the reservations of a queue's list.
    Reserved {
        list: &'a str,
        reserved: &'a str,
    },
    List {
        key: &'a str,
        near: &'a NearPositions,
    },
    Set(&'a str),
}

/// Where jobs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransferTarget {
    /// A queue, by its name.
    Queue(String),
    /// A set, by its key, and the score.
    Set { key: String, score: String },
}

/// The next cursor, and some moves: the id and the note of each.
type NotesPage = (u64, Vec<(String, Vec<u8>)>);

/// A job that moves: its text or its field, and its new text (empty: the stored one).
pub(super) type MovingJob<'a> = (&'a [u8], &'a [u8]);

/// Moves that this node is about to end.
struct MovesInProgress<'a> {
    core: &'a StoreCore,
    ids: Vec<String>,
}

impl Drop for MovesInProgress<'_> {
    fn drop(&mut self) {
        let mut state = self.core.state.borrow_mut();
        for id in &self.ids {
            state.moving.remove(id);
        }
    }
}

impl TransferSource<'_> {
    /// The list or the set to whose slot the source belongs.
    const fn key(&self) -> &str {
        match self {
            Self::Reserved { list, .. } => list,
            Self::List { key, .. } | Self::Set(key) => key,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Reserved { .. } => "reserved",
            Self::List { .. } => "list",
            Self::Set(_) => "set",
        }
    }
}

impl TransferTarget {
    /// Returns the line that is noted: `list\t\tdefault`, `set\t1.5\tretry`.
    fn to_line(&self) -> String {
        match self {
            Self::Queue(name) => format!("list\t\t{name}"),
            Self::Set { key, score } => format!("set\t{score}\t{key}"),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once('\t')?;
        let (score, name) = rest.split_once('\t')?;
        match kind {
            "list" => Some(Self::Queue(name.to_owned())),
            "set" => Some(Self::Set { key: name.to_owned(), score: score.to_owned() }),
            _ => None,
        }
    }
}

impl StoreCore {
    /// Moves jobs to another slot. They will arrive, also if this node stops after the first step.
    pub(super) async fn transfer(
        &self,
        connection: &mut LinkConnection,
        source: TransferSource<'_>,
        target: &TransferTarget,
        by: Settlement<'_>,
        jobs: &[MovingJob<'_>],
    ) -> Result<TransferOutcome, StoreError> {
        if !self.can_take(connection, target).await? {
            return Ok(TransferOutcome::Rejected);
        }
        let token = self.token()?;
        let moves = MovesInProgress { core: self, ids: self.new_moves(&token, jobs.len()) };
        let key = source.key();
        let mut invocation = match source {
            TransferSource::Reserved { reserved, .. } => self.scripts.leave.key(reserved),
            TransferSource::List { key, .. } | TransferSource::Set(key) => {
                self.scripts.leave.key(key)
            }
        };
        invocation.key(self.keys.leaving(key)).key(self.lease_key(key));
        invocation.arg(source.kind()).arg(by.victim).arg(by.token).arg(target.to_line());
        if let TransferSource::List { near, .. } = source {
            near.add_to(&mut invocation);
        }
        for (id, (job, text)) in moves.ids.iter().zip(jobs) {
            invocation.arg(id).arg(*job).arg(*text);
        }
        let left: Result<Vec<i8>, _> = invocation.invoke_async(connection).await;
        let left = left.map_err(|error| {
            self.state.borrow_mut().reply_lost = true;
            self.link.failed(&error)
        })?;
        if left.is_empty() {
            return Ok(TransferOutcome::LeaseOver);
        }
        let ids = moves.ids.iter().zip(&left).filter(|(_, left)| **left == MOVED);
        let ids = ids.map(|(id, _)| id);
        let ids: Vec<String> = ids.cloned().collect();
        if let Err(error) = self.end_moves(connection, key, target, &ids).await {
            // They are noted, and the next pass ends them.
            self.state.borrow_mut().reply_lost = true;
            tracing::debug!(%error, source = key, "jobs wait beside their source to be moved");
        }
        Ok(TransferOutcome::Left(left))
    }

    /// Returns ids that no other move has ever had.
    fn new_moves(&self, token: &str, count: usize) -> Vec<String> {
        let ids = (0..count).map(|_| format!("{token}:{}", fastrand::u64(..)));
        let ids: Vec<String> = ids.collect();
        self.state.borrow_mut().moving.extend(ids.iter().cloned());
        ids
    }

    /// Returns whether jobs can enter the target. That of a target that is away is not known, and jobs
    /// may wait for it.
    async fn can_take(
        &self,
        connection: &mut LinkConnection,
        target: &TransferTarget,
    ) -> Result<bool, StoreError> {
        let (key, kind) = match target {
            TransferTarget::Queue(queue) => (self.keys.list(queue), "list"),
            TransferTarget::Set { key, .. } => (key.clone(), "zset"),
        };
        // A note is a line. And beside a name with a hash tag of its own, Weir's keys would be on another slot.
        if key.contains('\n')
            || slot_of(self.keys.arrived(&key).as_bytes()) != slot_of(key.as_bytes())
        {
            return Ok(false);
        }
        let found: Result<String, _> = redis::cmd("TYPE").arg(&key).query_async(connection).await;
        Ok(found.map_or(true, |found| found == "none" || found == kind))
    }

    /// Lets jobs that have left `source` enter their target, and deletes the notes of their moves.
    async fn end_moves(
        &self,
        connection: &mut LinkConnection,
        source: &str,
        target: &TransferTarget,
        ids: &[String],
    ) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let leaving = self.keys.leaving(source);
        let notes = connection.hmget(&leaving, ids).await;
        let notes: Vec<Option<Vec<u8>>> = notes.map_err(|error| self.link.failed(&error))?;
        let noted = ids.iter().zip(&notes).filter_map(|(id, note)| {
            let (_, text) = split_note(note.as_deref()?)?;
            Some((id.as_str(), text))
        });
        let noted: Vec<(&str, &[u8])> = noted.collect();
        self.arrive(connection, target, &noted).await?;
        let ended = connection.hdel(&leaving, ids).await;
        ended.map_err(|error| self.link.failed(&error))
    }

    async fn arrive(
        &self,
        connection: &mut LinkConnection,
        target: &TransferTarget,
        jobs: &[(&str, &[u8])],
    ) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let (key, kind, score) = match target {
            TransferTarget::Queue(queue) => {
                self.add_queues(connection, &[queue]).await?;
                (self.keys.list(queue), "list", "")
            }
            TransferTarget::Set { key, score } => (key.clone(), "set", score.as_str()),
        };
        if !self.has_lease() {
            return Err(lease_is_over());
        }
        let mut invocation = self.scripts.arrive.key(&key);
        invocation.key(self.keys.arrived(&key));
        invocation.arg(kind).arg(score).arg(ARRIVALS_KEPT.as_secs()).arg(ARRIVALS_KEPT_MIN);
        for (id, text) in jobs {
            invocation.arg(*id).arg(*text);
        }
        let arrived: Result<u8, _> = invocation.invoke_async(connection).await;
        match arrived.map_err(|error| self.link.failed(&error))? {
            1 => Ok(()),
            _ => Err(StoreError::Unavailable(format!("{key} in Redis has another type"))),
        }
    }

    /// Ends the moves of nodes whose lease is over, and those that this node could not end.
    /// `is_alive` tells whether an owner's lease is alive.
    pub(super) async fn end_left_moves(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        is_alive: impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        if !self.is_split() {
            return Ok(());
        }
        let queues = self.all_queues(connection).await?;
        let lists = queues.iter().map(|queue| self.keys.list(queue.as_str()));
        let sources = SetName::ALL.into_iter().map(|set| self.keys.set(set)).chain(lists);
        let mut failed = None;
        for source in sources {
            if let Err(error) = self.end_moves_from(connection, &source, &is_alive).await {
                tracing::debug!(%error, source, "jobs wait beside their source to be moved");
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn end_moves_from(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        source: &str,
        is_alive: &impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        let own = self.token()?;
        let (mut cursor, mut failed) = (0_u64, None);
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(self.keys.leaving(source)).arg(cursor).arg("COUNT").arg(READ_PER_STEP);
            let page = command.query_async(connection).await;
            let (next, notes): NotesPage = page.map_err(|error| self.link.failed(&error))?;
            let is_left = |id: &str| match parse_field(id) {
                Some((owner, _)) if owner == own => !self.state.borrow().moving.contains(id),
                Some((owner, _)) => !is_alive(owner),
                None => false,
            };
            let left = notes.iter().filter(|(id, _)| is_left(id));
            let ending = left.filter_map(|(id, note)| {
                let target = TransferTarget::parse(split_note(note)?.0)?;
                let mut connection = connection.clone();
                Some(async move {
                    self.end_moves(&mut connection, source, &target, std::slice::from_ref(id)).await
                })
            });
            for ended in join_all(ending).await {
                failed = failed.or(ended.err());
            }
            cursor = next;
            if cursor == 0 {
                return failed.map_or(Ok(()), Err);
            }
        }
    }
}

/// What became of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransferOutcome {
    /// For each job [`MOVED`] if it has left its source, and will arrive, or why not.
    Left(Vec<i8>),
    /// The target is of another type, or its name has a hash tag. All jobs stay.
    Rejected,
    /// A lease is not as it must be. All jobs stay.
    LeaseOver,
}

/// Splits a note into its target and the job's text.
fn split_note(note: &[u8]) -> Option<(&str, &[u8])> {
    let end = note.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&note[..end]).ok()?, &note[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_target_and_has_the_text_as_it_is() {
        let set = TransferTarget::Set { key: "retry".to_owned(), score: "1.5".to_owned() };
        let queue = TransferTarget::Queue("a:b".to_owned());
        for target in [set, queue] {
            let note = [target.to_line().as_bytes(), b"\n{\"a\":\n1}\xff"].concat();
            let (line, text) = split_note(&note).unwrap();
            assert_eq!(TransferTarget::parse(line), Some(target));
            assert_eq!(text, b"{\"a\":\n1}\xff");
        }
        assert_eq!(TransferTarget::parse("x\t\ty"), None);
        assert_eq!(split_note(b"no line"), None);
    }
}

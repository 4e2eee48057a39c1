//! Pages of queues and sets.
//!
//! A list has no index by key. A walk remembers the position at which its last page ended, and goes on
//! there if the list still has the job there that followed. Otherwise the position is found by the time
//! of enqueueing: a binary search, for jobs enter at one end in the order of time, and a walk through
//! those of about the same time. If jobs leave the list during a walk, producers whose clocks differ
//! may then make a page show a job again.

use std::ops::ControlFlow;
use std::rc::Rc;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::model::{EntryKey, JobLocation, QueueName, SetName};
use weir_jobs::store::{JobState, ScanPage, ScanRequest, StoreError};

use super::entries::RawEntry;
use super::link_connection::LinkConnection;
use super::merged_pages::{ExaminedPage, merged, start_after};
use super::page_end::PageEnd;
use super::seconds;
use super::store_core::StoreCore;

/// Jobs around the position of a key among which it is searched.
pub(super) const WINDOW_JOBS: usize = 1_000;
/// Jobs of a list with one time of enqueueing that a page can step over.
pub(super) const TIES_MAX: usize = 10_000;
/// Entries of a set with one score that are read at once.
const TIES_READ_MAX: usize = 10_000;

impl StoreCore {
    pub(super) async fn scan(
        self: &Rc<Self>,
        request: &ScanRequest,
    ) -> Result<ScanPage, StoreError> {
        Ok(self.scan_with_orders(request).await?.0)
    }

    pub(super) async fn scan_with_orders(
        self: &Rc<Self>,
        request: &ScanRequest,
    ) -> Result<ExaminedPage, StoreError> {
        let mut connection = self.ready().await?;
        let parts = self.parts(&request.place);
        if let [_] = &*parts {
            return self.scan_part(&mut connection, request).await;
        }
        let mut holder = None;
        for (place, part) in parts.iter().enumerate() {
            if let (Some(key), JobLocation::Queue(list)) = (&request.after, part)
                && self.find_entry(&mut connection, list, key).await?.is_some()
            {
                holder = Some(place);
            }
        }
        let mut pages = Vec::new();
        for (number, place) in parts.into_iter().enumerate() {
            let after = request.after.as_ref();
            let after = after.map(|key| start_after(key, number, holder, request.newest_first));
            let request = ScanRequest { place, after, ..request.clone() };
            pages.push((number, self.scan_part(&mut connection, &request).await?));
        }
        Ok(merged(pages, request))
    }

    /// Returns a page of a list or a set.
    async fn scan_part(
        &self,
        connection: &mut LinkConnection,
        request: &ScanRequest,
    ) -> Result<ExaminedPage, StoreError> {
        // One more than the page examines, to know whether it is the last one.
        let count = request.scan_max.min(self.limits.scan_jobs_max).max(1) + 1;
        let (entries, from) = match &request.place {
            JobLocation::Queue(queue) => {
                self.queue_entries(connection, queue, request, count).await?
            }
            JobLocation::Set(set) => (self.set_entries(connection, *set, request, count).await?, 0),
        };
        let (state, queue) = match &request.place {
            JobLocation::Queue(queue) => (JobState::Enqueued, Some(&self.shown_queue(queue))),
            JobLocation::Set(set) => (JobState::In(*set), None),
        };
        let (mut page, mut payloads) = (ScanPage::default(), Vec::new());
        let (mut last, mut follower, mut orders) = (None, None, Vec::new());
        for entry in &entries {
            if page.scanned + 1 >= count || page.jobs.len() >= request.limit {
                page.next = last.clone();
                follower = Some(entry.key());
                break;
            }
            let job = entry.job(state.clone(), queue, &self.limits);
            page.scanned += 1;
            orders.push(job.key.order);
            last = Some(job.key.clone());
            if request.filter.matches(&job.key.jid, &job.jobtype, &job.json) {
                page.jobs.push(job);
                payloads.push(&*entry.payload);
            }
        }
        self.add_features(connection, &mut page.jobs, &payloads).await?;
        if let Some(key) = last {
            self.remember_page_end(request, from, page.scanned, key, follower);
        }
        Ok((page, orders))
    }

    fn remember_page_end(
        &self,
        request: &ScanRequest,
        from: usize,
        scanned: usize,
        key: EntryKey,
        next_key: Option<EntryKey>,
    ) {
        let JobLocation::Queue(queue) = &request.place else { return };
        let newest_first = request.newest_first;
        let position = if newest_first { from.saturating_sub(scanned) } else { from + scanned };
        let (queue, began) = (queue.clone(), from);
        let end = PageEnd { queue, key, next_key, newest_first, began, position };
        *self.page_end.borrow_mut() = Some(end);
    }

    /// Returns the entries of a page, and the position from which they were read.
    async fn queue_entries(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        request: &ScanRequest,
        count: usize,
    ) -> Result<(Vec<RawEntry>, usize), StoreError> {
        let length = self.length(connection, &request.place).await?;
        // Positions count from the end that is served first.
        let from = match &request.after {
            None if request.newest_first => length,
            None => 0,
            Some(key) => self.position(connection, queue, key, request.newest_first).await?,
        };
        let (start, end) = match request.newest_first {
            true => (from.saturating_sub(count), from),
            false => (from, from.saturating_add(count).min(length)),
        };
        let mut entries = self.list_range(connection, queue, start, end).await?;
        if request.newest_first {
            entries.reverse();
        }
        Ok((entries, from))
    }

    /// Returns the entries at positions `start..end`, which count from the end that is served first.
    pub(super) async fn list_range(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        start: usize,
        end: usize,
    ) -> Result<Vec<RawEntry>, StoreError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let index = |position: usize| -1 - isize::try_from(position).unwrap_or(isize::MAX - 1);
        let list = self.keys.list(queue.as_str());
        let range = connection.lrange(list, index(end - 1), index(start)).await;
        let payloads: Vec<Vec<u8>> = range.map_err(|error| self.link.failed(&error))?;
        let entries = payloads.into_iter().rev().zip(start..);
        Ok(entries.map(|(payload, position)| RawEntry::listed(payload, position)).collect())
    }

    /// Returns the position behind `key` in the direction of a walk: of the first entry to list, or
    /// behind it when the newest are first. Where the key is gone, of the first one of its time.
    async fn position(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        key: &EntryKey,
        newest_first: bool,
    ) -> Result<usize, StoreError> {
        if let Some(position) = self.remembered(connection, queue, key, newest_first).await? {
            return Ok(position);
        }
        Ok(match (self.find_entry(connection, queue, key).await?, newest_first) {
            (Some((index, _)), true) => index,
            (Some((index, _)), false) => index + 1,
            (None, false) => self.first_from(connection, queue, key.order).await?,
            (None, true) => self.first_from(connection, queue, key.order + 1).await?,
        })
    }

    /// Returns the position at which the last page ended, if that was behind `key` and the job that followed is
    /// still there.
    async fn remembered(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        key: &EntryKey,
        newest_first: bool,
    ) -> Result<Option<usize>, StoreError> {
        let (position, next_key) = match &*self.page_end.borrow() {
            Some(end)
                if end.queue == *queue && end.key == *key && end.newest_first == newest_first =>
            {
                (end.position, end.next_key.clone())
            }
            _ => return Ok(None),
        };
        let index = if newest_first { position.saturating_sub(1) } else { position };
        let entry = self.list_range(connection, queue, index, index + 1).await?;
        let is_there = entry.first().is_some_and(|entry| Some(entry.key()) == next_key);
        Ok(is_there.then_some(position))
    }

    /// Returns the entry of `key` and its position. It is searched among those of about its time.
    pub(super) async fn find_entry(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        key: &EntryKey,
    ) -> Result<Option<(usize, RawEntry)>, StoreError> {
        if key.jid.is_empty() {
            return Ok(None); // it stands for a time
        }
        let lower = self.first_from(connection, queue, key.order).await?;
        let first = lower.saturating_sub(WINDOW_JOBS / 2);
        for start in (first..lower + TIES_MAX).step_by(WINDOW_JOBS) {
            let window = self.list_range(connection, queue, start, start + WINDOW_JOBS).await?;
            let is_last = window.last().is_none_or(|entry| entry.key().order > key.order);
            let found = (start..).zip(window).find(|(_, entry)| entry.key() == *key);
            if found.is_some() || is_last {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Returns the position of the first entry that was enqueued at `order` or later.
    pub(super) async fn first_from(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        order: u64,
    ) -> Result<usize, StoreError> {
        let place = JobLocation::Queue(queue.clone());
        let (mut low, mut high) = (0, self.length(connection, &place).await?);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.list_range(connection, queue, middle, middle + 1).await?;
            match entry.first() {
                Some(entry) if entry.key().order < order => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    async fn set_entries(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
        request: &ScanRequest,
        count: usize,
    ) -> Result<Vec<RawEntry>, StoreError> {
        let Some(key) = &request.after else {
            return self.set_range(connection, set, None, request.newest_first, count).await;
        };
        let ties = self.ties(connection, set, key, request.newest_first).await?;
        let count_with_ties = ties.saturating_add(count);
        let order = Some(key.order);
        let found = self.set_range(connection, set, order, request.newest_first, count_with_ties);
        Ok(found.await?.into_iter().skip(ties).collect())
    }

    /// Returns how many entries of the key's time come before the walk goes on behind it.
    async fn ties(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
        key: &EntryKey,
        newest_first: bool,
    ) -> Result<usize, StoreError> {
        let (mut passed, mut ties) = (0, 0);
        let read = self.each_at(connection, set, key.order, newest_first, |entry| {
            passed += 1;
            // Of entries with one jid, the walk goes on behind the last.
            if entry.key() == *key {
                ties = passed;
            }
            ControlFlow::Continue(())
        });
        read.await?;
        Ok(ties)
    }

    /// Passes the entries of a set whose time is `order` to `visit`, in the direction of a walk, until it breaks.
    pub(super) async fn each_at(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
        order: u64,
        newest_first: bool,
        mut visit: impl FnMut(RawEntry) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        // A score of another program may have digits below a microsecond.
        let bound = |micros: u64| seconds::text(Timestamp::from_micros(micros));
        let (low, high) = (bound(order.saturating_sub(1)), bound(order.saturating_add(1)));
        let (name, from, to) = match newest_first {
            true => ("ZREVRANGEBYSCORE", high, low),
            false => ("ZRANGEBYSCORE", low, high),
        };
        for start in (0..).step_by(TIES_READ_MAX) {
            let mut command = redis::cmd(name);
            command.arg(self.set_key(set)).arg(&from).arg(&to).arg("WITHSCORES");
            command.arg("LIMIT").arg(start).arg(TIES_READ_MAX);
            let reply: Vec<(Vec<u8>, String)> =
                command.query_async(connection).await.map_err(|error| self.link.failed(&error))?;
            let is_last = reply.len() < TIES_READ_MAX;
            let same = |entry: &RawEntry| entry.at.is_some_and(|at| at.as_micros() == order);
            for entry in RawEntry::with_scores(reply).into_iter().filter(same) {
                if visit(entry).is_break() {
                    return Ok(());
                }
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Returns up to `count` entries from the time `order` on, or from the first one.
    async fn set_range(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
        order: Option<u64>,
        newest_first: bool,
        count: usize,
    ) -> Result<Vec<RawEntry>, StoreError> {
        let half_micro = |digit: char, micros: u64| {
            // Scores are rounded to microseconds.
            format!("{}{digit}", seconds::text(Timestamp::from_micros(micros)))
        };
        let mut command;
        if newest_first {
            let from = order.map_or("+inf".to_owned(), |order| half_micro('4', order));
            command = redis::cmd("ZREVRANGEBYSCORE");
            command.arg(self.set_key(set)).arg(from).arg("-inf");
        } else {
            let from =
                order.map_or("-inf".to_owned(), |order| half_micro('5', order.saturating_sub(1)));
            command = redis::cmd("ZRANGEBYSCORE");
            command.arg(self.set_key(set)).arg(from).arg("+inf");
        }
        command.arg("WITHSCORES").arg("LIMIT").arg(0).arg(count);
        let reply = command.query_async(connection).await;
        Ok(RawEntry::with_scores(reply.map_err(|error| self.link.failed(&error))?))
    }
}

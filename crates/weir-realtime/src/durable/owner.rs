//! The thread that owns the log of durable histories. It writes each event, and publishes it then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use weir_base::clock::Clock;
use weir_base::seldom::Seldom;
use weir_log::{AppendError, Class, Disk, SegmentLog};

use super::order::{DurableFailure, DurableKey, Order, OwnedEvent, Publishing};
use super::record::{self, Begin, Header};
use crate::app::App;
use crate::broker::{LocalBroker, ServerEvent};
use crate::channel::{Channel, Published, SavedHistory};
use crate::cores::ChannelId;
use crate::metrics::RealtimeMetrics;
use crate::pusher::position::ChannelPosition;

/// Publications that are written with one call of the system.
const BATCH_MAX: usize = 256;
/// The log is rewritten when it has grown by this much, or by three times what the histories have. So it
/// has at most four times as much as they, and rewriting is a quarter of all that is written.
const GROWTH_MIN: u64 = 64 << 20;
const GROWTH_FACTOR: u64 = 3;
/// Attempts to append a record while the next segment is prepared.
const ATTEMPTS_MAX: usize = 8;

/// The channels whose histories the log has.
pub(crate) trait Histories: Send {
    /// Returns the ids of the apps with durable histories.
    fn apps(&self) -> Vec<String>;

    /// Calls `write` with the record of each of their channels whose history is included, until it returns an error.
    fn each_channel(
        &self,
        is_included: &dyn Fn(&SavedHistory) -> bool,
        write: &mut dyn FnMut(&[u8]) -> Result<(), DurableFailure>,
    ) -> Result<(), DurableFailure>;

    /// Returns the record of a channel: one without events if nothing was published on it, or it does not exist any more.
    fn channel(&self, key: &DurableKey) -> Option<Vec<u8>>;
}

/// The state of the thread.
pub(super) struct Owner<D: Disk> {
    pub(super) log: SegmentLog<D>,
    broker: Arc<LocalBroker>,
    histories: Box<dyn Histories>,
    /// The start of the machine and the apps, with which each rewritten log begins.
    begin: Begin,
    /// Whether the log has that record. Events are rejected before: the next process must know on which start of
    /// the machine they were written, and of which apps the log is.
    is_begun: bool,
    /// Whether it has what each channel had when this process began.
    has_snapshot: bool,
    /// Channels with events in the log that were rejected, because they could not be written at once. The next event of
    /// the channel replaces them, or a record of the whole channel.
    rejected: HashSet<DurableKey>,
    /// Bytes of the histories when the log was last rewritten, and of what was appended since.
    rewritten: u64,
    appended: u64,
    metrics: RealtimeMetrics,
    clock: Clock,
    seldom: Seldom,
}

/// The last positions that events of a batch get, of each channel.
type NextPositions = HashMap<ChannelId, NextPosition>;

struct NextPosition {
    app: Arc<App>,
    channel: Arc<Channel>,
    position: ChannelPosition,
}

/// What was written of one publication.
type Written = Result<Vec<ChannelPosition>, DurableFailure>;

impl<D: Disk> Owner<D> {
    pub(super) fn new(
        log: SegmentLog<D>,
        broker: Arc<LocalBroker>,
        histories: Box<dyn Histories>,
        boot: String,
        (metrics, clock): (RealtimeMetrics, Clock),
    ) -> Self {
        let begin = Begin { version: record::VERSION, boot, apps: histories.apps() };
        let (is_begun, has_snapshot, rejected) = (false, false, HashSet::new());
        let (rewritten, appended, seldom) = (0, 0, Seldom::default());
        Self {
            log,
            broker,
            histories,
            begin,
            is_begun,
            has_snapshot,
            rejected,
            rewritten,
            appended,
            metrics,
            clock,
            seldom,
        }
    }

    /// Begins to write, if the disk has room: without it, the next event is the next attempt.
    pub(super) fn begin(&mut self) {
        if let Err(error) = self.try_begin() {
            self.warn("events are rejected", error);
        }
    }

    /// Writes that this process has begun, and what each channel has.
    fn try_begin(&mut self) -> Result<(), DurableFailure> {
        if self.is_begun {
            return Ok(());
        }
        self.append(Class::Essential, &record::encode_begin(&self.begin))?;
        self.flush()?;
        (self.is_begun, self.has_snapshot) = (true, false);
        self.rewrite();
        Ok(())
    }

    /// Writes which apps there are, if these are others.
    fn note_apps(&mut self) {
        let apps = self.histories.apps();
        if apps != self.begin.apps {
            self.begin.apps = apps;
            self.is_begun = false;
            self.begin();
        }
    }

    /// Serves orders until the log is to be closed, or nobody can give one, and closes it. Returns why not everything is
    /// on the disk, and the sender for the reply.
    pub(super) fn run(
        mut self,
        orders: &Receiver<Order>,
    ) -> (Result<(), DurableFailure>, Option<Sender<bool>>) {
        let closed = loop {
            match orders.recv() {
                Ok(Order::Publish(first)) => {
                    if let Some(closed) = self.publish_with(first, orders) {
                        break Some(closed);
                    }
                }
                Ok(Order::NoteApps) => self.note_apps(),
                Ok(Order::Close(closed)) => break Some(closed),
                Err(_) => break None,
            }
        };
        (self.close(), closed)
    }

    /// Publishes an order and those that wait behind it. Returns the sender of an order to close.
    fn publish_with(
        &mut self,
        first: Publishing,
        orders: &Receiver<Order>,
    ) -> Option<Sender<bool>> {
        let (mut batch, mut closed, mut has_other_apps) = (vec![first], None, false);
        for order in orders.try_iter().take(BATCH_MAX - 1) {
            match order {
                Order::Publish(publishing) => batch.push(publishing),
                Order::NoteApps => has_other_apps = true,
                Order::Close(reply) => {
                    closed = Some(reply);
                    break;
                }
            }
        }
        self.publish(batch);
        if has_other_apps {
            self.note_apps();
        }
        if self.appended > GROWTH_MIN.max(self.rewritten.saturating_mul(GROWTH_FACTOR)) {
            self.rewrite();
        }
        let bytes = self.log.segments().iter().map(|segment| u64::from(segment.bytes)).sum();
        self.metrics.durable_log_bytes(bytes);
        closed
    }

    /// Writes a batch, and publishes what was written.
    fn publish(&mut self, mut batch: Vec<Publishing>) {
        let (mut next, mut written) = (NextPositions::new(), Vec::with_capacity(batch.len()));
        let mut appended = self.try_begin();
        for publishing in &mut batch {
            let result = appended.and_then(|()| {
                // Only now: what waits for the disk takes no room from other apps.
                let events = publishing.events.iter_mut().map(|event| &mut event.prepared);
                self.broker.reserve_all(&mut events.collect::<Vec<_>>())?;
                let result = self.append_all(publishing, &mut next);
                // After a failure the offsets of the others would be wrong.
                appended = result.as_ref().map(|_| ()).map_err(|failure| *failure);
                result
            });
            written.push(result);
        }
        if let Err(failure) = self.flush() {
            // What is in memory may be written later: the offsets are given to other events until then.
            appended = Err(failure);
            written.fill(Err(failure));
        }
        if let Err(failure) = appended {
            self.warn("events are rejected", failure);
        }
        for (publishing, written) in batch.into_iter().zip(written) {
            let Publishing { app, events, now, reply, room } = publishing;
            let published = written.map(|positions| {
                let mut last = Published::default();
                for (event, position) in events.into_iter().zip(positions) {
                    let OwnedEvent { prepared, name, data, except, trace } = event;
                    let event = ServerEvent {
                        name: &name,
                        data: &data,
                        except,
                        idempotency_key: None,
                        trace: trace.as_ref(),
                    };
                    last = self.broker.publish_prepared(&app, prepared, event, now);
                    if last.position.is_some_and(|published| published != position) {
                        // Only this thread publishes, so this would be a bug.
                        tracing::error!(%position, "an event was written with another position");
                    }
                }
                last
            });
            drop(room);
            // The request may have ended.
            let _ = reply.send(published);
        }
        self.note_rejected(next);
        if appended.is_ok()
            && let Err(failure) = self.replace_rejected()
        {
            self.warn("it has rejected events", failure);
        }
    }

    /// Notes which channels have events in the log that were not published.
    fn note_rejected(&mut self, next: NextPositions) {
        for NextPosition { app, channel, position } in next.into_values() {
            let is_published = channel.info().position == position;
            if is_published && self.rejected.is_empty() {
                continue;
            }
            let key = (app.settings().id.to_string(), channel.name.to_string());
            match is_published {
                true => self.rejected.remove(&key),
                false => self.rejected.insert(key),
            };
        }
    }

    /// Replaces rejected events by what their channels have.
    fn replace_rejected(&mut self) -> Result<(), DurableFailure> {
        if self.rejected.is_empty() {
            return Ok(());
        }
        let Self { log, histories, appended, rejected, .. } = self;
        for record in rejected.iter().filter_map(|key| histories.channel(key)) {
            append(log, Class::Job, &record, appended)?;
        }
        self.flush()?;
        self.rejected.clear();
        Ok(())
    }

    /// Appends the events of a publication, at the positions that they will get. `next` has those of earlier
    /// ones of the batch.
    fn append_all(&mut self, publishing: &Publishing, next: &mut NextPositions) -> Written {
        let mut positions = Vec::with_capacity(publishing.events.len());
        for event in &publishing.events {
            let channel = event.prepared.channel();
            let last = next.get(&channel.id).map(|next| next.position);
            let last = last.unwrap_or_else(|| channel.info().position);
            let position = ChannelPosition { offset: last.offset + 1, ..last };
            let header = Header {
                app: publishing.app.settings().id.to_string(),
                channel: channel.name.to_string(),
                position,
                at_us: publishing.now.as_micros(),
                name: event.name.to_string(),
            };
            self.append(Class::Job, &record::encode_event(&header, &event.data))?;
            let (app, channel) = (Arc::clone(&publishing.app), Arc::clone(channel));
            next.insert(channel.id, NextPosition { app, channel, position });
            positions.push(position);
        }
        Ok(positions)
    }
}

impl<D: Disk> Owner<D> {
    /// Rewrites the log: it then has the present state of each channel, and nothing else. The files are deleted
    /// once that is on the disk. If it fails, the log stays as it is, and grows until the next attempt.
    pub(super) fn rewrite(&mut self) {
        match self.append_snapshot() {
            Ok(last_before) => {
                (self.rewritten, self.appended) = (self.appended, 0);
                self.has_snapshot = true;
                self.rejected.clear();
                while self.first_segment() <= last_before && self.log.remove_first_segment() {}
            }
            Err(failure) => {
                self.appended = 0;
                self.warn("it can't be rewritten now", failure);
            }
        }
    }

    /// Begins a segment with the state of all channels. Returns the segment before it.
    fn append_snapshot(&mut self) -> Result<Option<u32>, DurableFailure> {
        let before = self.log.segments().last().map(|segment| segment.number);
        self.rotate()?;
        self.appended = 0;
        self.append(Class::Essential, &record::encode_begin(&self.begin))?;
        let Self { log, histories, appended, .. } = self;
        let mut write = |record: &[u8]| append(log, Class::Job, record, appended);
        histories.each_channel(&|_| true, &mut write)?;
        self.flush()?;
        Ok(before)
    }

    fn first_segment(&self) -> Option<u32> {
        self.log.segments().first().map(|segment| segment.number)
    }

    fn rotate(&mut self) -> Result<(), DurableFailure> {
        for _ in 0..ATTEMPTS_MAX {
            match self.log.rotate() {
                Err(AppendError::Backpressure) => catch_up(&self.log)?,
                other => return other.map_err(|error| DurableFailure::from(&error)),
            }
        }
        Err(DurableFailure::Busy)
    }

    pub(super) fn append(&mut self, class: Class, record: &[u8]) -> Result<(), DurableFailure> {
        append(&mut self.log, class, record, &mut self.appended)
    }

    /// Writes what was appended to the page cache.
    fn flush(&mut self) -> Result<(), DurableFailure> {
        self.log.flush().map(drop).map_err(|error| DurableFailure::from(&error))
    }

    fn warn(&self, what: &str, failure: DurableFailure) {
        if self.seldom.is_due(self.clock.now()) {
            tracing::warn!("the log of durable histories: {what}: {failure}");
        }
    }

    /// Writes all that is left to the disk, so that the next process continues even after a power cut.
    fn close(&mut self) -> Result<(), DurableFailure> {
        let syncer = self.log.syncer();
        let synced = || syncer.sync().map_err(|error| DurableFailure::from(&error));
        // What was left of rejected events is written first, so that there is room for what replaces them.
        let closed = synced().and_then(|_| {
            self.complete()?;
            synced()?;
            self.append(Class::Essential, record::CLOSED)?;
            self.log.mark();
            synced()
        });
        if let Err(failure) = closed {
            tracing::warn!("the log of durable histories was not closed in order: {failure}");
        }
        closed.map(drop)
    }

    /// Appends what the log lacks of the channels: positions of those without events, and what replaces rejected ones.
    fn complete(&mut self) -> Result<(), DurableFailure> {
        self.try_begin()?;
        if !self.has_snapshot {
            return self.append_snapshot().map(drop);
        }
        self.replace_rejected()?;
        let Self { log, histories, appended, .. } = self;
        let mut write = |record: &[u8]| append(log, Class::Job, record, appended);
        histories.each_channel(&SavedHistory::is_empty, &mut write)
    }
}

/// Appends a record in memory, and counts its bytes.
fn append<D: Disk>(
    log: &mut SegmentLog<D>,
    class: Class,
    record: &[u8],
    appended: &mut u64,
) -> Result<(), DurableFailure> {
    for _ in 0..ATTEMPTS_MAX {
        match log.append(class, &[], &[record]) {
            Ok(_) => {
                *appended += record.len() as u64;
                return Ok(());
            }
            Err(AppendError::Backpressure) => catch_up(log)?,
            Err(error) => return Err(DurableFailure::from(&error)),
        }
    }
    Err(DurableFailure::Busy)
}

/// Does what the thread that syncs has not done yet.
fn catch_up<D: Disk>(log: &SegmentLog<D>) -> Result<(), DurableFailure> {
    let syncer = log.syncer();
    let done = syncer.sync().and_then(|_| syncer.maintain());
    done.map_err(|error| DurableFailure::from(&error))
}

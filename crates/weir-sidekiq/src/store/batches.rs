//! Batches of jobs with callbacks, in Redis.
//!
//! Each batch is a hash, with a hash of its live jobs beside it (`batches.lua`). The script that stores, ends or moves a
//! job counts it in its batch, and stores the callback that is due: both or neither. A job that has ended is no live job
//! any more, so a step that is repeated counts nothing.

use std::collections::HashMap;
use std::rc::Rc;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::batches::{
    BatchDefinition, BatchStatus, CallbackKind, CallbackState, ExportedBatch,
};
use weir_jobs::custom::BatchId;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::seconds;
use super::store_core::StoreCore;
use super::translate;
use super::unsupported::NO_BATCHES;

/// Batches that one script deletes.
const EXPIRED_PER_SCRIPT: usize = 20;

/// What `batch_add.lua` returns.
const ADDED: i8 = 1;
const EXISTS: i8 = 0;
const NO_PARENT: i8 = -1;
const TOO_MANY: i8 = -2;

/// The hash of a batch, as Redis has it, and the number of its live jobs.
struct StoredBatch {
    fields: HashMap<String, Vec<u8>>,
    live: u64,
}

impl StoredBatch {
    fn text(&self, field: &str) -> String {
        self.fields
            .get(field)
            .map(|it| String::from_utf8_lossy(it).into_owned())
            .unwrap_or_default()
    }

    fn number(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap_or_default()
    }

    fn state(&self, kind: CallbackKind) -> CallbackState {
        match self.text(&format!("{}_st", kind.as_str())).as_str() {
            "" => CallbackState::Pending,
            "1" => CallbackState::Enqueued,
            "2" => CallbackState::Done,
            _ => CallbackState::Absent,
        }
    }

    fn callback(&self, kind: CallbackKind) -> Option<Vec<u8>> {
        self.fields.get(kind.as_str()).filter(|json| !json.is_empty()).cloned()
    }

    fn parent(&self) -> Option<BatchId> {
        BatchId::parse(&self.text("parent"))
    }

    fn created_at(&self) -> Timestamp {
        Timestamp::from_micros(self.number("created_at"))
    }

    fn status(&self, id: BatchId) -> BatchStatus {
        let lost = self.number("lost");
        BatchStatus {
            id,
            parent: self.parent(),
            description: self.text("description"),
            created_at: self.created_at(),
            total: self.number("total"),
            pending: self.live + lost,
            failed: self.number("failed") + lost,
            complete: self.state(CallbackKind::Complete),
            success: self.state(CallbackKind::Success),
        }
    }

    fn export(&self, id: BatchId, expires_at: Timestamp) -> ExportedBatch {
        let lost = self.number("lost");
        let definition = BatchDefinition {
            parent: self.parent(),
            description: self.text("description"),
            complete: self.callback(CallbackKind::Complete),
            success: self.callback(CallbackKind::Success),
        };
        ExportedBatch {
            id,
            definition,
            created_at: self.created_at(),
            expires_at,
            committed: self.text("committed") == "1",
            complete: self.state(CallbackKind::Complete),
            success: self.state(CallbackKind::Success),
            succeeded: self.number("total").saturating_sub(self.live + lost),
            lost,
        }
    }
}

/// The fields and values of the hash of a new batch.
#[derive(Default)]
struct NewFields(Vec<Vec<u8>>);

impl NewFields {
    fn add(&mut self, field: &str, value: impl Into<Vec<u8>>) {
        self.0.extend([field.as_bytes().to_vec(), value.into()]);
    }
}

/// A batch that is to be added.
struct NewBatch<'a> {
    id: BatchId,
    definition: &'a BatchDefinition,
    complete: CallbackState,
    success: CallbackState,
    created_at: Option<Timestamp>,
    kept_until: Option<Timestamp>,
    /// Jobs that were pushed, and those of them that are lost.
    ended: (u64, u64),
    must_have_parent: bool,
}

impl StoreCore {
    pub(super) async fn batch_new(
        self: &Rc<Self>,
        definition: BatchDefinition,
    ) -> Result<BatchId, StoreError> {
        let mut connection = self.batch_connection().await?;
        loop {
            let id = BatchId::random();
            let definition = definition.for_batch(id);
            let state = |callback: &Option<Vec<u8>>| match callback {
                Some(_) => CallbackState::Pending,
                None => CallbackState::Absent,
            };
            let batch = NewBatch {
                id,
                definition: &definition,
                complete: state(&definition.complete),
                success: state(&definition.success),
                created_at: None,
                kept_until: None,
                ended: (0, 0),
                must_have_parent: true,
            };
            if self.add_batch(&mut connection, batch).await? {
                return Ok(id);
            }
        }
    }

    /// Adds a batch of an export. Returns false if there is one with its id.
    pub(super) async fn import_batch(
        self: &Rc<Self>,
        batch: &ExportedBatch,
    ) -> Result<bool, StoreError> {
        let mut connection = self.batch_connection().await?;
        let batch = NewBatch {
            id: batch.id,
            definition: &batch.definition,
            complete: batch.complete,
            success: batch.success,
            created_at: Some(batch.created_at),
            kept_until: Some(batch.expires_at),
            ended: (batch.succeeded.saturating_add(batch.lost), batch.lost),
            must_have_parent: false,
        };
        self.add_batch(&mut connection, batch).await
    }

    /// Returns the connection, unless batches can't be kept here.
    async fn batch_connection(self: &Rc<Self>) -> Result<LinkConnection, StoreError> {
        let connection = self.ready().await?;
        if self.keeps_features() { Ok(connection) } else { Err(NO_BATCHES) }
    }

    /// Returns false if there is a batch with this id.
    async fn add_batch(
        &self,
        connection: &mut LinkConnection,
        batch: NewBatch<'_>,
    ) -> Result<bool, StoreError> {
        let limits = &self.limits;
        let mut invocation = self.scripts.batch_add.prepare_invoke();
        invocation.key(&self.keys.features()[..]);
        invocation.arg(batch.id.to_string()).arg(self.micros_argument());
        invocation.arg(limits.batches_max).arg(limits.batch_memory_bytes_max);
        invocation.arg(i32::from(batch.must_have_parent));
        invocation.arg(micros_text(limits.batch_commit_timeout));
        invocation
            .arg(batch.kept_until.map(|time| time.as_micros().to_string()).unwrap_or_default());
        invocation.arg(self.new_fields(&batch)?.0);
        let added: Result<i8, _> = invocation.invoke_async(connection).await;
        match added.map_err(|error| self.link.failed(&error))? {
            ADDED => Ok(true),
            EXISTS => Ok(false),
            NO_PARENT => {
                Err(StoreError::NoSuchBatch(batch.definition.parent.unwrap_or(BatchId::NONE)))
            }
            TOO_MANY => {
                self.metrics.limit_hit(JobServerLimit::BatchesMax);
                Err(StoreError::too_many_batches(limits.batches_max))
            }
            _ => {
                self.metrics.limit_hit(JobServerLimit::BatchMemoryBytesMax);
                Err(StoreError::too_many_batch_bytes(limits.batch_memory_bytes_max))
            }
        }
    }

    fn new_fields(&self, batch: &NewBatch<'_>) -> Result<NewFields, StoreError> {
        let definition = batch.definition;
        let mut fields = NewFields::default();
        let parent = definition.parent.map(|parent| parent.to_string()).unwrap_or_default();
        fields.add("parent", parent);
        fields.add("description", definition.description.as_str());
        let created_at = batch.created_at.map(|time| time.as_micros().to_string());
        fields.add("created_at", created_at.unwrap_or_default());
        fields.add("bytes", definition.bytes().to_string());
        let (pushed, lost) = batch.ended;
        fields.add("total", pushed.to_string());
        fields.add("lost", lost.to_string());
        for zero in
            ["committed", "failed", "incomplete", "unsuccessful", "is_completed", "has_succeeded"]
        {
            fields.add(zero, "0");
        }
        fields.add("age_open", micros_text(self.limits.batch_commit_timeout));
        fields.add("age_committed", micros_text(self.limits.batch_age_max));
        for (kind, json, state) in [
            (CallbackKind::Complete, &definition.complete, batch.complete),
            (CallbackKind::Success, &definition.success, batch.success),
        ] {
            self.add_callback(kind, json.as_deref(), state, &mut fields)?;
        }
        Ok(fields)
    }

    /// Adds a callback: as its client wrote it, and as it is pushed.
    fn add_callback(
        &self,
        kind: CallbackKind,
        json: Option<&[u8]>,
        state: CallbackState,
        fields: &mut NewFields,
    ) -> Result<(), StoreError> {
        let name = kind.as_str();
        let mut add = |field: &str, value: Vec<u8>| fields.add(&format!("{name}{field}"), value);
        let state = match state {
            CallbackState::Absent => "-",
            CallbackState::Pending => "",
            CallbackState::Enqueued => "1",
            CallbackState::Done => "2",
        };
        add("_st", state.into());
        add("", json.unwrap_or_default().to_vec());
        let Some(json) = json else { return Ok(()) };
        let mut batch = JobBatch::new();
        // It was checked before, with the limits of then.
        let job = batch
            .parse_one(json, self.now(), &self.limits)
            .map_err(|error| StoreError::Limit(error.to_string()))?;
        let mut text = translate::to_sidekiq(&job, None);
        text.truncate(text.trim_ascii_end().len().saturating_sub(1));
        add("_jid", job.jid.into());
        add("_queue", job.queue.into());
        add("_at", job.at.map(seconds::text).unwrap_or_default().into());
        add("_text", text);
        let unique = job.custom.unique;
        add("_lock", unique.map(|rule| rule.key.to_string()).unwrap_or_default().into());
        add("_lasts", unique.map(|rule| micros_text(rule.lasts)).unwrap_or_default().into());
        Ok(())
    }

    pub(super) async fn batch_open(self: &Rc<Self>, id: BatchId) -> Result<(), StoreError> {
        self.change_batch(id, "open").await
    }

    /// Commits a batch, and stores its callbacks that are due.
    pub(super) async fn batch_commit(self: &Rc<Self>, id: BatchId) -> Result<(), StoreError> {
        self.change_batch(id, "commit").await?;
        self.wake_waiting_fetches();
        Ok(())
    }

    async fn change_batch(
        self: &Rc<Self>,
        id: BatchId,
        change: &'static str,
    ) -> Result<(), StoreError> {
        let mut connection = self.batch_connection().await?;
        let mut invocation = self.scripts.batch_change.prepare_invoke();
        invocation.key(&self.keys.features()[..]);
        invocation.arg(id.to_string()).arg(change).arg(self.micros_argument());
        let changed = invocation.invoke_async(&mut connection).await;
        match changed.map_err(|error| self.link.failed(&error))? {
            0 => Err(StoreError::NoSuchBatch(id)),
            _ => Ok(()),
        }
    }

    pub(super) async fn batch_status(
        self: &Rc<Self>,
        id: BatchId,
    ) -> Result<BatchStatus, StoreError> {
        let mut connection = self.batch_connection().await?;
        let found = self.read_batches(&mut connection, &[id]).await?.pop().flatten();
        found.map(|batch| batch.status(id)).ok_or(StoreError::NoSuchBatch(id))
    }

    /// Returns up to `limit` batches with ids above `after`, in the order of their ids.
    pub(super) async fn export_batches(
        self: &Rc<Self>,
        after: Option<BatchId>,
        limit: usize,
    ) -> Result<Vec<ExportedBatch>, StoreError> {
        let mut connection = self.ready().await?;
        if !self.keeps_features() {
            return Ok(Vec::new());
        }
        let all = connection.zrange_withscores(self.keys.batches(), 0, -1).await;
        let all: Vec<(String, String)> = all.map_err(|error| self.link.failed(&error))?;
        let parse = |(id, at): (String, String)| {
            Some((BatchId::parse(&id)?, Timestamp::from_micros(at.parse().ok()?)))
        };
        let mut all: Vec<(BatchId, Timestamp)> = all.into_iter().filter_map(parse).collect();
        all.sort_unstable();
        let page = all.into_iter().filter(|(id, _)| after.is_none_or(|after| *id > after));
        let page: Vec<_> = page.take(limit).collect();
        let ids: Vec<BatchId> = page.iter().map(|(id, _)| *id).collect();
        let batches = self.read_batches(&mut connection, &ids).await?;
        let found = page.into_iter().zip(batches);
        Ok(found.filter_map(|((id, at), batch)| Some(batch?.export(id, at))).collect())
    }

    async fn read_batches(
        &self,
        connection: &mut LinkConnection,
        ids: &[BatchId],
    ) -> Result<Vec<Option<StoredBatch>>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        // Both at one time.
        pipeline.atomic();
        for id in ids {
            pipeline.hgetall(self.keys.batch(*id)).hlen(self.keys.batch_jobs(*id));
        }
        let read = pipeline.query_async(connection).await;
        let read: Vec<redis::Value> = read.map_err(|error| self.link.failed(&error))?;
        let mut batches = Vec::with_capacity(ids.len());
        let mut values = read.into_iter();
        while let Some((fields, live)) = values.next().zip(values.next()) {
            let fields: HashMap<String, Vec<u8>> =
                redis::from_redis_value(fields).unwrap_or_default();
            let live = redis::from_redis_value(live).unwrap_or_default();
            batches.push((!fields.is_empty()).then_some(StoredBatch { fields, live }));
        }
        Ok(batches)
    }

    /// Deletes all batches.
    pub(super) async fn delete_batches(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if !self.keeps_features() {
            return Ok(());
        }
        let all = connection.zrange(self.keys.batches(), 0, -1).await;
        let all: Vec<String> = all.map_err(|error| self.link.failed(&error))?;
        let mut pipeline = redis::pipe();
        for id in all.iter().filter_map(|id| BatchId::parse(id)) {
            let keys =
                [self.keys.batch(id), self.keys.batch_jobs(id), self.keys.batch_children(id)];
            pipeline.del(&keys).ignore();
        }
        for key in [self.keys.batches(), self.keys.batches_waiting(), self.keys.batch_bytes()] {
            pipeline.del(key).ignore();
        }
        let deleted: Result<(), _> = pipeline.query_async(connection).await;
        deleted.map_err(|error| self.link.failed(&error))
    }

    /// Deletes batches that have expired, some at a time.
    pub(super) async fn expire_batches(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        while self.keeps_features() {
            let mut invocation = self.scripts.batch_expire.prepare_invoke();
            invocation.key(&self.keys.features()[..]);
            invocation.arg(self.micros_argument()).arg(EXPIRED_PER_SCRIPT);
            let expired = invocation.invoke_async(connection).await;
            let expired: Vec<(String, u64)> = expired.map_err(|error| self.link.failed(&error))?;
            for (batch, pending) in expired.iter().filter(|(_, pending)| *pending > 0) {
                tracing::warn!(batch, pending, "a batch expired before its end");
            }
            if expired.len() < EXPIRED_PER_SCRIPT {
                break;
            }
        }
        Ok(())
    }
}

fn micros_text(duration: std::time::Duration) -> String {
    duration.as_micros().to_string()
}

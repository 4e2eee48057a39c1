//! What travels from a handle to the thread that owns the store.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{HandleError, Query, Queues, Which, WorkerSignal};
use crate::settings::Settings;
use crate::store::{Action, QueueAction};
use crate::view;

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, HandleError>>;

/// A request and its place among `limits.admin_requests_max`, held until it is answered.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) request: Request,
    pub(crate) slot: OwnedSemaphorePermit,
}

/// One method of [`super::Handle`], with its arguments.
#[derive(Debug)]
pub(crate) enum Request {
    Overview(Reply<view::Overview>),
    Queues(Reply<Vec<view::Queue>>),
    Jobs(Query, Reply<view::Page>),
    Count(Query, Reply<u64>),
    Job(String, Reply<Option<view::Job>>),
    Workers(Reply<Vec<view::Worker>>),
    Reservations(usize, Reply<Vec<view::Reservation>>),
    Push(Vec<Vec<u8>>, Reply<view::Pushed>),
    Import(Vec<Vec<u8>>, Reply<view::Pushed>),
    Act(String, Which, Action, Reply<u64>),
    ActOnQueues(Queues, QueueAction, Reply<u64>),
    SignalWorkers(Option<String>, WorkerSignal, Reply<u64>),
    Damages(Reply<Vec<view::Damage>>),
    AcknowledgeDamages(Reply<u64>),
    Ready(Reply<()>),
    Reload(Box<Settings>, Reply<Vec<String>>),
}

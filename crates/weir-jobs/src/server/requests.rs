//! Processes the requests of [`crate::handle::Handle`], each in its own task.

use std::rc::Rc;

use tokio::sync::mpsc::Receiver;
use weir_base::shutdown::ShutdownToken;

use super::parsing::{parse_filter, parse_key, parse_location, query_filter};
use super::queue_limit::push_each;
use super::replies::{reply_unless_dropped, send_reply};
use super::{
    JobService, batches, cancel, cron, import, leased_limits, limits, reload, state_lines, steps,
    tasks, views, walk, xray,
};
use crate::handle::{Envelope, HandleError, HandleRequest, JobQuery, Queues, Which, WorkerSignal};
use crate::model::{QueueName, WorkerDirective};
use crate::quarantine;
use crate::store::{
    Action, FindOutcome, QueueAction, ScanRequest, Selection, Store, StoreCondition, StoreError,
};
use crate::view;

/// Processes requests until the server ends.
pub(super) async fn run<S: Store>(
    service: Rc<JobService<S>>,
    mut requests: Receiver<Envelope>,
    shutdown: ShutdownToken,
) {
    loop {
        let envelope = tokio::select! {
            biased;
            () = shutdown.requested() => return,
            envelope = requests.recv() => envelope,
        };
        let Some(Envelope { request, slot }) = envelope else {
            return;
        };
        let service = Rc::clone(&service);
        shutdown.spawn_local(async move {
            let _slot = slot;
            process_request(&service, request).await;
        });
    }
}

async fn process_request<S: Store>(service: &JobService<S>, request: HandleRequest) {
    match request {
        HandleRequest::Overview(reply) => send_reply(reply, Ok(views::overview(service).await)),
        HandleRequest::Queues(reply) => send_reply(reply, Ok(views::queues(service).await)),
        HandleRequest::Limits(reply) => send_reply(reply, Ok(limits::limits(service).await)),
        HandleRequest::Jobs(query, reply) => {
            reply_unless_dropped(reply, page(service, query)).await
        }
        HandleRequest::Count(query, reply) => {
            reply_unless_dropped(reply, count(service, query)).await
        }
        HandleRequest::Xray(query, reply) => {
            reply_unless_dropped(reply, xray::xray(service, query)).await
        }
        HandleRequest::Job(jid, reply) => reply_unless_dropped(reply, job(service, jid)).await,
        HandleRequest::Workers(reply) => send_reply(reply, Ok(workers(service))),
        HandleRequest::Reservations(limit, reply) => {
            send_reply(reply, Ok(reservations(service, limit).await));
        }
        HandleRequest::Push(jobs, reply) => send_reply(reply, push(service, &jobs).await),
        HandleRequest::Import(lines, mode, reply) => {
            send_reply(reply, import::import(service, &lines, mode).await)
        }
        HandleRequest::ExportedState(place, after, reply) => {
            reply_unless_dropped(reply, state_lines::page(service, place, after)).await
        }
        HandleRequest::Act(location, which, action, reply) => {
            send_reply(reply, act(service, &location, which, action).await);
        }
        HandleRequest::ActStep(query, reply) => {
            send_reply(reply, steps::step(service, query).await);
        }
        HandleRequest::Cancel(query, reply) => {
            send_reply(reply, cancel::cancel(service, query).await);
        }
        HandleRequest::Task(call) => tasks::process(service, call).await,
        HandleRequest::ActOnQueues(queues, action, reply) => {
            send_reply(reply, act_on_queues(service, queues, action).await);
        }
        HandleRequest::SignalWorkers(wid, signal, reply) => {
            let mut workers = service.workers.borrow_mut();
            send_reply(reply, Ok(workers.send_directive(wid.as_deref(), directive(signal))));
        }
        HandleRequest::Damages(reply) => send_reply(reply, Ok(damages(service))),
        HandleRequest::AcknowledgeDamages(reply) => {
            let acknowledged = service.store.acknowledge_damages().await;
            send_reply(reply, acknowledged.map_err(HandleError::from));
        }
        HandleRequest::BackupPoint(reply) => {
            let point = service.store.backup_point().await;
            send_reply(reply, point.map(views::backup_point).map_err(HandleError::from));
        }
        HandleRequest::Cron(reply) => send_reply(reply, cron::list(service).await),
        HandleRequest::Batches(after, limit, reply) => {
            send_reply(reply, batches::list(service, after.as_deref(), limit).await);
        }
        HandleRequest::Batch(bid, reply) => send_reply(reply, batches::show(service, &bid).await),
        HandleRequest::ActOnCron(name, action, reply) => {
            send_reply(reply, cron::act(service, &name, action).await);
        }
        HandleRequest::Ready(reply) => send_reply(reply, ready(service).await),
        HandleRequest::Reload(settings, reply) => {
            send_reply(reply, Ok(reload::reload(service, *settings)))
        }
        HandleRequest::LimitTemporarily(limits, lease, reply) => {
            let set = leased_limits::set(service, limits, lease);
            send_reply(reply, set.map_err(HandleError::from));
        }
    }
}

fn workers<S: Store>(service: &JobService<S>) -> Vec<view::JobWorkerView> {
    service.workers.borrow().view(|wid| service.store.busy(wid))
}

async fn reservations<S: Store>(
    service: &JobService<S>,
    limit: usize,
) -> Vec<view::ReservationView> {
    let limit = limit.min(service.settings().limits.page_jobs_max);
    let reserved = service.store.reservations(limit).await;
    reserved.into_iter().map(views::reservation).collect()
}

fn damages<S: Store>(service: &JobService<S>) -> Vec<view::Damage> {
    service.store.damages().into_iter().map(views::damage).collect()
}

const fn directive(signal: WorkerSignal) -> WorkerDirective {
    match signal {
        WorkerSignal::Quiet => WorkerDirective::Quiet,
        WorkerSignal::Terminate => WorkerDirective::Terminate,
    }
}

async fn page<S: Store>(
    service: &JobService<S>,
    query: JobQuery,
) -> Result<view::JobListPage, HandleError> {
    let settings = service.settings();
    let limits = &settings.limits;
    let location = parse_location(&query.place, service)?;
    let after = query.after.as_deref().map(parse_key).transpose()?;
    let filter = query_filter(&query);
    let total = walk::total(service, &location).await;
    let page = service
        .store
        .scan(ScanRequest {
            place: location,
            after,
            newest_first: query.newest_first,
            limit: query.limit.unwrap_or(limits.page_jobs_max).clamp(1, limits.page_jobs_max),
            scan_max: limits.scan_jobs_max,
            filter,
        })
        .await?;
    Ok(view::JobListPage {
        jobs: page.jobs.into_iter().map(views::job).collect(),
        next: page.next.map(|key| key.to_string()),
        scanned: page.scanned as u64,
        total,
        missing: page.missing,
    })
}

async fn count<S: Store>(service: &JobService<S>, query: JobQuery) -> Result<u64, HandleError> {
    let location = parse_location(&query.place, service)?;
    let filter = query_filter(&query);
    Ok(walk::count_matching(service, &service.settings(), location, filter).await?)
}

async fn job<S: Store>(
    service: &JobService<S>,
    jid: String,
) -> Result<Option<view::JobView>, HandleError> {
    match service.store.find(&jid).await? {
        FindOutcome::Found(job) => Ok(Some(views::job(job))),
        FindOutcome::NotFound => Ok(None),
        FindOutcome::NotSearched { searched } => Err(HandleError::NotSearched { searched }),
    }
}

async fn push<S: Store>(
    service: &JobService<S>,
    texts: &[Vec<u8>],
) -> Result<view::Pushed, HandleError> {
    let settings = service.settings();
    let now = service.clock.now();
    let mut batch = service.take_batch();
    let mut pushed = view::Pushed::default();
    let mut lines = Vec::with_capacity(texts.len());
    for (line, text) in (1..).zip(texts) {
        match batch.add(text, now, &settings.limits) {
            Ok(()) => lines.push(line),
            Err(error) => {
                let error = error.to_string();
                pushed.rejected.push(view::Rejected { line, jid: None, error });
            }
        }
    }
    let jobs = batch.jobs();
    let stored = push_each(service, &settings, &jobs).await;
    for ((line, job), stored) in lines.into_iter().zip(&jobs).zip(stored) {
        match stored {
            Ok(()) => pushed.accepted += 1,
            Err(error) => pushed.rejected.push(view::Rejected {
                line,
                jid: Some(job.jid.to_owned()),
                error: error.to_string(),
            }),
        }
    }
    service.recycle_batch(batch);
    pushed.rejected.sort_by_key(|rejected| rejected.line);
    pushed.rejected_total = pushed.rejected.len() as u64;
    Ok(pushed)
}

async fn act<S: Store>(
    service: &JobService<S>,
    text: &str,
    which: Which,
    action: Action,
) -> Result<u64, HandleError> {
    let location = parse_location(text, service)?;
    let action = steps::check_place(&location, action)?;
    let settings = service.settings();
    match which {
        Which::Keys(keys) => {
            let keys = keys.iter().map(|text| parse_key(text)).collect::<Result<_, _>>()?;
            Ok(service.store.act(&location, &Selection::Entries(keys), action).await?)
        }
        Which::Matching { search, jobtype } => {
            let filter = parse_filter(search.as_deref(), jobtype);
            Ok(walk::act_on_matching(service, &settings, &location, filter, action).await?)
        }
    }
}

async fn act_on_queues<S: Store>(
    service: &JobService<S>,
    queues: Queues,
    action: QueueAction,
) -> Result<u64, HandleError> {
    let names = resolve_queues(service, queues).await?;
    Ok(service.store.act_on_queues(&names, action).await?)
}

/// Returns the queues to act on. Unknown names are an error here, because they are typos of an
/// operator.
async fn resolve_queues<S: Store>(
    service: &JobService<S>,
    queues: Queues,
) -> Result<Vec<QueueName>, HandleError> {
    let known = service.store.counts().await.queues.into_iter().map(|queue| queue.name);
    let names = match queues {
        // Quarantined jobs neither run nor end because of an action on all queues.
        Queues::All => {
            return Ok(known.filter(|name| quarantine::parts(name.as_str()).is_none()).collect());
        }
        Queues::Named(names) => names,
    };
    let known: Vec<QueueName> = known.collect();
    names
        .into_iter()
        .map(|name| {
            let found = known.iter().find(|queue| queue.as_str() == name);
            found.cloned().ok_or_else(|| unknown_queue(&name))
        })
        .collect()
}

fn unknown_queue(name: &str) -> HandleError {
    HandleError::Invalid(format!("there is no queue {name:?}"))
}

async fn ready<S: Store>(service: &JobService<S>) -> Result<(), HandleError> {
    match service.store.storage().await.condition {
        StoreCondition::Ok | StoreCondition::Degraded(_) => Ok(()),
        StoreCondition::Low | StoreCondition::Full => Err(StoreError::DiskFull.into()),
        StoreCondition::Failed(problem) => Err(StoreError::Failed(problem).into()),
        StoreCondition::Unavailable(problem) => Err(StoreError::Unavailable(problem).into()),
    }
}

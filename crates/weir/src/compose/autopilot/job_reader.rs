//! Reads the state of the job server for the autopilot.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use tokio::time::{Duration, Instant};
use weir_autopilot::load::{ClassFigures, JobsLoad, QueueFigures};
use weir_autopilot::sources::JobSource;
use weir_jobs::handle::{Handle, HandleError, JobTypeQuery, JobTypesQuery, TypeOrder, XrayQuery};
use weir_jobs::quarantine;
use weir_jobs::view::{JobTypeView, QueueView};

/// Queues whose waiting jobs are sampled: those with the most.
const SAMPLED_QUEUES: usize = 20;
/// Job types in a sample of waiting jobs.
const SAMPLED_TYPES: usize = 100;
/// How long it is believed from which queue most jobs of a type come.
const QUEUE_OF_TYPE: Duration = Duration::from_secs(60);
/// The recent figures of types, in minutes. Only their totals are used.
const MINUTES: u32 = 5;

/// Reads the state of a job server.
#[derive(Debug)]
pub(super) struct JobReader {
    jobs: Handle,
    waiting_samples: usize,
    queue_of: HashMap<String, (String, Instant)>,
}

impl JobReader {
    pub(super) fn new(jobs: Handle, waiting_samples: usize) -> Self {
        Self { jobs, waiting_samples, queue_of: HashMap::new() }
    }

    async fn read(&mut self) -> Result<JobsLoad, HandleError> {
        let overview = self.jobs.overview().await?;
        let mut queues = self.jobs.queues().await?;
        // Quarantined jobs do not run.
        queues.retain(|queue| quarantine::parts(&queue.name).is_none());
        let query = JobTypesQuery { sort: TypeOrder::Run, minutes: Some(MINUTES), queue: None };
        let types = self.jobs.job_types(&query)?;
        self.queue_of.retain(|name, _| types.types.iter().any(|it| it.jobtype == *name));
        let classes: Vec<ClassFigures> = types.types.iter().map(|it| self.class(it)).collect();
        let other_classes = types.other.as_ref().map(|it| figures(it, String::new()));
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.depth));
        let mut read = Vec::with_capacity(queues.len());
        for (place, queue) in queues.iter().enumerate() {
            let by_class = match place < SAMPLED_QUEUES && is_waiting(queue) {
                true => self.waiting_by_class(&queue.name).await,
                false => Vec::new(),
            };
            read.push(queue_figures(queue, by_class));
        }
        Ok(JobsLoad {
            queues: read,
            classes,
            other_classes,
            busy: number(overview.working),
            idle: number(overview.fetches_waiting),
            ..JobsLoad::default()
        })
    }

    fn class(&mut self, view: &JobTypeView) -> ClassFigures {
        let now = Instant::now();
        let known = self.queue_of.get(&view.jobtype);
        let known = known.filter(|(_, at)| now.duration_since(*at) < QUEUE_OF_TYPE);
        let queue = match known {
            Some((queue, _)) => queue.clone(),
            None => {
                let name = view.jobtype.clone();
                let query = JobTypeQuery { name: name.clone(), minutes: Some(MINUTES) };
                let details = self.jobs.job_type(&query).ok().flatten();
                let queue = details.and_then(|it| it.queues.into_iter().next());
                let queue = queue.map(|it| it.queue).unwrap_or_default();
                self.queue_of.insert(name, (queue.clone(), now));
                queue
            }
        };
        figures(view, queue)
    }

    /// Returns how many jobs of each type wait, as far as a sample tells. Unknown if the job server is busy.
    async fn waiting_by_class(&self, queue: &str) -> Vec<(String, u64)> {
        let query = XrayQuery {
            place: format!("queue:{queue}"),
            sample: Some(self.waiting_samples),
            top: Some(SAMPLED_TYPES),
            ..XrayQuery::default()
        };
        let Ok(view) = self.jobs.xray(query).await else { return Vec::new() };
        let by_type = view.groups.into_iter().find(|group| group.by == "jobtype");
        let rows = by_type.map(|group| group.rows).unwrap_or_default();
        rows.into_iter().filter_map(|row| Some((row.value?, row.jobs))).collect()
    }
}

impl JobSource for JobReader {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<JobsLoad>, String>> {
        Box::pin(async { self.read().await.map(Some).map_err(|error| error.to_string()) })
    }
}

/// Returns whether jobs wait that workers may take: those of a paused queue wait for an operator.
fn is_waiting(queue: &QueueView) -> bool {
    queue.depth > 0 && !queue.paused
}

fn queue_figures(queue: &QueueView, waiting_by_class: Vec<(String, u64)>) -> QueueFigures {
    let is_waiting = is_waiting(queue);
    QueueFigures {
        name: queue.name.clone(),
        waiting: if is_waiting { queue.depth } else { 0 },
        oldest_age_seconds: if is_waiting { queue.latency_seconds } else { 0.0 },
        pushed_total: queue.pushed,
        in_flight: number(queue.working),
        is_unmanaged: false,
        target_seconds: queue.target_latency_seconds,
        waiting_by_class,
    }
}

fn figures(view: &JobTypeView, queue: String) -> ClassFigures {
    ClassFigures {
        name: view.jobtype.clone(),
        queue,
        in_flight: number(view.running),
        ended_total: view.total.ended,
        run_seconds_total: view.total.run_seconds,
    }
}

fn number(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

//! Measures workers, and replaces those that exceed a limit: one of an app at a time, and none
//! while its workers change for another reason.

use std::collections::BTreeMap;
use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_admin::workers::SharedApp as _;
use weir_supervisor::control::{ParentCommand, RollingState, WorkerPhase};

use super::metrics::Kind;
use super::recycling::{Facts, Limit, exceeded_limit};
use super::{Sizes, Worker, WorkerRoute, Workers, memory};

/// Delay before another attempt to replace a worker whose successor did not start.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Without any limit there is nothing to measure.
const NO_LIMIT_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

impl Workers {
    pub(super) fn sample_interval(&self) -> Duration {
        for group in self.recycling.keys() {
            self.metrics.initialize(self.kind(group), group);
        }
        let intervals = self.recycling.values().map(|recycling| recycling.interval);
        intervals.min().unwrap_or(NO_LIMIT_INTERVAL)
    }

    /// Starts a measurement of all ready workers; [`Workers::recycle`] processes it.
    pub(super) fn measure(&self) {
        let Ok(permit) = self.measured_sender.clone().try_reserve_owned() else {
            // The last measurement is still in progress.
            return;
        };
        let ready = self.known.iter().filter(|(_, worker)| worker.phase == WorkerPhase::Ready);
        let pids: Vec<(u64, i32)> = ready.map(|(generation, it)| (*generation, it.pid)).collect();
        self.probes.spawn(async move {
            let sizes = tokio::task::spawn_blocking(move || {
                let sizes = pids.into_iter();
                sizes.filter_map(|(it, pid)| Some((it, memory::pss_bytes(pid)?))).collect()
            });
            permit.send(sizes.await.unwrap_or_default());
        });
    }

    /// Publishes the sizes, and replaces workers that exceed a limit.
    pub(super) async fn recycle(&mut self, sizes: &Sizes) -> io::Result<()> {
        self.publish_sizes(sizes);
        if self.draining.is_cancelled() || self.is_in_snapshot {
            return Ok(());
        }
        for (generation, limit, why) in self.find_exceeding(sizes) {
            let Some(Worker { app, slot, .. }) = self.known.get(&generation) else { continue };
            let (app, slot) = (app.clone(), *slot);
            self.recycled.insert(generation, self.clock.now());
            let command = ParentCommand::Restart { group: app.clone(), slot };
            self.await_replacement(&app, slot, generation, limit, why);
            self.send_command(command).await?;
        }
        Ok(())
    }

    /// Waits for the outcome of a replacement in the background. Call it before the request is
    /// sent.
    fn await_replacement(
        &mut self,
        app: &str,
        slot: u32,
        generation: u64,
        limit: Limit,
        why: String,
    ) {
        let kind = self.kind(app);
        let (reply, answered) = oneshot::channel();
        self.pending.insert(self.last_id + 1, reply);
        let (app, metrics) = (app.to_owned(), self.metrics.clone());
        let reported = std::sync::Arc::clone(&self.reported);
        let shutdown = self.probes.clone();
        self.probes.spawn(async move {
            let answered = tokio::select! {
                answered = answered => answered,
                () = shutdown.requested() => return,
            };
            match answered {
                Ok(Ok(_)) => {
                    tracing::info!(app, worker = slot, generation, "recycled: {why}");
                    metrics.recycled(kind, &app, limit);
                    let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
                    reported.recycled.insert(generation, why);
                }
                Ok(Err(reason)) => {
                    tracing::info!(
                        app,
                        worker = slot,
                        reason,
                        "recycling postponed, although {why}"
                    );
                }
                // The parent is gone.
                Err(_) => {}
            }
        });
    }

    /// Returns at most one worker of each app that exceeds a limit.
    fn find_exceeding(&self, sizes: &Sizes) -> Vec<(u64, Limit, String)> {
        let now = self.clock.now();
        let given = self.requests_given();
        let mut exceeding = BTreeMap::new();
        for (&generation, worker) in &self.known {
            let app = &worker.app;
            let Some(recycling) = self.recycling.get(app) else { continue };
            let was_tried = self.recycled.get(&generation);
            let is_tried = was_tried.is_some_and(|at| now.since(*at) < RETRY_AFTER);
            if is_tried || exceeding.contains_key(app) || self.is_busy(app) {
                continue;
            }
            let facts = Facts {
                generation,
                pss_bytes: sizes.get(&generation).copied(),
                age: now.since(worker.started),
                requests: self.request_count(worker, &given),
            };
            if let Some((limit, why)) = exceeded_limit(recycling, &facts) {
                exceeding.insert(app.clone(), (generation, limit, why));
            }
        }
        exceeding.into_values().collect()
    }

    fn kind(&self, group: &str) -> Kind {
        if self.processes.contains_key(group) { Kind::App } else { Kind::Jobs }
    }

    /// Returns whether workers of the app are already being started or stopped.
    fn is_busy(&self, app: &str) -> bool {
        let mut own = self.known.values().filter(|worker| worker.app == app);
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let group = reported.groups.get(app);
        let is_rolling = group.is_some_and(|group| {
            matches!(group.rolling, Some(RollingState::Running { .. })) || group.is_paused
        });
        is_rolling || own.any(|worker| worker.phase != WorkerPhase::Ready)
    }

    /// Returns the requests that a worker was given; for one that accepts connections itself, those
    /// that it reports as finished.
    fn request_count(&self, worker: &Worker, given: &BTreeMap<String, u64>) -> u64 {
        let requests = match &worker.route {
            WorkerRoute::Proxied(address) => given.get(&address.to_string()).copied(),
            WorkerRoute::Shared(socket_worker) => {
                self.sockets.get(&worker.app).map(|app| app.served(socket_worker.record))
            }
            WorkerRoute::None => None,
        };
        requests.unwrap_or_default()
    }

    /// Returns the number of requests that the proxy gave to each worker, by address.
    fn requests_given(&self) -> BTreeMap<String, u64> {
        let apps = self.apps.view().into_iter();
        let workers = apps.flat_map(|app| app.workers);
        workers.map(|worker| (worker.address, worker.assigned)).collect()
    }

    fn publish_sizes(&self, sizes: &Sizes) {
        for app in self.recycling.keys() {
            let own = sizes.iter().filter(|(generation, _)| {
                self.known.get(generation).is_some_and(|worker| worker.app == *app)
            });
            self.metrics.memory(self.kind(app), app, own.map(|(_, bytes)| bytes).sum());
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.sizes.clone_from(sizes);
    }
}

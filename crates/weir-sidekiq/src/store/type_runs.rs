//! The statistics by type: what this node's workers do with the jobs that they fetch through it.

use std::rc::Rc;

use weir_base::clock::Timestamp;
use weir_jobs::job_types::{StartedJob, TypeRun};
use weir_jobs::model::FailureState;

use super::reservations::Reservation;
use super::store_core::StoreCore;

impl StoreCore {
    /// Counts a job that starts.
    pub(super) fn started_run(&self, job: &Reservation, enqueued_at: Timestamp) -> Rc<TypeRun> {
        let now = self.now();
        let run = self.metrics.types().run_of(&job.class, now);
        // Other programs may store jobs without it.
        let ready_at = (enqueued_at > Timestamp::default()).then_some(enqueued_at);
        run.start(&StartedJob { jid: &job.jid, queue: job.queue.as_str(), ready_at }, now);
        Rc::new(run)
    }

    /// Returns the run of a job that a previous process of this node, or another node, has started.
    pub(super) fn resumed_run(&self, job: &Reservation) -> Rc<TypeRun> {
        Rc::new(self.metrics.types().resumed(&job.class, job.since, self.now()))
    }

    /// Counts the end of a job, with an error or without.
    pub(super) fn end_run(&self, job: &Reservation, failure: Option<&FailureState>) {
        let Some(run) = &job.run else { return };
        match failure {
            Some(failure) => run.failed(&job.jid, failure, self.now()),
            None => run.succeeded(self.now()),
        }
    }

    /// Counts the end of a job that another node has started.
    pub(super) fn end_foreign_run(&self, job: &Reservation, failure: Option<&FailureState>) {
        let run = Some(self.resumed_run(job));
        self.end_run(&Reservation { run, ..job.clone() }, failure);
    }
}

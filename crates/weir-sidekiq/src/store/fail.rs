//! Ends reservations of jobs that failed: retry set, dead set or nothing.

use std::collections::BTreeSet;
use std::rc::Rc;

use weir_base::clock::Timestamp;
use weir_jobs::metrics::{JobServerLimit, StaleReport};
use weir_jobs::model::{FailureCause, FailureReport, FailureState, QueueName, SetName, Wid};
use weir_jobs::rules;
use weir_jobs::store::{FailOutcome, StoreError};

use super::class_metrics::RunOutcome;
use super::features::{FeatureEvent, StoredFeatures};
use super::link_connection::LinkConnection;
use super::move_run::MOVED;
use super::reservations::Reservation;
use super::seconds;
use super::settlement::Settlement;
use super::store_core::StoreCore;
use super::stored::StoredText;
use super::transfer::{TransferOutcome, TransferSource, TransferTarget};
use super::translate;

/// Dead jobs that one script examines to delete them.
const TRIMMED_PER_SCRIPT: usize = 1_000;

impl StoreCore {
    /// Ends the reservations of failed jobs that `reporter` has. Returns the outcomes in the order of
    /// `reports`.
    pub(super) async fn fail_all(
        self: &Rc<Self>,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        let connection = match self.ready().await {
            Ok(connection) => connection,
            Err(error) => return reports.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut taken = BTreeSet::new();
        let failing: Vec<_> = reports
            .into_iter()
            .map(|report| {
                let number = {
                    let state = self.state.borrow();
                    let mut numbers = state.reservations.reported(&report.jid, reporter);
                    numbers.find(|number| !taken.contains(number))
                };
                taken.extend(number);
                self.fail_reported(connection.clone(), reporter, number, report)
            })
            .collect();
        let outcomes = futures_util::future::join_all(failing).await;
        self.wake_waiting_fetches();
        outcomes
    }

    async fn fail_reported(
        self: &Rc<Self>,
        mut connection: LinkConnection,
        reporter: Option<&Wid>,
        number: Option<u64>,
        report: FailureReport,
    ) -> Result<FailOutcome, StoreError> {
        let Some(number) = number else {
            let is_stale = {
                let state = &mut *self.state.borrow_mut();
                let is_reserved = state.reservations.with_jid(&report.jid).next().is_some();
                let is_of_another = reporter.is_some() && is_reserved;
                state.lost.remove(&report.jid) || is_of_another
            };
            if is_stale {
                self.metrics.stale_report(StaleReport::Fail);
                return Err(StoreError::NotFound(report.jid));
            }
            return self.fail_foreign(&mut connection, reporter, report).await;
        };
        let since = {
            let state = self.state.borrow();
            state.reservations.get(number).map(|job| (job.queue.clone(), job.since))
        };
        let outcome = self.fail_job(&mut connection, number, report, FailureCause::Run).await;
        if let Err(StoreError::NotFound(_)) = &outcome {
            self.metrics.stale_report(StaleReport::Fail);
        }
        if let Some((queue, since)) = since.filter(|_| outcome.is_ok()) {
            self.observe_run(&queue, since);
        }
        outcome
    }

    /// Fails one of this node's reserved jobs.
    pub(super) async fn fail_job(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        number: u64,
        report: FailureReport,
        cause: FailureCause,
    ) -> Result<FailOutcome, StoreError> {
        let jid = report.jid.clone();
        let job = self.state.borrow().reservations.get(number).cloned();
        let job = job.ok_or_else(|| StoreError::NotFound(jid.clone()))?;
        let now = self.now();
        let (outcome, text, failure) = self.decide_failure(&job, report, cause, now);
        let queue = &job.queue;
        let Some(owner) = self.owner.borrow().clone() else {
            return Err(StoreError::NotFound(jid));
        };
        let field = owner.field(number);
        let was_there = self.end_reserved(connection, &job, &field, outcome, &text).await?;
        let held = self.state.borrow_mut().reservations.remove(number);
        if !was_there || held.is_none() {
            return Err(StoreError::NotFound(jid));
        }
        self.record_class(&job, RunOutcome::Failed);
        self.end_run(&job, Some(&failure));
        self.note_failed(&job, outcome);
        self.count(queue, |totals| {
            totals.processed += 1;
            totals.failed += 1;
        });
        Ok(outcome)
    }

    /// Fails a job that another node has reserved.
    async fn fail_foreign(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        reporter: Option<&Wid>,
        report: FailureReport,
    ) -> Result<FailOutcome, StoreError> {
        let not_found = StoreError::NotFound(report.jid.clone());
        if !self.may_search_foreign() {
            return Err(not_found);
        }
        let found = self.foreign_reservation(connection, reporter, &report.jid).await?;
        let found = found.ok_or_else(|| not_found.clone())?;
        let (outcome, text, failure) =
            self.decide_failure(&found.job, report, FailureCause::Run, self.now());
        let (queue, field) = (&found.job.queue, found.field());
        if !self.end_reserved(connection, &found.job, &field, outcome, &text).await? {
            return Err(not_found);
        }
        self.record_class(&found.job, RunOutcome::Failed);
        self.end_foreign_run(&found.job, Some(&failure));
        self.note_failed(&found.job, outcome);
        self.count(queue, |totals| {
            totals.processed += 1;
            totals.failed += 1;
        });
        Ok(outcome)
    }

    /// Moves a failed job to where its failure ends. Returns whether it was still reserved.
    async fn end_reserved(
        &self,
        connection: &mut LinkConnection,
        job: &Reservation,
        field: &str,
        outcome: FailOutcome,
        text: &[u8],
    ) -> Result<bool, StoreError> {
        let (name, tag) = (job.queue.as_str(), self.tag(job.features.as_deref()));
        let failed = tag.as_deref().map(|tag| (failed_event(job, text), tag));
        let by = Settlement { tag: failed, ..Settlement::default() };
        match outcome {
            FailOutcome::Discarded => {
                self.end_field(connection, name, field, FeatureEvent::Lost, tag.as_deref()).await
            }
            FailOutcome::Retry { next_at } => {
                let retries = self.keys.retries();
                self.settle_field(connection, name, field, by, &retries, next_at, text).await
            }
            FailOutcome::Dead => {
                let (dead, now) = (self.keys.dead(), self.now());
                let moved =
                    self.settle_field(connection, name, field, by, &dead, now, text).await?;
                if moved {
                    // At once, so that they take one round trip.
                    let (forgotten, trimmed) = futures_util::future::join(
                        self.forget_kills(connection.clone(), name, &[&job.jid]),
                        self.trim_dead(&mut connection.clone(), ""),
                    )
                    .await;
                    note_left_over(forgotten.and(trimmed));
                }
                Ok(moved)
            }
        }
    }

    /// Decides how a failure ends. Returns the text to store, and what is known of the failure.
    fn decide_failure(
        &self,
        job: &Reservation,
        report: FailureReport,
        cause: FailureCause,
        now: Timestamp,
    ) -> (FailOutcome, Vec<u8>, FailureState) {
        let Ok(text) = StoredText::parse(&job.payload, usize::MAX) else {
            // It was parsed when it was reserved.
            return (FailOutcome::Dead, job.payload.clone(), FailureState::default());
        };
        let facts = rules::FailedJob {
            retry: text.retry(),
            backtrace: text.backtrace_lines(),
            previous: text.previous_failure(),
            cause,
        };
        let random = &mut self.state.borrow_mut().random;
        let (outcome, failure) = rules::fail(&facts, report, now, random);
        let outcome = match outcome {
            // Why workers died must not go unseen.
            FailOutcome::Dead if cause == FailureCause::Run && !text.may_die() => {
                FailOutcome::Discarded
            }
            outcome => outcome,
        };
        let failure = without_lines(failure, text.backtrace_lines());
        (outcome, translate::failed(&text, &failure), failure)
    }

    /// Moves one of this node's reserved jobs to `set`. An empty `text` keeps the stored one.
    /// Returns whether it was still there.
    pub(super) async fn settle(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        number: u64,
        set: &str,
        score: Timestamp,
        text: &[u8],
    ) -> Result<bool, StoreError> {
        let Some(owner) = self.owner.borrow().clone() else { return Ok(false) };
        let field = owner.field(number);
        let by = Settlement::default();
        self.settle_field(connection, queue.as_str(), &field, by, set, score, text).await
    }

    /// Moves a reserved job to `set`. Returns whether it was still there.
    #[expect(clippy::too_many_arguments, reason = "one for each argument of the script")]
    pub(super) async fn settle_field(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        field: &str,
        by: Settlement<'_>,
        set: &str,
        score: Timestamp,
        text: &[u8],
    ) -> Result<bool, StoreError> {
        if self.is_split() {
            let (list, reserved) = (self.keys.list(queue), self.keys.reserved(queue));
            let source = TransferSource::Reserved { list: &list, reserved: &reserved };
            let target = TransferTarget::Set { key: set.to_owned(), score: seconds::text(score) };
            let jobs = [(field.as_bytes(), text)];
            return match self.transfer(connection, source, &target, by, &jobs).await? {
                TransferOutcome::Left(left) => Ok(left == [MOVED]),
                TransferOutcome::LeaseOver => Ok(false),
                TransferOutcome::Rejected => {
                    Err(StoreError::Unavailable(format!("{set} in Redis has another type")))
                }
            };
        }
        let mut invocation =
            self.scripts.settle.of(by.tag.is_some()).key(self.keys.reserved(queue));
        invocation.key(set).key(self.keys.nodes());
        invocation.arg(field).arg(by.victim).arg(by.token).arg(seconds::text(score)).arg(text);
        if let Some((event, tag)) = by.tag {
            invocation.key(&self.keys.features()[..]);
            invocation.arg(event.as_str()).arg(tag);
        }
        let moved: Result<u8, _> = invocation.invoke_async(connection).await;
        moved.map(|moved| moved == 1).map_err(|error| self.link.failed(&error))
    }

    /// Deletes dead jobs beyond the limits of number and age, the oldest first. With a `token`, only
    /// while its lease is alive.
    pub(super) async fn trim_dead(
        &self,
        connection: &mut LinkConnection,
        token: &str,
    ) -> Result<(), StoreError> {
        let oldest = seconds::text(self.now() - self.limits.dead_age_max);
        if !token.is_empty() {
            self.take_set_lease(connection, SetName::Dead).await?;
        }
        let mut invocation = self.scripts.trim.key(self.keys.dead());
        invocation.key(self.lease_key(&self.keys.dead()));
        invocation.arg(token).arg(oldest).arg(self.limits.dead_jobs_max);
        invocation.arg(TRIMMED_PER_SCRIPT).arg(self.feature_texts());
        let trimmed = invocation.invoke_async(connection).await;
        let mut trimmed: Vec<Vec<u8>> = trimmed.map_err(|error| self.link.failed(&error))?;
        let with_features = trimmed.split_off(trimmed.len().min(1));
        let count = trimmed.pop().and_then(|count| String::from_utf8(count).ok()?.parse().ok());
        for _ in 0..count.unwrap_or(0_u64) {
            self.metrics.limit_hit(JobServerLimit::DeadJobsMax);
        }
        if with_features.is_empty() {
            return Ok(());
        }
        self.delete_dead(connection, with_features, token).await
    }
}

/// Returns what a failure means for the features of a job with this new text: its lock is one of its queue.
fn failed_event(job: &Reservation, text: &[u8]) -> FeatureEvent {
    let lock = job.features.as_ref().and_then(|features| features.lock());
    let next = StoredFeatures::of_payload(text).and_then(|features| features.lock());
    if lock == next { FeatureEvent::Failed } else { FeatureEvent::FailedUnlocked }
}

/// Notes what could not be done after jobs died: they are dead nevertheless. The next death trims the dead set, and counts
/// of kills are forgotten after three days.
pub(super) fn note_left_over(outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "jobs are dead, and the dead set was not trimmed or their kills are not forgotten");
    }
}

/// Sidekiq's `backtrace: false` stores no lines, which Faktory's rules do not know.
fn without_lines(mut failure: FailureState, lines: u32) -> FailureState {
    failure.backtrace.truncate(lines as usize);
    failure
}

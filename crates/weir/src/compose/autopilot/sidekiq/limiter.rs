//! Carries out the limits of Sidekiq: threads of groups of workers, and one class of jobs.

use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_autopilot::sources::{Actuator, CarriedLimits, ChangeProgress};

use super::class_limiter::{self, ClassLimiter};
use super::thread_limiter::ThreadLimiter;

/// Limits what the observed Sidekiq does.
#[derive(Debug)]
pub(in crate::compose::autopilot) struct SidekiqLimiter {
    threads: ThreadLimiter,
    classes: ClassLimiter,
}

impl SidekiqLimiter {
    pub(super) fn new(threads: ThreadLimiter, classes: ClassLimiter) -> Self {
        Self { threads, classes }
    }
}

impl Actuator for SidekiqLimiter {
    fn apply<'a>(
        &'a mut self,
        limits: &'a CarriedLimits,
        lease: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let of_threads = self.threads.carry_out(limits, lease).await;
            let of_class = self.classes.carry_out(limits, lease).await;
            of_threads.and(of_class)
        })
    }

    fn take_task(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.classes.mover.as_mut()?.take_task()
    }

    fn can_limit(&mut self, class: &str, acts: bool) -> Result<(), String> {
        self.classes.can_limit(class, acts)
    }

    fn describe_limit(&self, class: &str, queue: &str, jobs: Option<u32>) -> Option<String> {
        class_limiter::describe(class, queue, jobs)
    }

    fn class_problem(&mut self) -> Option<String> {
        self.classes.problem()
    }

    fn progress(&mut self) -> ChangeProgress {
        self.threads.progress()
    }
}

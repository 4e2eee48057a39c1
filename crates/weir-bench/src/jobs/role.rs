//! A connection of a jobs run: it either pushes or drains.

use std::time::Instant;

use super::batch_drain::BatchDrainer;
use super::drain::{DrainPlan, Drainer, Heartbeat};
use super::push::Pusher;
use super::tallies::JobTallies;
use crate::event_loop::{Exchange, LoadError};

#[derive(Debug)]
pub(crate) enum Role<'run> {
    Pusher(Pusher<'run>),
    Drainer(Drainer<'run>),
    BatchDrainer(BatchDrainer<'run>),
}

impl<'run> Role<'run> {
    /// Creates a drainer: one by one or in batches, depending on `plan`.
    pub(crate) fn from_plan(plan: &'run DrainPlan<'run>, heartbeat: Option<Heartbeat>) -> Self {
        match plan.batch {
            None => Self::Drainer(Drainer::new(plan, heartbeat)),
            Some(batch) => Self::BatchDrainer(BatchDrainer::new(plan, batch, heartbeat)),
        }
    }
}

impl Exchange for Role<'_> {
    type Tally = JobTallies;

    fn append_commands(&mut self, now: Instant, out: &mut Vec<u8>) {
        match self {
            Self::Pusher(pusher) => pusher.append_commands(now, out),
            Self::Drainer(drainer) => drainer.append_commands(now, out),
            Self::BatchDrainer(drainer) => drainer.append_commands(now, out),
        }
    }

    fn receive(
        &mut self,
        now: Instant,
        input: &[u8],
        out: &mut Vec<u8>,
        tally: &mut JobTallies,
    ) -> Result<usize, LoadError> {
        match self {
            Self::Pusher(pusher) => pusher.receive(now, input, out, tally),
            Self::Drainer(drainer) => drainer.receive(now, input, out, tally),
            Self::BatchDrainer(drainer) => drainer.receive(now, input, out, tally),
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<u8>) {
        match self {
            Self::Pusher(pusher) => pusher.tick(now, out),
            Self::Drainer(drainer) => drainer.tick(now, out),
            Self::BatchDrainer(drainer) => drainer.tick(now, out),
        }
    }

    fn oldest_unanswered(&self) -> Option<Instant> {
        match self {
            Self::Pusher(pusher) => pusher.oldest_unanswered(),
            Self::Drainer(drainer) => drainer.oldest_unanswered(),
            Self::BatchDrainer(drainer) => drainer.oldest_unanswered(),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Pusher(pusher) => pusher.is_done(),
            Self::Drainer(drainer) => drainer.is_done(),
            Self::BatchDrainer(drainer) => drainer.is_done(),
        }
    }
}

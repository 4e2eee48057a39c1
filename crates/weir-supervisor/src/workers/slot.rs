//! One slot of a group: the serving generation, its successor during a replacement, and afterwards
//! the old generation while it ends. Pure: times are arguments, actions are returned.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::generation::{Action, Generation, Moment, Numbers, Phase, Times};
use super::values::LaunchValues;
use crate::restarts::{RestartDecision, RestartHistory, Restarts};

/// A slot for one worker. It never has more than two processes.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    times: Times,
    restarts: Restarts,
    is_wanted: bool,
    pub(crate) current: Option<Generation>,
    /// The successor; becomes the current generation when it is ready.
    pub(crate) successor: Option<Generation>,
    /// The generation that was replaced and is ending.
    pub(crate) leaving: Option<Generation>,
    pub(crate) vacancy: Vacancy,
    /// Whether the next start would fail in the same way, so that it is retried only after
    /// `retry_after`.
    is_permanent_failure: bool,
}

/// Why there is no current generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Vacancy {
    Stopped,
    /// To be started at `start_at`; `reason` is why the last one ended, if that was unrequested.
    Waiting {
        start_at: Duration,
        #[serde(default)]
        reason: Option<String>,
    },
    /// Given up; retried at `retry_at`.
    Failed {
        reason: String,
        deaths_in_a_row: u32,
        retry_at: Duration,
    },
}

/// The serialized state of a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CarriedSlot {
    record: RestartHistory,
    is_wanted: bool,
    current: Option<Generation>,
    successor: Option<Generation>,
    leaving: Option<Generation>,
    vacancy: Vacancy,
}

/// The effect of the end of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitOutcome {
    /// It was requested, or its successor had already replaced it.
    Left,
    /// The successor did not become ready; the old generation stays.
    ReplacementFailed,
    /// The current generation died and its successor, already started, replaces it.
    SuccessorTakesOver,
    Restarting {
        after: Duration,
        deaths_in_a_row: u32,
    },
    GivenUp {
        deaths_in_a_row: u32,
    },
}

/// Why a command cannot be run now.
pub(crate) type CommandError = String;

impl WorkerSlot {
    pub(crate) fn new(times: Times) -> Self {
        Self {
            restarts: Restarts::patient(times.restart.clone()),
            times,
            is_wanted: true,
            current: None,
            successor: None,
            leaving: None,
            vacancy: Vacancy::Waiting { start_at: Duration::ZERO, reason: None },
            is_permanent_failure: false,
        }
    }

    pub(crate) fn carried(&self) -> CarriedSlot {
        CarriedSlot {
            record: self.restarts.record(),
            is_wanted: self.is_wanted,
            current: self.current.clone(),
            successor: self.successor.clone(),
            leaving: self.leaving.clone(),
            vacancy: self.vacancy.clone(),
        }
    }

    pub(crate) fn resume(times: Times, carried: CarriedSlot) -> Self {
        let CarriedSlot { record, is_wanted, current, successor, leaving, vacancy } = carried;
        let restarts = Restarts::resume(times.restart.clone(), record);
        let is_permanent_failure = false;
        Self {
            times,
            restarts,
            is_wanted,
            current,
            successor,
            leaving,
            vacancy,
            is_permanent_failure,
        }
    }

    pub(crate) fn generations(&self) -> impl Iterator<Item = &Generation> {
        [&self.current, &self.successor, &self.leaving].into_iter().flatten()
    }

    fn generations_mut(&mut self) -> impl Iterator<Item = &mut Generation> {
        [&mut self.current, &mut self.successor, &mut self.leaving].into_iter().flatten()
    }

    /// Records what new generations get; those that were started before keep their values.
    pub(crate) fn set_launch(&mut self, launch: &LaunchValues) {
        for generation in self.generations_mut() {
            generation.launch.get_or_insert_with(|| launch.clone());
        }
    }

    /// Returns the database connections of its processes.
    pub(crate) fn connections(&self) -> u64 {
        self.generations().map(|generation| u64::from(generation.connections())).sum()
    }

    /// Returns whether its newest process was started with other values than these.
    pub(crate) fn is_outdated(&self, launch: &LaunchValues) -> bool {
        let newest = self.successor.as_ref().or(self.current.as_ref());
        let values = newest.and_then(|newest| newest.launch.as_ref()).map(|launch| &launch.values);
        self.is_wanted && newest.is_some() && values != Some(&launch.values)
    }

    fn find(&mut self, number: u64) -> Option<&mut Generation> {
        self.generations_mut().find(|generation| generation.number == number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.generations().next().is_none()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Returns why the worker was given up.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.vacancy {
            Vacancy::Failed { reason, .. } => Some(reason),
            Vacancy::Stopped | Vacancy::Waiting { .. } => None,
        }
    }

    /// Returns whether the current generation is ending.
    pub(crate) fn is_ending(&self) -> bool {
        self.current.as_ref().is_some_and(Generation::is_ending)
    }

    /// Returns whether generation `number` is the current one, has served, and is ending without a
    /// request.
    pub(crate) fn exits_on_its_own(&self, number: u64) -> bool {
        let current = self.current.as_ref().filter(|current| current.number == number);
        current.is_some_and(|generation| {
            generation.is_ending() && generation.ready_at.is_some() && !generation.is_dismissed
        })
    }

    /// Returns whether a successor was started and the old generation has not ended.
    pub(crate) fn is_being_replaced(&self) -> bool {
        self.successor.is_some() || self.leaving.is_some()
    }

    /// Returns whether it serves and no replacement is in progress.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_being_replaced() && self.current.as_ref().is_some_and(Generation::is_ready)
    }

    /// Returns when a process is to be started in this slot.
    pub(crate) fn starts_at(&self) -> Option<Duration> {
        match self.vacancy {
            _ if !self.is_wanted || self.current.is_some() => None,
            Vacancy::Stopped => None,
            Vacancy::Waiting { start_at: at, .. } | Vacancy::Failed { retry_at: at, .. } => {
                Some(at)
            }
        }
    }

    /// Returns when a timer expires, except for starts.
    pub(crate) fn wakes_at(&self, moment: Moment) -> Option<Duration> {
        self.generations().filter_map(|generation| generation.wakes_at(moment, &self.times)).min()
    }

    /// Performs what is due, except for starts.
    pub(crate) fn run_due(&mut self, moment: Moment) -> Vec<Action> {
        let times = self.times.clone();
        let due: Vec<Action> = self
            .generations_mut()
            .filter_map(|generation| generation.run_due(moment, &times))
            .collect();
        due.into_iter()
            .flat_map(|action| match action {
                Action::Announce(number) => self.ready(number, moment.now),
                other => vec![other],
            })
            .collect()
    }

    /// Starts the current generation.
    pub(crate) fn start_now(&mut self, numbers: &mut Numbers, now: Duration) -> Action {
        let number = numbers.next();
        self.current = Some(Generation::new(number, now, &self.times));
        Action::Start(number)
    }

    /// Marks a generation as ready. If it is a successor, the old generation is asked to end.
    pub(crate) fn ready(&mut self, number: u64, now: Duration) -> Vec<Action> {
        let Some(generation) = self.find(number) else { return Vec::new() };
        if generation.phase != Phase::Starting {
            return Vec::new();
        }
        generation.mark_ready(now);
        let mut actions = vec![Action::Announce(number)];
        if self.successor.as_ref().is_some_and(|successor| successor.number == number) {
            self.leaving = self.current.take();
            self.current = self.successor.take();
            let old = self.leaving.as_mut();
            actions.extend(old.and_then(|old| old.drain(now, &self.times)));
        }
        actions
    }

    /// Records a sign of life.
    pub(crate) fn alive(&mut self, number: u64, now: Duration) {
        if let Some(generation) = self.find(number) {
            generation.alive_at = now;
        }
    }

    /// Records that a generation announced its own end; it gets the same stop deadline. Returns
    /// false if it was ending already.
    pub(crate) fn record_self_exit(&mut self, number: u64, now: Duration) -> bool {
        let times = self.times.clone();
        let leaving = self.find(number).filter(|generation| !generation.is_ending());
        leaving.map(|generation| generation.start_drain(now, &times)).is_some()
    }

    /// Records that the process of a generation has ended or could not be started.
    pub(crate) fn ended(&mut self, number: u64, reason: &str, now: Duration) -> ExitOutcome {
        let has_number = |candidate: &Option<Generation>| {
            candidate.as_ref().is_some_and(|generation| generation.number == number)
        };
        if has_number(&self.successor) {
            let was_asked = self
                .successor
                .take()
                .is_some_and(|generation| generation.is_dismissed && !self.is_wanted);
            return if was_asked { ExitOutcome::Left } else { ExitOutcome::ReplacementFailed };
        }
        if has_number(&self.leaving) {
            self.leaving = None;
            return ExitOutcome::Left;
        }
        let Some(ended) = self.current.take_if(|current| current.number == number) else {
            return ExitOutcome::Left;
        };
        if let Some(successor) = self.successor.take() {
            self.current = Some(successor);
            return ExitOutcome::SuccessorTakesOver;
        }
        self.set_vacant(&ended, reason, now)
    }

    /// Records that the program of a generation could not be started.
    pub(crate) fn record_start_failure(
        &mut self,
        number: u64,
        reason: &str,
        now: Duration,
    ) -> ExitOutcome {
        self.is_permanent_failure = true;
        let outcome = self.ended(number, reason, now);
        self.is_permanent_failure = false;
        outcome
    }

    fn set_vacant(&mut self, ended: &Generation, reason: &str, now: Duration) -> ExitOutcome {
        if !self.is_wanted {
            self.vacancy = Vacancy::Stopped;
            return ExitOutcome::Left;
        }
        if ended.is_dismissed {
            self.vacancy = Vacancy::Waiting { start_at: now, reason: None };
            return ExitOutcome::Left;
        }
        let verdict = match self.is_permanent_failure {
            true => RestartDecision::GiveUp { deaths_in_a_row: 1 },
            false => self.restarts.record_exit(ended.ready_at.map(|at| now.saturating_sub(at))),
        };
        match verdict {
            RestartDecision::Restart { after, deaths_in_a_row } => {
                let (start_at, reason) = (now.saturating_add(after), Some(reason.to_owned()));
                self.vacancy = Vacancy::Waiting { start_at, reason };
                ExitOutcome::Restarting { after, deaths_in_a_row }
            }
            RestartDecision::GiveUp { deaths_in_a_row } => {
                let retry_at = now.saturating_add(self.times.retry_after);
                let reason = reason.to_owned();
                self.vacancy = Vacancy::Failed { reason, deaths_in_a_row, retry_at };
                ExitOutcome::GivenUp { deaths_in_a_row }
            }
        }
    }

    /// Starts the slot, with a reset restart history.
    pub(crate) fn start(&mut self, now: Duration) {
        self.is_wanted = true;
        // A successor that was stopped with the slot is no replacement that has failed.
        if self.successor.as_ref().is_some_and(Generation::is_ending) {
            self.leaving = self.successor.take();
        }
        self.restarts = Restarts::patient(self.times.restart.clone());
        self.vacancy = Vacancy::Waiting { start_at: now, reason: None };
    }

    /// Stops the slot.
    pub(crate) fn stop(&mut self, now: Duration) -> Vec<Action> {
        self.is_wanted = false;
        self.vacancy = Vacancy::Stopped;
        let times = self.times.clone();
        self.generations_mut().filter_map(|generation| generation.drain(now, &times)).collect()
    }

    /// Starts a successor of the current generation, or a first generation.
    pub(crate) fn replace(
        &mut self,
        numbers: &mut Numbers,
        now: Duration,
    ) -> Result<Option<Action>, CommandError> {
        if self.is_being_replaced() {
            return Err("is being replaced already".into());
        }
        let Some(current) = &self.current else {
            self.start(now);
            return Ok(None);
        };
        if current.is_ending() {
            return Err("is ending already".into());
        }
        let number = numbers.next();
        self.successor = Some(Generation::new(number, now, &self.times));
        Ok(Some(Action::Start(number)))
    }

    /// Asks the current generation to end; another one is started in its place afterwards.
    pub(crate) fn replace_after_end(
        &mut self,
        now: Duration,
    ) -> Result<Option<Action>, CommandError> {
        if self.is_being_replaced() {
            return Err("is being replaced already".into());
        }
        let times = self.times.clone();
        let Some(current) = &mut self.current else {
            self.start(now);
            return Ok(None);
        };
        if current.is_ending() {
            return Err("is ending already".into());
        }
        Ok(current.drain(now, &times))
    }

    /// Records that the service sends a generation no more requests.
    pub(crate) fn release(&mut self, number: u64, now: Duration) -> Option<Action> {
        let times = self.times.clone();
        self.find(number)?.release(now, &times)
    }

    /// Kills one generation, after a dump if one is configured. It is restarted unless a successor
    /// exists.
    pub(crate) fn evict(&mut self, number: u64, reason: &str, now: Duration) -> Option<Action> {
        let times = self.times.clone();
        self.find(number)?.evict(reason, now, &times)
    }

    /// Kills every process.
    pub(crate) fn kill(&mut self, reason: &str) -> Vec<Action> {
        self.generations_mut().map(|generation| generation.kill(reason)).collect()
    }
}

#[cfg(test)]
mod tests;

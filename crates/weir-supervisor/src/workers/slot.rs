//! One place of a group: the generation that serves, during a replacement its successor beside it,
//! and afterwards the old one while it ends. Pure: times come as arguments, actions go out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::generation::{Action, Generation, Moment, Numbers, Phase, Times};
use crate::restarts::{RestartDecision, RestartHistory, Restarts};

/// A place for one worker. It never holds more than two processes.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    times: Times,
    restarts: Restarts,
    is_wanted: bool,
    pub(crate) current: Option<Generation>,
    /// The successor; takes the place of the current one when it is ready.
    pub(crate) successor: Option<Generation>,
    /// Replaced by its successor.
    pub(crate) leaving: Option<Generation>,
    pub(crate) vacancy: Vacancy,
    /// The next start would fail as the last one: it is tried again much later.
    is_hopeless: bool,
}

/// Why there is no current generation, when there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Vacancy {
    Stopped,
    /// To be started then; why the one before ended, if that was unrequested.
    Waiting {
        start_at: Duration,
        #[serde(default)]
        reason: Option<String>,
    },
    /// Given up, to be tried again then.
    Failed {
        reason: String,
        deaths_in_a_row: u32,
        retry_at: Duration,
    },
}

/// A place between two programs of the parent.
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
pub(crate) enum Fate {
    /// It was requested, or its successor had already replaced it.
    Left,
    /// The successor never got ready; the one before it stays.
    ReplacementFailed,
    /// The current one died, its successor is there already.
    SuccessorTakesOver,
    Restarting {
        after: Duration,
        deaths_in_a_row: u32,
    },
    GivenUp {
        deaths_in_a_row: u32,
    },
}

/// Why a command can't be followed now.
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
            is_hopeless: false,
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
        let is_hopeless = false;
        Self { times, restarts, is_wanted, current, successor, leaving, vacancy, is_hopeless }
    }

    pub(crate) fn generations(&self) -> impl Iterator<Item = &Generation> {
        [&self.current, &self.successor, &self.leaving].into_iter().flatten()
    }

    fn generations_mut(&mut self) -> impl Iterator<Item = &mut Generation> {
        [&mut self.current, &mut self.successor, &mut self.leaving].into_iter().flatten()
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

    /// Why it was given up.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.vacancy {
            Vacancy::Failed { reason, .. } => Some(reason),
            Vacancy::Stopped | Vacancy::Waiting { .. } => None,
        }
    }

    /// The present one is on its way out.
    pub(crate) fn is_ending(&self) -> bool {
        self.current.as_ref().is_some_and(Generation::is_ending)
    }

    /// The present one is of that number, has served, and goes without having been asked to.
    pub(crate) fn exits_on_its_own(&self, number: u64) -> bool {
        let current = self.current.as_ref().filter(|current| current.number == number);
        current.is_some_and(|it| it.is_ending() && it.ready_at.is_some() && !it.is_dismissed)
    }

    /// Between the start of a successor and the end of the one before it.
    pub(crate) fn is_being_replaced(&self) -> bool {
        self.successor.is_some() || self.leaving.is_some()
    }

    /// It serves and nothing else is going on.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_being_replaced() && self.current.as_ref().is_some_and(Generation::is_ready)
    }

    /// When a process is to be started here.
    pub(crate) fn starts_at(&self) -> Option<Duration> {
        match self.vacancy {
            _ if !self.is_wanted || self.current.is_some() => None,
            Vacancy::Stopped => None,
            Vacancy::Waiting { start_at: at, .. } | Vacancy::Failed { retry_at: at, .. } => {
                Some(at)
            }
        }
    }

    /// When this slot needs a turn without an event, starts aside.
    pub(crate) fn wakes_at(&self, moment: Moment) -> Option<Duration> {
        self.generations().filter_map(|generation| generation.wakes_at(moment, &self.times)).min()
    }

    /// What is due, starts aside.
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

    /// Starts a current generation.
    pub(crate) fn start_now(&mut self, numbers: &mut Numbers, now: Duration) -> Action {
        let number = numbers.next();
        self.current = Some(Generation::new(number, now, &self.times));
        Action::Start(number)
    }

    /// A generation serves. If it is a successor, the generation before it gets its stop signal.
    pub(crate) fn ready(&mut self, number: u64, now: Duration) -> Vec<Action> {
        let Some(generation) = self.find(number) else { return Vec::new() };
        if generation.phase != Phase::Starting {
            return Vec::new();
        }
        generation.begin(now);
        let mut actions = vec![Action::Announce(number)];
        if self.successor.as_ref().is_some_and(|successor| successor.number == number) {
            self.leaving = self.current.take();
            self.current = self.successor.take();
            let old = self.leaving.as_mut();
            actions.extend(old.and_then(|old| old.drain(now, &self.times)));
        }
        actions
    }

    /// A sign of life.
    pub(crate) fn alive(&mut self, number: u64, now: Duration) {
        if let Some(generation) = self.find(number) {
            generation.alive_at = now;
        }
    }

    /// A generation says itself that it ends: it gets as long as one that was asked to. False: that
    /// is known.
    pub(crate) fn leaves(&mut self, number: u64, now: Duration) -> bool {
        let times = self.times.clone();
        let leaving = self.find(number).filter(|generation| !generation.is_ending());
        leaving.map(|generation| generation.leave(now, &times)).is_some()
    }

    /// The process of a generation has ended, or could not be started.
    pub(crate) fn ended(&mut self, number: u64, reason: &str, now: Duration) -> Fate {
        let is = |place: &Option<Generation>| place.as_ref().is_some_and(|it| it.number == number);
        if is(&self.successor) {
            let was_asked =
                self.successor.take().is_some_and(|it| it.is_dismissed && !self.is_wanted);
            return if was_asked { Fate::Left } else { Fate::ReplacementFailed };
        }
        if is(&self.leaving) {
            self.leaving = None;
            return Fate::Left;
        }
        let Some(ended) = self.current.take_if(|current| current.number == number) else {
            return Fate::Left;
        };
        if let Some(successor) = self.successor.take() {
            self.current = Some(successor);
            return Fate::SuccessorTakesOver;
        }
        self.vacate(&ended, reason, now)
    }

    /// A generation has no program that could be started.
    pub(crate) fn has_no_program(&mut self, number: u64, reason: &str, now: Duration) -> Fate {
        self.is_hopeless = true;
        let fate = self.ended(number, reason, now);
        self.is_hopeless = false;
        fate
    }

    fn vacate(&mut self, ended: &Generation, reason: &str, now: Duration) -> Fate {
        if !self.is_wanted {
            self.vacancy = Vacancy::Stopped;
            return Fate::Left;
        }
        if ended.is_dismissed {
            self.vacancy = Vacancy::Waiting { start_at: now, reason: None };
            return Fate::Left;
        }
        let verdict = match self.is_hopeless {
            true => RestartDecision::GiveUp { deaths_in_a_row: 1 },
            false => self.restarts.died(ended.ready_at.map(|at| now.saturating_sub(at))),
        };
        match verdict {
            RestartDecision::Restart { after, deaths_in_a_row } => {
                let (start_at, reason) = (now.saturating_add(after), Some(reason.to_owned()));
                self.vacancy = Vacancy::Waiting { start_at, reason };
                Fate::Restarting { after, deaths_in_a_row }
            }
            RestartDecision::GiveUp { deaths_in_a_row } => {
                let retry_at = now.saturating_add(self.times.retry_after);
                let reason = reason.to_owned();
                self.vacancy = Vacancy::Failed { reason, deaths_in_a_row, retry_at };
                Fate::GivenUp { deaths_in_a_row }
            }
        }
    }

    /// To be running, from now on and with a clean record.
    pub(crate) fn start(&mut self, now: Duration) {
        self.is_wanted = true;
        self.restarts = Restarts::patient(self.times.restart.clone());
        self.vacancy = Vacancy::Waiting { start_at: now, reason: None };
    }

    /// To be running no more.
    pub(crate) fn stop(&mut self, now: Duration) -> Vec<Action> {
        self.is_wanted = false;
        self.vacancy = Vacancy::Stopped;
        let times = self.times.clone();
        self.generations_mut().filter_map(|generation| generation.drain(now, &times)).collect()
    }

    /// Starts a successor of the current generation, or the first one.
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

    /// The service sends nothing more to a generation.
    pub(crate) fn release(&mut self, number: u64, now: Duration) -> Option<Action> {
        let times = self.times.clone();
        self.find(number)?.release(now, &times)
    }

    /// Kills one generation, after a dump if there is one. It is started anew unless somebody is
    /// there to take its place.
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

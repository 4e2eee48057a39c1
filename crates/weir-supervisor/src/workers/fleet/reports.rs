//! What the service is told: every change, and everything when it connects or was too slow.

use std::ops::Range;
use std::time::Duration;

use super::Fleet;
use crate::control::{
    GroupState, Report, RollingState, SlotState, TOTALS_INTERVAL, Totals, Vacancy as VacancyState,
    WorkerPhase, WorkerState,
};
use crate::workers::generation::Phase;
use crate::workers::process::{Place, Process};
use crate::workers::slot::{Slot, Vacancy};

/// How far a snapshot has come. It is written slot by slot, as fast as the service reads; what
/// changes meanwhile is reported beside it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    has_begun: bool,
    group: usize,
    /// None: the group itself.
    slot: Option<usize>,
}

impl Fleet {
    pub(super) fn slot_mut(&mut self, place: Place) -> &mut Slot {
        &mut self.groups[place.group].rules.slots[place.slot]
    }

    fn group_name(&self, group: usize) -> String {
        self.groups[group].blueprint.spec.name.to_string()
    }

    pub(super) fn send(&mut self, report: &Report) {
        if let Some(link) = &mut self.link {
            link.send(report);
        }
    }

    /// Goes on with a snapshot, and writes what the service takes.
    pub(super) fn tell(&mut self, now: Duration) {
        if self.link.as_mut().is_some_and(|link| link.takes_fresh_start()) {
            self.totals.snapshots_repeated += 1;
            self.snapshot = Some(Cursor::default());
        }
        if self.totals_due().is_some_and(|at| at <= now) {
            self.send_totals(now);
        }
        while self.link.as_ref().is_some_and(|link| link.has_room()) && self.snapshot.is_some() {
            self.continue_snapshot(now);
        }
        if let Some(link) = &mut self.link {
            link.flush();
            if link.is_closed() {
                tracing::info!("the service has gone; workers stay");
                (self.link, self.connected_at, self.snapshot) = (None, None, None);
            }
        }
    }

    fn totals(&self) -> Totals {
        Totals { output_lines_dropped: self.printer.lines_dropped, ..self.totals }
    }

    /// When counts that have changed are to be reported, if there are any.
    pub(super) fn totals_due(&self) -> Option<Duration> {
        let is_news = self.link.is_some() && self.totals() != self.totals_sent;
        is_news.then_some(self.totals_at)
    }

    fn send_totals(&mut self, now: Duration) {
        self.totals_sent = self.totals();
        self.totals_at = now + TOTALS_INTERVAL;
        self.send(&Report::Totals(self.totals_sent));
    }

    fn continue_snapshot(&mut self, now: Duration) {
        let Some(cursor) = self.snapshot else { return };
        if !cursor.has_begun {
            self.send(&Report::SnapshotBegins);
            self.send_totals(now);
            self.snapshot = Some(Cursor { has_begun: true, ..cursor });
        } else if cursor.group == self.groups.len() {
            self.send(&Report::SnapshotEnds);
            self.snapshot = None;
        } else {
            let slots = self.groups[cursor.group].rules.slots.len();
            let next = cursor.slot.map_or(0, |slot| slot + 1);
            match cursor.slot {
                None => self.report_group(cursor.group),
                Some(slot) if slot < slots => {
                    self.report_whole_slot(Place { group: cursor.group, slot }, now);
                }
                Some(_) => {}
            }
            self.snapshot = Some(if next < slots {
                Cursor { slot: Some(next), ..cursor }
            } else {
                Cursor { group: cursor.group + 1, slot: None, ..cursor }
            });
        }
    }

    fn report_whole_slot(&mut self, place: Place, now: Duration) {
        self.report_slot(place, None, now);
        let generations: Vec<u64> =
            self.slot_mut(place).generations().map(|generation| generation.number).collect();
        for generation in generations {
            self.report_worker(generation, now);
        }
    }

    pub(super) fn report_group(&mut self, group: usize) {
        let crew = &self.groups[group];
        let state = GroupState {
            group: crew.blueprint.spec.name.to_string(),
            processes: u32_of(crew.rules.wanted),
            is_paused: crew.rules.is_paused,
            rolling: crew.rolling.clone(),
        };
        self.send(&Report::Group(state));
    }

    /// `ended`: how the rolling restart ended, if it did just now.
    pub(super) fn report_rolling(&mut self, group: usize, ended: Option<Result<(), String>>) {
        let running = self.groups[group].rules.rolling.as_ref();
        let state = match (ended, running) {
            (Some(Ok(())), _) => RollingState::Finished,
            (Some(Err(reason)), _) => RollingState::Failed { reason },
            (None, Some(rolling)) => RollingState::Running { done: u32_of(rolling.done()) },
            (None, None) => return,
        };
        if self.groups[group].rolling.as_ref() == Some(&state) {
            return;
        }
        let name = self.group_name(group);
        match &state {
            RollingState::Running { done } => tracing::info!(group = name, done, "rolling restart"),
            RollingState::Finished => tracing::info!(group = name, "rolling restart finished"),
            RollingState::Failed { reason } => {
                tracing::error!(group = name, "rolling restart stopped: {reason}");
            }
        }
        self.groups[group].rolling = Some(state);
        self.report_group(group);
    }

    pub(super) fn report_slot(
        &mut self,
        place: Place,
        replacement_failed: Option<String>,
        now: Duration,
    ) {
        let Some(slot) = self.groups[place.group].rules.slots.get(place.slot) else { return };
        let vacancy = slot.current.is_none().then(|| vacancy(&slot.vacancy, now));
        self.send_slot(place, vacancy, replacement_failed);
    }

    pub(super) fn report_removed(&mut self, group: usize, slots: Range<usize>) {
        for slot in slots {
            self.send_slot(Place { group, slot }, Some(VacancyState::Removed), None);
        }
    }

    fn send_slot(
        &mut self,
        place: Place,
        vacancy: Option<VacancyState>,
        replacement_failed: Option<String>,
    ) {
        let group = self.group_name(place.group);
        let slot = u32_of(place.slot);
        self.send(&Report::Slot(SlotState { group, slot, vacancy, replacement_failed }));
    }

    pub(super) fn report_worker(&mut self, generation: u64, now: Duration) {
        let Some(process) = self.processes.get(&generation) else { return };
        let slot = &self.groups[process.place.group].rules.slots[process.place.slot];
        let found = slot.generations().find(|it| it.number == generation);
        let Some(phase) = found.map(|it| phase(&it.phase)) else { return };
        let state = self.worker_state(generation, process, phase, now);
        self.send(&Report::Worker(state));
    }

    pub(super) fn report_end(
        &mut self,
        generation: u64,
        process: &Process,
        status: &str,
        last_lines: &[String],
        now: Duration,
    ) {
        let phase = WorkerPhase::Ended {
            status: status.to_owned(),
            reason: process.kill_reason.clone(),
            last_lines: last_lines.to_vec(),
        };
        let state = self.worker_state(generation, process, phase, now);
        self.send(&Report::Worker(state));
    }

    fn worker_state(
        &self,
        generation: u64,
        process: &Process,
        phase: WorkerPhase,
        now: Duration,
    ) -> WorkerState {
        WorkerState {
            group: self.group_name(process.place.group),
            slot: u32_of(process.place.slot),
            generation,
            pid: process.pid.as_raw_pid(),
            address: process.endpoint.address.clone(),
            started_ms_ago: milliseconds(now.saturating_sub(process.started_at)),
            phase,
        }
    }
}

fn vacancy(vacancy: &Vacancy, now: Duration) -> VacancyState {
    match vacancy {
        Vacancy::Stopped => VacancyState::Stopped,
        Vacancy::Waiting { start_at } => {
            VacancyState::Waiting { start_in_ms: milliseconds(start_at.saturating_sub(now)) }
        }
        Vacancy::Failed { reason, deaths_in_a_row, retry_at } => VacancyState::Failed {
            reason: match deaths_in_a_row {
                1 => reason.clone(),
                more => format!("crash loop, {more} deaths in a row: {reason}"),
            },
            retry_in_ms: milliseconds(retry_at.saturating_sub(now)),
        },
    }
}

fn phase(phase: &Phase) -> WorkerPhase {
    match phase {
        Phase::Starting => WorkerPhase::Starting,
        Phase::Ready => WorkerPhase::Ready,
        Phase::Draining { .. } => WorkerPhase::Draining,
        Phase::Dumping { .. } => WorkerPhase::Evicting,
        Phase::Killed => WorkerPhase::Killed,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

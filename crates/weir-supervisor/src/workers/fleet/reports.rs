//! Reports to the service: every change, and the whole state when it connects or read too slowly.

use std::ops::Range;
use std::time::Duration;

use super::Fleet;
use crate::control::{
    GroupState, ParentReport, ParentTotals, RollingState, TOTALS_INTERVAL, Used,
    Vacancy as VacancyState, VacantSlot, WorkerPhase, WorkerReport,
};
use crate::workers::generation::Phase;
use crate::workers::process::{SlotIndex, WorkerProcess};
use crate::workers::slot::{Vacancy, WorkerSlot};

/// The position in a snapshot. It is written slot by slot, as fast as the service reads; changes
/// during that time are reported as well.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    has_begun: bool,
    group: usize,
    /// None: the group itself is next.
    slot: Option<usize>,
}

impl Fleet {
    pub(super) fn slot_mut(&mut self, slot_index: SlotIndex) -> &mut WorkerSlot {
        &mut self.groups[slot_index.group].rules.slots[slot_index.slot]
    }

    pub(super) fn group_name(&self, group: usize) -> String {
        self.groups[group].blueprint.spec.name.to_string()
    }

    fn send(&mut self, report: &ParentReport) {
        for connection in &mut self.connections {
            connection.link.send(report);
        }
    }

    /// Continues snapshots, and writes queued reports to services.
    pub(super) fn send_reports(&mut self, now: Duration) {
        for connection in &mut self.connections {
            if connection.link.takes_fresh_start() {
                self.totals.snapshots_repeated += 1;
                connection.snapshot = Some(Cursor::default());
            }
        }
        if self.totals_due().is_some_and(|at| at <= now) {
            self.send_totals(now);
        }
        for index in 0..self.connections.len() {
            while self.connections[index].link.has_room()
                && self.connections[index].snapshot.is_some()
            {
                self.continue_snapshot(index, now);
            }
            self.connections[index].link.flush();
        }
        self.remove_closed_services(now);
    }

    fn totals(&self) -> ParentTotals {
        ParentTotals { output_lines_dropped: self.printer.lines_dropped, ..self.totals }
    }

    /// Returns when changed counters are to be reported. None: nothing changed.
    pub(super) fn totals_due(&self) -> Option<Duration> {
        let is_news = !self.connections.is_empty() && self.totals() != self.totals_sent;
        is_news.then_some(self.totals_at)
    }

    fn send_totals(&mut self, now: Duration) {
        self.totals_sent = self.totals();
        self.totals_at = now + TOTALS_INTERVAL;
        self.send(&ParentReport::Totals(self.totals_sent));
    }

    fn continue_snapshot(&mut self, connection: usize, now: Duration) {
        let Some(cursor) = self.connections[connection].snapshot else { return };
        let mut reports = Vec::new();
        let next = if !cursor.has_begun {
            reports.extend([ParentReport::SnapshotBegins, ParentReport::Totals(self.totals())]);
            Some(Cursor { has_begun: true, ..cursor })
        } else if cursor.group == self.groups.len() {
            reports.push(ParentReport::SnapshotEnds);
            None
        } else {
            let (group, slots) = (cursor.group, self.groups[cursor.group].rules.slots.len());
            match cursor.slot {
                None => reports.push(self.group_report(group)),
                Some(slot) => {
                    reports.extend(self.whole_slot(SlotIndex { group, slot }, connection, now))
                }
            }
            let next = cursor.slot.map_or(0, |slot| slot + 1);
            let (group, slot) = if next < slots { (group, Some(next)) } else { (group + 1, None) };
            Some(Cursor { group, slot, ..cursor })
        };
        self.connections[connection].snapshot = next;
        for report in &reports {
            self.connections[connection].link.send(report);
        }
    }

    fn whole_slot(
        &self,
        slot_index: SlotIndex,
        connection: usize,
        now: Duration,
    ) -> Vec<ParentReport> {
        let slot = self.groups[slot_index.group].rules.slots.get(slot_index.slot);
        let generations = slot.into_iter().flat_map(WorkerSlot::generations);
        let workers = generations.flat_map(|generation| {
            let used = self.used_by_others(generation.number, connection);
            let used_by_others = ParentReport::Elsewhere { generation: generation.number, used };
            let used_by_others = Some(used_by_others).filter(|_| used != Used::default());
            self.worker_report(generation.number, now).into_iter().chain(used_by_others)
        });
        self.slot_report(slot_index, None, now).into_iter().chain(workers).collect()
    }

    pub(super) fn report_group(&mut self, group: usize) {
        let report = self.group_report(group);
        self.send(&report);
    }

    fn group_report(&self, index: usize) -> ParentReport {
        let group = &self.groups[index];
        ParentReport::Group(GroupState {
            group: group.blueprint.spec.name.to_string(),
            processes: u32_of(group.rules.target),
            is_paused: group.rules.is_paused,
            rolling: group.rolling.clone(),
            jobs: self.job_group_state(index).map(Box::new),
        })
    }

    /// Reports the state of a rolling restart. `ended` is its outcome if it ended just now.
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
        slot_index: SlotIndex,
        failed: Option<String>,
        now: Duration,
    ) {
        if let Some(report) = self.slot_report(slot_index, failed, now) {
            self.send(&report);
        }
    }

    pub(super) fn report_removed(&mut self, group: usize, slots: Range<usize>) {
        for slot in slots {
            let removed = Some(VacancyState::Removed);
            let report = self.slot_state(SlotIndex { group, slot }, removed, None);
            self.send(&report);
        }
    }

    /// Builds the report of a slot. `failed` is the error of a failed replacement.
    fn slot_report(
        &self,
        slot_index: SlotIndex,
        failed: Option<String>,
        now: Duration,
    ) -> Option<ParentReport> {
        let slot = self.groups[slot_index.group].rules.slots.get(slot_index.slot)?;
        let vacancy = slot.current.is_none().then(|| vacancy(&slot.vacancy, now));
        Some(self.slot_state(slot_index, vacancy, failed))
    }

    fn slot_state(
        &self,
        slot_index: SlotIndex,
        vacancy: Option<VacancyState>,
        replacement_failed: Option<String>,
    ) -> ParentReport {
        let group = self.group_name(slot_index.group);
        let slot = u32_of(slot_index.slot);
        ParentReport::Slot(VacantSlot { group, slot, vacancy, replacement_failed })
    }

    pub(super) fn report_worker(&mut self, generation: u64, now: Duration) {
        if let Some(report) = self.worker_report(generation, now) {
            self.send(&report);
        }
    }

    fn worker_report(&self, generation: u64, now: Duration) -> Option<ParentReport> {
        let process = self.processes.get(&generation)?;
        let slot =
            self.groups[process.slot_index.group].rules.slots.get(process.slot_index.slot)?;
        let phase = phase(&slot.generations().find(|it| it.number == generation)?.phase);
        Some(ParentReport::Worker(self.worker_state(generation, process, phase, now)))
    }

    pub(super) fn report_end(
        &mut self,
        generation: u64,
        process: &WorkerProcess,
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
        self.send(&ParentReport::Worker(state));
    }

    fn worker_state(
        &self,
        generation: u64,
        process: &WorkerProcess,
        phase: WorkerPhase,
        now: Duration,
    ) -> WorkerReport {
        WorkerReport {
            group: self.group_name(process.slot_index.group),
            slot: u32_of(process.slot_index.slot),
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
        Vacancy::Waiting { start_at, reason } => VacancyState::Waiting {
            start_in_ms: milliseconds(start_at.saturating_sub(now)),
            reason: reason.clone(),
        },
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
        Phase::Leaving { .. } => WorkerPhase::Leaving,
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

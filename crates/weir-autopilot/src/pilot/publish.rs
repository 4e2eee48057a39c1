//! What other threads see.

use super::Autopilot;
use crate::mode::{JobSystem, Mode};
use crate::view::{AutopilotStatus, ClassView, DatabaseView, LeaseView};

/// Classes in a status.
const CLASSES: usize = 10;

impl Autopilot {
    /// Publishes the status, the metrics and new entries of the journal.
    pub(super) fn publish(&mut self) {
        if let Some(entries) = self.log.changed() {
            self.handle.publish_entries(entries);
        }
        let status = self.status();
        self.metrics.show(&status);
        self.handle.publish(status);
    }

    fn status(&self) -> AutopilotStatus {
        let is_off = self.mode == Mode::Off;
        let by_hand = self.kept.mode.as_ref().filter(|it| it.settings == self.settings.mode);
        let age = self.history.age_seconds(self.now_seconds());
        let roster = &self.sampler.roster;
        AutopilotStatus {
            at: self.now(),
            mode: self.mode,
            mode_in_settings: self.settings.mode,
            mode_set_by: by_hand.map(|it| it.by.clone()),
            mode_set_at: by_hand.map(|it| it.at),
            manage: self.settings.manage.clone(),
            system: self.system,
            groups: if is_off { Vec::new() } else { self.sampler.groups.clone() },
            is_changing: self.change_over.is_under_way(),
            moves_jobs: self.settings.move_jobs && self.system == JobSystem::Sidekiq,
            cannot_act: self.cannot_act(),
            lease: self.lease(),
            problem: self.problem.clone().filter(|_| !is_off),
            class_problem: self.class_problem.clone().filter(|_| !is_off),
            data_age_seconds: (age.is_finite() && !is_off).then_some(age),
            hold_for_seconds: self.settings.hold_for.as_secs_f64(),
            workers: self.sampler.workers(),
            busy: self.busy,
            waiting: self.waiting,
            database: self.database().filter(|_| !is_off),
            classes: if is_off { Vec::new() } else { self.classes() },
            limits: self.in_force.views(roster, self.kept.limits_until),
            left_out: (self.sampler.left_out.0 + self.sampler.left_out.1) as u64,
            journal_errors: self.metrics.journal_errors(),
        }
    }

    fn lease(&self) -> Option<LeaseView> {
        let store = self.lease.store.clone().filter(|_| self.mode == Mode::On)?;
        let (lease, now) = (self.lease.known(), self.now_seconds());
        Some(LeaseView {
            state: lease.state(now),
            text: lease.sentence(&store, now),
            store,
            holder: lease.other().map(str::to_owned),
            problem: lease.problem().map(str::to_owned),
        })
    }

    fn database(&self) -> Option<DatabaseView> {
        let database = self.history.last.as_ref()?.database?;
        Some(DatabaseView {
            sessions: self.history.sessions(),
            lock_waits: database.lock_waits,
            connections: database.connections,
            connections_max: database.connections_max,
            slowdown: self.history.slowdown(None),
            attribution: self.sampler.method,
            confidence: database.confidence,
        })
    }

    /// Returns the classes with the most sessions.
    fn classes(&self) -> Vec<ClassView> {
        let Some(last) = &self.history.last else { return Vec::new() };
        let normal = |class: usize| {
            let known = self.history.classes.get(class).filter(|it| it.is_normal_known)?;
            known.base_seconds
        };
        let view = |(class, load): (usize, &weir_control::ClassLoad)| ClassView {
            name: self.sampler.roster.class_name(class).to_owned(),
            in_flight: load.in_flight,
            waiting: load.waiting,
            sessions: load.sessions,
            blocks: load.blocks,
            normal_seconds: normal(class),
        };
        let mut classes: Vec<_> = last.classes.iter().enumerate().map(view).collect();
        let weight = |it: &ClassView| it.sessions + it.blocks;
        classes.retain(|it| weight(it) > 0.0 || it.in_flight > 0 || it.waiting > 0);
        classes.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        classes.truncate(CLASSES);
        classes
    }
}

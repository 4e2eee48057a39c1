//! Re-execution of the parent: its program file, which may have changed, is executed again with all
//! descriptors and all state. Its children keep running and stay its children; then the service is
//! replaced, too.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use super::{Events, Supervisor};
use crate::carried::{CarriedSupervisor, Carrier, ResumeError};
use crate::child::{Child, ChildProcess};
use crate::notify::Notify;
use crate::requests::Requests;
use crate::spec::ChildSpec;
use crate::workers::{CommandSender, Fleet, FleetLimits, GroupSpec};

impl Supervisor {
    /// Re-executes the program in this process; returns only if that fails.
    pub(super) fn upgrade(
        &mut self,
        now: Duration,
        requester: Option<CommandSender>,
        events: &mut dyn Events,
    ) {
        let reason = match self.may_be_replaced().and_then(|()| self.carried(requester)) {
            Ok((state, carrier)) => {
                tracing::info!("executing the program again");
                self.notify.reloading();
                let reason = events.upgrade(&state, carrier);
                self.notify.ready("serving; the program was not executed again");
                reason
            }
            Err(reason) => reason,
        };
        tracing::error!("not upgraded, nothing has changed: {reason}");
        self.report_outcome(requester, Err(reason));
        // Time spent in the failed upgrade must not count as silence of workers.
        self.run_workers(now);
    }

    fn carried(
        &self,
        requester: Option<CommandSender>,
    ) -> Result<(CarriedSupervisor, Carrier), String> {
        let ([service], Some(workers)) = (&self.children[..], &self.workers) else {
            return Err("it has other children than a service and workers".into());
        };
        let process = service.running().ok_or("the service does not run")?;
        let mut carrier = Carrier::default();
        let state = CarriedSupervisor {
            service: process.carried(&mut carrier),
            lingering: self.lingering.iter().map(|process| process.carried(&mut carrier)).collect(),
            restarts: service.record(),
            workers: workers.carried(&mut carrier),
            descriptors: service
                .spec
                .descriptors
                .iter()
                .map(|(name, descriptor)| (name.clone(), carrier.keep_open(descriptor)))
                .collect(),
            listening: workers.listening(&mut carrier),
            orphans_reaped: workers.totals.orphans_reaped,
            requester,
        };
        Ok((state, carrier))
    }

    /// Continues from the state of an earlier program and replaces the service at once. `service`
    /// and `groups` are the current specifications; the rest is as for [`Supervisor::new`].
    pub fn resume(
        state: CarriedSupervisor,
        service: ChildSpec,
        (groups, limits): (Vec<GroupSpec>, FleetLimits),
        run_folder: &Path,
        (requests, notify, output): (Requests, Notify, OwnedFd),
    ) -> Result<Self, ResumeError> {
        let now = crate::monotonic();
        let CarriedSupervisor {
            service: process,
            lingering,
            restarts,
            workers,
            orphans_reaped,
            requester,
            ..
        } = state;
        let running = workers.workers.iter().map(|worker| worker.generation).collect();
        let fleet = Fleet::with_running(groups, run_folder, &running)?.with_limits(limits);
        let fleet = fleet.resume(workers, now)?;
        let lingering =
            lingering.into_iter().map(|process| ChildProcess::resume(process, &service, now));
        let lingering: Result<Vec<_>, _> = lingering.collect();
        let child = Child::resume(service, process, restarts, now)?;
        let mut supervisor = Self::new(Vec::new(), requests, notify, output);
        supervisor.children.push(child);
        supervisor.lingering = lingering?;
        supervisor.announced = true;
        supervisor.is_upgraded = Some(requester);
        let mut supervisor = supervisor.with_workers(fleet);
        supervisor.orphans_before = orphans_reaped;
        Ok(supervisor)
    }

    /// Replaces the service, the second half of an upgrade.
    pub(super) fn finish_upgrade(&mut self, now: Duration, events: &mut dyn Events) {
        if let Some(requester) = self.is_upgraded.take() {
            self.replace_service(now, requester, events);
        }
    }
}

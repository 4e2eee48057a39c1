//! Connection slots of the database that are free for more connections.

use super::{ConnectionPools, Missing, MissingReason, Observation, is_sidekiq, slots_to_keep_free};

impl Observation {
    /// Reports whether a service bypasses the pooler, which shows in sessions under its own name.
    pub(crate) fn is_direct(&self, service: &ConnectionPools) -> bool {
        let connections = self.postgres.known().and_then(|it| it.connections.known());
        // Process titles name Sidekiq without its queues.
        let is_it =
            |seen: &str| seen == service.name || is_sidekiq(&service.name) && seen == "sidekiq";
        self.pooler.is_none()
            || connections.is_some_and(|it| it.sessions.iter().any(|one| is_it(&one.service)))
    }

    /// Returns how many more connections the database accepts if all known pools open theirs.
    /// Leaves some free for psql, migrations and deploys. `None` if its limit or its sessions are
    /// unknown.
    pub(crate) fn free_slots(&self) -> Option<u32> {
        let is_full = |it: &Missing| it.obstacle == MissingReason::SlotsExhausted;
        if self.postgres.missing().is_some_and(is_full) {
            return Some(0);
        }
        let postgres = self.postgres.known()?;
        let (settings, connections) = (postgres.settings.known()?, postgres.connections.known()?);
        let usable = settings.usable_connections();
        let committed = self.pooler_slots().saturating_add(self.other_slots(connections.open()));
        Some(usable.saturating_sub(slots_to_keep_free(usable)).saturating_sub(committed))
    }

    /// Returns the most connections that the pooler opens, or those that it holds if that is
    /// unknown.
    fn pooler_slots(&self) -> u32 {
        let most = self.pooler.as_ref().and_then(|pooler| pooler.connections).unwrap_or_default();
        most.max(self.held_by_pooler())
    }

    /// Reports whether an additional process of Sidekiq would bypass the pooler, if there is one.
    pub(crate) fn sidekiq_needs_slots(&self) -> bool {
        let services = self.services.known().map(Vec::as_slice).unwrap_or_default();
        let mut sidekiqs = services.iter().filter(|service| is_sidekiq(&service.name)).peekable();
        // A pooler without sessions may be that of other services.
        self.pooler.is_none()
            || self.held_by_pooler() == 0
            || sidekiqs.peek().is_none()
            || sidekiqs.any(|service| self.is_direct(service))
    }

    /// Returns the number of sessions that the pooler holds now.
    pub(crate) fn held_by_pooler(&self) -> u32 {
        let connections = self.postgres.known().and_then(|it| it.connections.known());
        let (Some(pooler), Some(connections)) = (&self.pooler, connections) else { return 0 };
        let own = connections.sessions.iter().filter(|it| it.service == pooler.name);
        own.map(|sessions| sessions.count).fold(0, u32::saturating_add)
    }

    /// Returns the connections of all others: those that are open, or the pools of the services
    /// without the pooler if they may open more.
    fn other_slots(&self, open: u32) -> u32 {
        let services = self.services.known().map(Vec::as_slice).unwrap_or_default();
        let direct = services.iter().filter(|service| self.is_direct(service));
        let pools = direct.map(ConnectionPools::connections).fold(0, u32::saturating_add);
        pools.max(open.saturating_sub(self.held_by_pooler()))
    }
}

#[cfg(test)]
mod tests {
    use crate::healthy::{self, service, sessions};
    use crate::observation::{Fact, Missing, MissingReason, Pooler, SessionState};

    #[test]
    fn what_is_open_and_what_pools_may_open_is_not_free() {
        let mut observation = healthy::observation();
        // 200 slots less 3 for superusers, 12 to keep free, and pools of 50.
        assert_eq!(observation.free_slots(), Some(135));
        let held = |service, count| sessions(service, SessionState::Idle, count);
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![held("psql", 120), held("pgbouncer", 10)];
        assert_eq!(observation.free_slots(), Some(55), "130 are open");
        observation.pooler = Some(Pooler { name: "pgbouncer".to_owned(), ..Pooler::default() });
        assert_eq!(observation.free_slots(), Some(55), "no service is direct");
        observation.pooler.as_mut().unwrap().connections = Some(40);
        assert_eq!(observation.free_slots(), Some(25), "it may open 30 more");
        observation.postgres.known_mut().connections = Fact::NotAsked;
        assert_eq!(observation.free_slots(), None);
        observation.postgres = Fact::Unknown(Missing {
            what: "the database".to_owned(),
            obstacle: MissingReason::SlotsExhausted,
            reason: "none (SQLSTATE 53300)".to_owned(),
            remedy: None,
        });
        assert_eq!(observation.free_slots(), Some(0), "it rejected the observer");
    }

    #[test]
    fn sessions_of_sidekiq_show_that_its_services_bypass_the_pooler() {
        let mut observation = healthy::observation();
        observation.pooler = Some(Pooler { name: "pgbouncer".to_owned(), ..Pooler::default() });
        let direct = |name| observation.is_direct(&service(name, 1, 5, "-c "));
        assert_eq!(["sidekiq push", "web", "streaming"].map(direct), [true, true, false]);
    }
}

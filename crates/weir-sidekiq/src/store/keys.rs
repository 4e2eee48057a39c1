//! Names of the keys that the store uses: Sidekiq's own, behind a namespace if there is one, and
//! Weir's, behind its prefix.
//!
//! Reservations and controls of a queue carry the key of its list as hash tag, so that a Redis
//! Cluster keeps the three in one slot.

use weir_jobs::custom::BatchId;
use weir_jobs::model::SetName;

use crate::keys;

/// The key names of one deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreKeys {
    /// With its colon, or empty.
    namespace: String,
    prefix: String,
}

impl StoreKeys {
    pub(super) fn new(namespace: &str, prefix: &str) -> Self {
        let colon = if namespace.is_empty() { "" } else { ":" };
        Self { namespace: format!("{namespace}{colon}"), prefix: prefix.to_owned() }
    }

    // --- Sidekiq's ---------------------------------------------------------------------------

    pub(super) fn queues(&self) -> String {
        self.sidekiqs(keys::QUEUES)
    }

    pub(super) fn list(&self, queue: &str) -> String {
        self.sidekiqs(&keys::queue(queue))
    }

    pub(super) fn scheduled(&self) -> String {
        self.sidekiqs(keys::SCHEDULED)
    }

    pub(super) fn retries(&self) -> String {
        self.sidekiqs(keys::RETRIES)
    }

    pub(super) fn dead(&self) -> String {
        self.sidekiqs(keys::DEAD)
    }

    pub(super) fn set(&self, set: SetName) -> String {
        match set {
            SetName::Scheduled => self.scheduled(),
            SetName::Retries => self.retries(),
            SetName::Dead => self.dead(),
        }
    }

    /// A set: the identities of the processes.
    pub(super) fn processes(&self) -> String {
        self.sidekiqs(keys::PROCESSES)
    }

    /// A hash: what a process reports.
    pub(super) fn process(&self, identity: &str) -> String {
        self.sidekiqs(identity)
    }

    /// A counter, of all time or of a day such as `2026-11-20`.
    pub(super) fn statistic(&self, name: &str, day: Option<&str>) -> String {
        let day = day.map(|day| format!(":{day}")).unwrap_or_default();
        self.sidekiqs(&format!("stat:{name}{day}"))
    }

    /// A hash or a string with figures of classes.
    pub(super) fn class_metrics(&self, key: &str) -> String {
        self.sidekiqs(key)
    }

    fn sidekiqs(&self, key: &str) -> String {
        format!("{}{key}", self.namespace)
    }

    // --- Weir's ------------------------------------------------------------------------------

    /// A string: the version of the layout of Weir's keys.
    pub(super) fn layout(&self) -> String {
        self.weirs("layout")
    }

    /// A sorted set: the end of each owner's lease.
    pub(super) fn nodes(&self) -> String {
        self.weirs("nodes")
    }

    /// A hash: how often each node has started, and as `forgotten` the highest of those numbers that
    /// was forgotten.
    pub(super) fn epochs(&self) -> String {
        self.weirs("epochs")
    }

    /// A hash: the epoch in which each node was closed in order.
    pub(super) fn clean(&self) -> String {
        self.weirs("clean")
    }

    /// A hash: what each node has last reported about itself, and when.
    pub(super) fn reports(&self) -> String {
        self.weirs("reports")
    }

    /// A sorted set: when each worker has last sent a BEAT to any node, in milliseconds.
    pub(super) fn beats(&self) -> String {
        self.weirs("beats")
    }

    /// A set: the queues that may have reservations.
    pub(super) fn reserving(&self) -> String {
        self.weirs("queues")
    }

    /// A hash: what the rates of shared resources owe, by name.
    pub(super) fn rates(&self) -> String {
        self.weirs("rates")
    }

    /// What scripts need for jobs with features: the locks, their ends, the batches, those whose jobs that are left have
    /// all failed, and the names of queues, for callbacks.
    pub(super) fn features(&self) -> [String; 5] {
        let [locks, ends] = self.locks();
        [locks, ends, self.batches(), self.batches_waiting(), self.queues()]
    }

    /// A hash of the locks of unique jobs, and a sorted set of their ends.
    pub(super) fn locks(&self) -> [String; 2] {
        [self.weirs("unique"), self.weirs("unique:ends")]
    }

    /// A set: the jobs in progress that use a shared resource by their type. `hash`: of the name and the users of the
    /// resource.
    pub(super) fn running(&self, hash: u64) -> String {
        self.weirs(&format!("running:{hash:016x}"))
    }

    /// A set: the names of the lists of blocked jobs, which are beside those of their queues.
    pub(super) fn blocked(&self) -> String {
        self.weirs("blocked")
    }

    /// A sorted set: the batches by the time when they expire.
    pub(super) fn batches(&self) -> String {
        self.weirs("batches")
    }

    /// A set: the batches whose jobs that are left have all failed.
    pub(super) fn batches_waiting(&self) -> String {
        self.weirs("batches:waiting")
    }

    /// A string: the bytes of the definitions of all batches.
    pub(super) fn batch_bytes(&self) -> String {
        self.weirs("batches:bytes")
    }

    /// A hash: a batch.
    pub(super) fn batch(&self, id: BatchId) -> String {
        format!("{}:{id}", self.batches())
    }

    /// A hash: the live jobs of a batch.
    pub(super) fn batch_jobs(&self, id: BatchId) -> String {
        format!("{}:jobs", self.batch(id))
    }

    /// A set: the children of a batch.
    pub(super) fn batch_children(&self, id: BatchId) -> String {
        format!("{}:children", self.batch(id))
    }

    /// A hash: how often each job has killed its worker, by jid.
    pub(super) fn kills(&self) -> String {
        self.weirs("kills")
    }

    /// A hash: what earlier versions counted instead, in which ends of nodes and of workers in order counted as well.
    pub(super) fn earlier_kills(&self) -> String {
        self.weirs("vanished")
    }

    /// A hash: how many jobs of a node Sidekiq's counters contain.
    pub(super) fn counted(&self, node: &str) -> String {
        self.weirs(&format!("counted:{node}"))
    }

    /// A sorted set: the times of the last changes of tracked jobs, by jid. On one slot with `track_states`.
    pub(super) fn tracks(&self) -> String {
        self.beside("tracks", "updated")
    }

    /// A hash: what is known of tracked jobs, by jid (`scripts/tracks.lua`).
    pub(super) fn track_states(&self) -> String {
        self.beside("tracks", "states")
    }

    /// A hash: what is remembered of each cron job (`scripts/cron_state.lua`).
    pub(super) fn cron(&self) -> String {
        self.weirs("cron")
    }

    /// A hash: the times of cron jobs whose jobs are being stored, where keys are divided among servers.
    pub(super) fn cron_claims(&self) -> String {
        self.beside(&self.cron(), "claims")
    }

    /// A hash: the reserved jobs of a queue.
    pub(super) fn reserved(&self, queue: &str) -> String {
        self.beside(&self.list(queue), "reserved")
    }

    /// A hash: what operators set for a queue, and what its rate owes (`starts`).
    pub(super) fn control(&self, queue: &str) -> String {
        self.beside(&self.list(queue), "control")
    }

    /// A string: what the nodes wait for before they acknowledge a push.
    pub(super) fn push_confirmation(&self) -> String {
        self.weirs("confirm")
    }

    /// Two sets: the jobs that were pushed recently to a list or a sorted set. They carry its key as
    /// hash tag.
    pub(super) fn pushed(&self, target: &str) -> [String; 2] {
        ["pushed:a", "pushed:b"].map(|half| self.beside(target, half))
    }

    // --- On the slot of a key of Sidekiq's, where keys are divided among servers ------------------

    /// A sorted set: the end of each owner's lease, as `nodes`.
    pub(super) fn lease_beside(&self, key: &str) -> String {
        self.beside(key, "nodes")
    }

    /// A hash: as `kills`, of the jobs of one queue.
    pub(super) fn kills_beside(&self, key: &str) -> String {
        self.beside(key, "kills")
    }

    /// A hash: as `earlier_kills`, of the jobs of one queue.
    pub(super) fn earlier_kills_beside(&self, key: &str) -> String {
        self.beside(key, "vanished")
    }

    /// A hash: as `cron`, of the times whose jobs were stored in one list.
    pub(super) fn cron_beside(&self, list: &str) -> String {
        self.beside(list, "cron")
    }

    /// A hash: as `counted`, of one counter.
    pub(super) fn counted_beside(&self, key: &str, node: &str) -> String {
        self.beside(key, &format!("counted:{node}"))
    }

    /// A hash: the jobs that have left a list or a set and have not arrived in another one yet.
    pub(super) fn leaving(&self, key: &str) -> String {
        self.beside(key, "leaving")
    }

    /// A sorted set: the moves that have arrived in a list or a set, with their times.
    pub(super) fn arrived(&self, key: &str) -> String {
        self.beside(key, "arrived")
    }

    /// What nodes share, which has one slot then: `leases` (as `nodes`), `epochs`, `clean`, `reports`, `beats`.
    pub(super) fn of_nodes(&self, name: &str) -> String {
        self.beside("nodes", name)
    }

    fn beside(&self, key: &str, name: &str) -> String {
        format!("{}:{{{key}}}:{name}", self.prefix)
    }

    fn weirs(&self, key: &str) -> String {
        format!("{}:{key}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_redis::slots::slot_of;

    #[test]
    fn the_companions_of_a_list_or_a_set_are_on_its_slot() {
        for namespace in ["", "shop"] {
            let keys = StoreKeys::new(namespace, "weir");
            let list = keys.list("default");
            let slot = slot_of(list.as_bytes());
            assert_eq!(slot_of(keys.cron_claims().as_bytes()), slot_of(keys.cron().as_bytes()));
            assert_eq!(slot_of(keys.cron_beside(&list).as_bytes()), slot);
            let [one, other] = keys.pushed(&list);
            let companions = [keys.reserved("default"), keys.control("default"), one, other];
            assert!(companions.iter().all(|key| slot_of(key.as_bytes()) == slot));
            for key in [list, keys.scheduled(), keys.retries(), keys.statistic("processed", None)] {
                let slot = slot_of(key.as_bytes());
                assert_eq!(keys.of_nodes("epochs"), "weir:{nodes}:epochs");
                let (lease, counted) = (keys.lease_beside(&key), keys.counted_beside(&key, "n"));
                let (leaving, arrived) = (keys.leaving(&key), keys.arrived(&key));
                for companion in [lease, counted, leaving, arrived, keys.kills_beside(&key)] {
                    assert_eq!(slot_of(companion.as_bytes()), slot, "{companion}");
                }
            }
        }
    }

    #[test]
    fn the_list_is_the_hash_tag_of_its_companions() {
        let keys = StoreKeys::new("", "weir");
        assert_eq!(keys.list("default"), "queue:default");
        assert_eq!(keys.reserved("default"), "weir:{queue:default}:reserved");
        let halves = ["weir:{schedule}:pushed:a", "weir:{schedule}:pushed:b"];
        assert_eq!(keys.pushed(&keys.scheduled()), halves);
        let keys = StoreKeys::new("shop", "w2");
        assert_eq!(keys.queues(), "shop:queues");
        assert_eq!(keys.control("a.b"), "w2:{shop:queue:a.b}:control");
        assert_eq!(keys.nodes(), "w2:nodes");
    }
}

//! A Redis Cluster of three masters, made by hand.

use std::time::Duration;

use weir_redis::RedisEndpoint;
use weir_redis::slots::{SLOTS, slot_of};

use crate::redis_server::{RedisServer, free_port};

const MASTERS: usize = 3;
const SLOTS_OF_FIRST: [u16; 2] = [0, SLOTS / 3 - 1];
/// Conditions are checked as often, every 20 ms. They come true within seconds.
const CHECKS_MAX: usize = 3_000;

pub(crate) struct RedisCluster {
    pub(crate) masters: Vec<RedisServer>,
    /// One of each master, or none.
    pub(crate) replicas: Vec<RedisServer>,
    /// The ports that the masters tell clients.
    ports: Vec<u16>,
}

/// What the servers of a cluster are started with.
#[derive(Default)]
pub(crate) struct ClusterOptions {
    /// Whether each master has a replica.
    pub(crate) has_replicas: bool,
    /// Whether the cluster tells clients ports with TLS.
    pub(crate) has_tls: bool,
    /// Further arguments of each server.
    pub(crate) arguments: Vec<String>,
}

/// A server that does not belong to a cluster yet.
struct ClusterMember {
    server: RedisServer,
    /// The port that the cluster tells clients.
    port: u16,
    bus: u16,
}

impl ClusterMember {
    fn start(options: &ClusterOptions) -> Self {
        let [tls, bus] = [free_port().to_string(), free_port().to_string()];
        let mut words = vec![
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &bus],
            ["--cluster-node-timeout", "2000"],
            // The other nodes go on while one is away.
            ["--cluster-require-full-coverage", "no"],
            // A replica takes over, however late it noticed.
            ["--cluster-replica-validity-factor", "0"],
            ["--repl-diskless-sync-delay", "0"],
        ];
        if options.has_tls {
            words.extend([["--tls-port", &tls], ["--tls-cluster", "yes"]]);
        }
        let further = options.arguments.iter().map(String::as_str);
        let words: Vec<&str> = words.as_flattened().iter().copied().chain(further).collect();
        let server = RedisServer::start_with(&words);
        let port = if options.has_tls { tls.parse().unwrap() } else { server.port };
        Self { server, port, bus: bus.parse().unwrap() }
    }

    /// Makes it known to the cluster of `first`.
    fn join(&self, first: &RedisServer) {
        let (port, bus) = (self.port.to_string(), self.bus.to_string());
        first.run(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }
}

impl RedisCluster {
    pub(crate) fn start() -> Self {
        Self::start_with(&ClusterOptions::default())
    }

    pub(crate) fn start_with_replicas() -> Self {
        Self::start_with(&ClusterOptions { has_replicas: true, ..ClusterOptions::default() })
    }

    pub(crate) fn start_with(options: &ClusterOptions) -> Self {
        let members: Vec<_> = (0..MASTERS).map(|_| ClusterMember::start(options)).collect();
        for (place, member) in members.iter().enumerate() {
            let first = |place: usize| place * usize::from(SLOTS) / MASTERS;
            let (from, to) = (first(place).to_string(), (first(place + 1) - 1).to_string());
            member.server.run(&["CLUSTER", "ADDSLOTSRANGE", &from, &to]);
            member.server.run(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]);
        }
        members[1..].iter().for_each(|member| member.join(&members[0].server));
        let ports = members.iter().map(|member| member.port).collect();
        let masters = members.into_iter().map(|member| member.server).collect();
        let mut cluster = Self { masters, replicas: Vec::new(), ports };
        cluster.wait_until_ready();
        if options.has_replicas {
            cluster.add_replicas(options);
        }
        cluster
    }

    fn add_replicas(&mut self, options: &ClusterOptions) {
        let members: Vec<_> = (0..MASTERS).map(|_| ClusterMember::start(options)).collect();
        members.iter().for_each(|member| member.join(&self.masters[0]));
        self.replicas = members.into_iter().map(|member| member.server).collect();
        self.wait_until_ready();
        for (place, replica) in self.replicas.iter().enumerate() {
            replica.run(&["CLUSTER", "REPLICATE", &self.id(place)]);
        }
        let is_linked = |it: &RedisServer| it.info("replication").contains("master_link_status:up");
        wait_until(|| self.replicas.iter().all(is_linked));
    }

    /// Waits until all nodes know each other and the owners of all slots.
    fn wait_until_ready(&self) {
        let known = format!("cluster_known_nodes:{}", self.masters.len() + self.replicas.len());
        let is_ready = |server: &RedisServer| {
            let info: String = redis::from_redis_value(server.run(&["CLUSTER", "INFO"])).unwrap();
            ["cluster_state:ok", "cluster_slots_ok:16384", &known]
                .iter()
                .all(|line| info.contains(line))
        };
        wait_until(|| self.masters.iter().chain(&self.replicas).all(is_ready));
    }

    /// The endpoint of one of its nodes, which leads to the others.
    pub(crate) fn endpoint(&self) -> RedisEndpoint {
        self.masters[0].endpoint()
    }

    /// The endpoint of the same node, for TLS.
    pub(crate) fn tls_endpoint(&self) -> RedisEndpoint {
        RedisEndpoint::parse(&format!("rediss://127.0.0.1:{}", self.ports[0])).unwrap()
    }

    /// Returns the master that has a slot, by its place, as long as none has moved.
    pub(crate) fn first_owner_of(slot: u16) -> usize {
        (usize::from(slot) * MASTERS + MASTERS - 1) / usize::from(SLOTS)
    }

    /// Returns the keys of the master at `place`.
    pub(crate) fn keys_of(&self, place: usize) -> Vec<String> {
        redis::from_redis_value(self.masters[place].run(&["KEYS", "*"])).unwrap()
    }

    fn id(&self, place: usize) -> String {
        redis::from_redis_value(self.masters[place].run(&["CLUSTER", "MYID"])).unwrap()
    }

    /// Moves a slot with its keys, one by one, between masters.
    pub(crate) fn move_slot(&self, key: &str, from: usize, to: usize) {
        self.begin_move(key, from, to);
        self.end_move(key, from, to);
    }

    /// Moves the keys of the slot of `key`, but not the slot.
    pub(crate) fn begin_move(&self, key: &str, from: usize, to: usize) {
        let slot = slot_of(key.as_bytes()).to_string();
        let (source, target) = (self.id(from), self.id(to));
        self.masters[to].run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
        self.masters[from].run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
        self.move_keys(&slot, from, to);
    }

    /// Ends what [`Self::begin_move`] has begun.
    pub(crate) fn end_move(&self, key: &str, from: usize, to: usize) {
        let (slot, target) = (slot_of(key.as_bytes()).to_string(), self.id(to));
        self.move_keys(&slot, from, to);
        for place in [to, from, 3 - to - from] {
            self.masters[place].run(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
        }
    }

    fn move_keys(&self, slot: &str, from: usize, to: usize) {
        loop {
            let found = self.masters[from].run(&["CLUSTER", "GETKEYSINSLOT", slot, "1"]);
            let keys: Vec<String> = redis::from_redis_value(found).unwrap();
            let Some(key) = keys.first() else { return };
            let port = self.ports[to].to_string();
            self.masters[from].run(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        }
    }

    /// Removes the first master, which knows no other then, and gives its slots to the second one.
    pub(crate) fn isolate_first(&self) {
        let (id, range) = (self.id(0), SLOTS_OF_FIRST.map(|slot| slot.to_string()));
        self.masters[0].run(&["FLUSHALL"]);
        self.masters[0].run(&["CLUSTER", "RESET"]);
        for place in [1, 2] {
            self.masters[place].run(&["CLUSTER", "FORGET", &id]);
        }
        self.masters[1].run(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
        wait_until(|| {
            let info = |server: &RedisServer| server.run(&["CLUSTER", "INFO"]);
            let text = |server| redis::from_redis_value::<String>(info(server)).unwrap();
            self.masters[1..].iter().all(|it| text(it).contains("cluster_slots_ok:16384"))
        });
    }
}

fn wait_until(condition: impl Fn() -> bool) {
    let is_true = (0..CHECKS_MAX).any(|_| {
        let is_true = condition();
        if !is_true {
            std::thread::sleep(Duration::from_millis(20));
        }
        is_true
    });
    assert!(is_true, "the cluster does not get there");
}

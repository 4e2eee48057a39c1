//! A Redis Cluster of three masters, made by hand.

use std::time::Duration;

use weir_sidekiq::RedisEndpoint;

use crate::redis_server::{RedisServer, free_port};

const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;
/// Conditions are checked as often, every 20 ms. They come true within about a second, and a replica
/// takes over within a few.
const CHECKS_MAX: usize = 3_000;

/// Nodes tell each other of a new owner within this time.
const GOSSIP_TIME: Duration = Duration::from_millis(300);

/// Returns the id of the node that has a slot, as `master` knows it.
fn owner_in(master: &RedisServer, slot: &str) -> Option<String> {
    let nodes: String = redis::cmd("CLUSTER").arg("NODES").query(&mut master.client()).ok()?;
    let slot: u16 = slot.parse().ok()?;
    let has_slot = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u16>().ok();
        number(first).zip(number(last)).is_some_and(|(first, last)| (first..=last).contains(&slot))
    };
    // id address flags master ping pong epoch state range ..
    let owner = nodes.lines().find(|line| line.split(' ').skip(8).any(has_slot))?;
    owner.split(' ').next().map(str::to_owned)
}

/// Returns whether a server runs and accepts commands for the slot of `key`.
fn has_slot(server: &RedisServer, key: &str) -> bool {
    let read = |mut client| redis::cmd("TTL").arg(key).query::<i64>(&mut client);
    server.try_client().is_some_and(|client| read(client).is_ok())
}

fn wait_until(condition: impl Fn() -> bool) {
    let pause = || std::thread::sleep(Duration::from_millis(20));
    let is_true = (0..CHECKS_MAX).any(|_| {
        condition() || {
            pause();
            false
        }
    });
    assert!(is_true, "the cluster does not get there");
}

pub(crate) struct RedisCluster {
    pub(crate) masters: Vec<RedisServer>,
    /// One of each master, or none.
    pub(crate) replicas: Vec<RedisServer>,
    /// The ports that the nodes tell clients, by place of the master.
    ports: Vec<u16>,
}

/// A server that does not belong to a cluster yet.
struct ClusterMember {
    server: RedisServer,
    /// The port that the cluster tells clients.
    port: u16,
    bus: u16,
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

impl ClusterMember {
    fn start(options: &ClusterOptions) -> Option<Self> {
        let [tls, bus] = [free_port(), free_port()];
        let server = RedisServer::start_with(|_, _| {
            let (tls, bus) = (tls.to_string(), bus.to_string());
            let words = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-node-timeout", "2000"],
                // The other nodes go on while one is away.
                ["--cluster-require-full-coverage", "no"],
                // A replica takes over, however late it noticed.
                ["--cluster-replica-validity-factor", "0"],
                ["--repl-diskless-sync-delay", "0"],
            ];
            let with_tls = [["--tls-port", &tls], ["--tls-cluster", "yes"]];
            let with_tls = if options.has_tls { with_tls.as_flattened() } else { &[] };
            let words = words.as_flattened().iter().chain(with_tls);
            words.map(|word| (*word).to_owned()).chain(options.arguments.iter().cloned()).collect()
        })?;
        let port = if options.has_tls { tls } else { server.port };
        Some(Self { server, port, bus })
    }

    /// Makes it known to the cluster of `first`.
    fn join(&self, first: &RedisServer) {
        let (port, bus) = (self.port.to_string(), self.bus.to_string());
        first.run(&[&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]]);
    }
}

impl RedisCluster {
    /// None, and a line that says so, where there is no Redis.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&ClusterOptions::default())
    }

    /// A cluster whose masters have a replica each.
    pub(crate) fn start_with_replicas() -> Option<Self> {
        Self::start_with(&ClusterOptions { has_replicas: true, ..ClusterOptions::default() })
    }

    pub(crate) fn start_with(options: &ClusterOptions) -> Option<Self> {
        let start = |_| ClusterMember::start(options);
        let members = (0..MASTERS).map(start).collect::<Option<Vec<_>>>()?;
        let first = &members[0].server;
        for (place, member) in members.iter().enumerate() {
            let range = |place: usize| u16::try_from(place * usize::from(SLOTS) / 3).unwrap();
            let (from, to) = (range(place), range(place + 1) - 1);
            let epoch = (place + 1).to_string();
            member.server.run(&[
                &["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()],
                &["CLUSTER", "SET-CONFIG-EPOCH", &epoch],
            ]);
        }
        members[1..].iter().for_each(|member| member.join(first));
        let ports = members.iter().map(|member| member.port).collect();
        let masters = members.into_iter().map(|member| member.server).collect();
        let mut cluster = Self { masters, replicas: Vec::new(), ports };
        cluster.wait_until_ready();
        if options.has_replicas {
            cluster.add_replicas(options)?;
        }
        Some(cluster)
    }

    fn add_replicas(&mut self, options: &ClusterOptions) -> Option<()> {
        let start = |_| ClusterMember::start(options);
        let members = (0..MASTERS).map(start).collect::<Option<Vec<_>>>()?;
        members.iter().for_each(|member| member.join(&self.masters[0]));
        self.replicas = members.into_iter().map(|member| member.server).collect();
        self.wait_until_ready();
        for (place, replica) in self.replicas.iter().enumerate() {
            replica.run(&[&["CLUSTER", "REPLICATE", &self.id(place)]]);
        }
        self.wait_until_replicated();
        Some(())
    }

    /// Waits until all nodes know each other and the owners of all slots.
    pub(crate) fn wait_until_ready(&self) {
        let known = format!("cluster_known_nodes:{}", self.masters.len() + self.replicas.len());
        let is_ready = |server: &RedisServer| {
            let info: String =
                redis::cmd("CLUSTER").arg("INFO").query(&mut server.client()).unwrap();
            ["cluster_state:ok", "cluster_slots_ok:16384", &known]
                .iter()
                .all(|line| info.contains(line))
        };
        wait_until(|| self.masters.iter().chain(&self.replicas).all(is_ready));
    }

    /// Waits until the slots of each master have a replica that has received what is there now.
    pub(crate) fn wait_until_replicated(&self) {
        wait_until(|| (0..MASTERS).all(|place| self.is_replicated(place)));
    }

    /// Returns whether one of the two nodes at `place` is the replica of the other, and has received
    /// what is there now.
    fn is_replicated(&self, place: usize) -> bool {
        let pair = [Some(&self.masters[place]), self.replicas.get(place)];
        let mut nodes = pair.into_iter().flatten().filter_map(RedisServer::try_client);
        nodes.any(|mut client| {
            // WAIT covers what its connection has written, and so all that others wrote earlier.
            let key = format!("{{queue:{}}}:mark", self.queue_at(place));
            let written = redis::cmd("SET").arg(key).arg(1).query::<()>(&mut client);
            let confirmed = redis::cmd("WAIT").arg(1).arg(1_000).query::<u64>(&mut client);
            written.is_ok() && confirmed.is_ok_and(|replicas| replicas > 0)
        })
    }

    /// The endpoint of one of its nodes, which leads to the others.
    pub(crate) fn endpoint(&self) -> RedisEndpoint {
        self.masters[0].endpoint()
    }

    /// The endpoint of the same node, for TLS.
    pub(crate) fn tls_endpoint(&self, host: &str) -> RedisEndpoint {
        RedisEndpoint::parse(&format!("rediss://{host}:{}", self.ports[0])).unwrap()
    }

    /// Returns the name of a queue whose list is on the master at `place`, as long as no slot moves.
    pub(crate) fn queue_at(&self, place: usize) -> String {
        let first = |place: usize| place * usize::from(SLOTS) / MASTERS;
        let slots = first(place)..first(place + 1);
        let slot = |name: &String| crate::slot_proxy::slot_of(format!("queue:{name}").as_bytes());
        let names = (0..).map(|number| format!("q{number}"));
        names.into_iter().find(|name| slots.contains(&usize::from(slot(name)))).unwrap()
    }

    /// Returns the master that has the slot of `key`, by its place.
    pub(crate) fn owner_of(&self, key: &str) -> usize {
        self.masters.iter().position(|master| has_slot(master, key)).expect("one has it")
    }

    /// Sends a command to the node that has the slot of `key`. While none has it, waits.
    pub(crate) fn query<T: redis::FromRedisValue>(&self, key: &str, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        let servers = || self.masters.iter().chain(&self.replicas);
        wait_until(|| servers().any(|server| has_slot(server, key)));
        let owner = servers().find(|server| has_slot(server, key)).expect("one has it");
        command.query(&mut owner.client()).unwrap()
    }

    fn id(&self, place: usize) -> String {
        redis::cmd("CLUSTER").arg("MYID").query(&mut self.masters[place].client()).unwrap()
    }

    /// Moves the slot of `key` with its keys, one by one, to the master at `to`.
    pub(crate) fn move_slot(&self, key: &str, to: usize) {
        let from = self.owner_of(key);
        self.begin_move(key, to);
        self.end_move(key, from, to);
    }

    /// Moves the keys of the slot of `key` to the master at `to`, but not the slot.
    pub(crate) fn begin_move(&self, key: &str, to: usize) {
        let from = self.owner_of(key);
        let slot = crate::slot_proxy::slot_of(key.as_bytes()).to_string();
        let (source, target) = (self.id(from), self.id(to));
        self.masters[to].run(&[&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]]);
        self.masters[from].run(&[&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]]);
        loop {
            let mut client = self.masters[from].client();
            let mut command = redis::cmd("CLUSTER");
            let keys: Vec<String> =
                command.arg("GETKEYSINSLOT").arg(&slot).arg(1).query(&mut client).unwrap();
            let Some(key) = keys.first() else { break };
            let port = self.ports[to].to_string();
            self.masters[from].run(&[&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]]);
        }
    }

    /// Ends what [`Self::begin_move`] has begun.
    pub(crate) fn end_move(&self, key: &str, from: usize, to: usize) {
        let slot = crate::slot_proxy::slot_of(key.as_bytes()).to_string();
        let target = self.id(to);
        for place in [to, from, 3 - to - from] {
            self.masters[place].run(&[&["CLUSTER", "SETSLOT", &slot, "NODE", &target]]);
        }
        // Until all agree, another move could leave two nodes that name each other.
        let is_owner = |master: &RedisServer| owner_in(master, &slot).as_deref() == Some(&target);
        wait_until(|| self.masters.iter().all(is_owner));
        std::thread::sleep(GOSSIP_TIME);
    }
}

//! The whole contract as a user who has only the permissions of the documented line, and whether the
//! store uses each of them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_base::secret::Secret;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::Wid;
use weir_jobs::node::NodeReport;
use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::{Store, WorkerReport};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{RedisStoreSettings, acl_line, check_server};

use super::harness::{Durable, Harness, RedisHarness};
use super::world;
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use crate::store::rig::{Node, queue_name, report, run_alone};

/// Databases of the server, and so the number of stores.
const DATABASES: i64 = 1_000;

const PASSWORD: &str = "hunter2";

static SERVER: OnceLock<RedisEndpoint> = OnceLock::new();
/// With the ports of its masters.
static CLUSTER: OnceLock<(RedisEndpoint, Vec<u16>)> = OnceLock::new();
static NEXT_DATABASE: AtomicI64 = AtomicI64::new(1);

/// A database that only the restricted user uses.
fn database() -> RedisEndpoint {
    let database = NEXT_DATABASE.fetch_add(1, Ordering::Relaxed);
    assert!(database < DATABASES, "raise DATABASES");
    RedisEndpoint { database, ..SERVER.get().expect("the test starts it").clone() }
}

/// A store of the restricted user.
struct RestrictedHarness(RedisHarness);

impl Harness for RestrictedHarness {
    type Store = <RedisHarness as Harness>::Store;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self(RedisHarness::open_in(directory, database(), settings, clock))
    }

    fn store(&self) -> &std::rc::Rc<Self::Store> {
        self.0.store()
    }

    fn metrics(&self) -> &JobsMetrics {
        self.0.metrics()
    }

    async fn tick(&self) {
        self.0.tick().await;
    }
}

impl Durable for RestrictedHarness {
    fn reopen(self) -> Self {
        Self(self.0.reopen())
    }
}

/// A store of the restricted user in a cluster, which is emptied for each store.
struct RestrictedClusterHarness(RedisHarness);

impl Harness for RestrictedClusterHarness {
    type Store = <RedisHarness as Harness>::Store;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        let (endpoint, ports) = CLUSTER.get().expect("the test starts it");
        for port in ports {
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
            let mut connection = client.get_connection().unwrap();
            let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        Self(RedisHarness::open_in(directory, endpoint.clone(), settings, clock))
    }

    fn store(&self) -> &std::rc::Rc<Self::Store> {
        self.0.store()
    }

    fn metrics(&self) -> &JobsMetrics {
        self.0.metrics()
    }

    async fn tick(&self) {
        self.0.tick().await;
    }
}

impl Durable for RestrictedClusterHarness {
    fn reopen(self) -> Self {
        Self(self.0.reopen())
    }
}

/// Runs one promise, unless this store does not keep it.
macro_rules! keep {
    ($harness:ty, scheduled, a_job_waits_for_its_time_to_the_microsecond) => {};
    ($harness:ty, restore, a_restored_job_rests_where_it_was) => {};
    ($harness:ty, durable, a_restart_keeps_every_state) => {};
    ($harness:ty, $module:ident, $test:ident) => {
        world::run(super::$module::$test::<$harness>);
    };
}

macro_rules! all_in_turn {
    ({ $($module:ident: $($test:ident),+;)+ }) => {
        $($(keep!(RestrictedHarness, $module, $test);)+)+
    };
}

/// The same of a cluster, which has one store at a time.
macro_rules! keep_in_a_cluster {
    (tracking, progress_moves_to_another_store) => {};
    ($module:ident, $test:ident) => {
        keep!(RestrictedClusterHarness, $module, $test);
    };
}

macro_rules! all_in_turn_in_a_cluster {
    ({ $($module:ident: $($test:ident),+;)+ }) => {
        $($(keep_in_a_cluster!($module, $test);)+)+
    };
}

#[test]
fn the_documented_permissions_suffice_for_the_contract_and_each_is_used() {
    let databases = |_: &std::path::Path, _| ["--databases", "1000"].map(str::to_owned).to_vec();
    let Some(redis) = RedisServer::start_with(databases) else { return };
    let endpoint = restricted(&redis, "/1");
    let line = acl_line(&endpoint, &RedisStoreSettings::default());
    grant(&redis, &line);
    SERVER.set(endpoint).expect("there is one test");

    let monitor = Monitor::start(redis.port);
    promises_of_every_store!(all_in_turn);
    promises_of_durable_stores!(all_in_turn);
    promises_of_rates!(all_in_turn);
    promises_of_cron!(all_in_turn);
    promises_of_durable_cron!(all_in_turn);
    promises_of_unique_jobs!(all_in_turn);
    promises_of_batches!(all_in_turn);
    promises_of_expiry!(all_in_turn);
    promises_of_resources!(all_in_turn);
    promises_of_tracks!(all_in_turn);
    promises_of_durable_tracks!(all_in_turn);
    run_alone(nodes_and_pages(database()));
    let used = monitor.end(&redis);
    assert_all_used(&line, &used);
    assert_none_denied(&redis);
}

#[test]
fn the_permissions_for_a_cluster_suffice_for_the_contract_and_each_is_used() {
    let Some(cluster) = RedisCluster::start() else { return };
    let endpoint = restricted(&cluster.masters[0], "");
    // It is not known to the others, and may do nothing.
    cluster.masters[0].run(&[&["ACL", "SETUSER", "weir", "on", &format!(">{PASSWORD}")]]);
    let line = acl_line_of_cluster(&endpoint);
    cluster.masters.iter().for_each(|master| grant(master, &line));
    cluster.masters[0].run(&[&["ACL", "LOG", "RESET"]]);
    let ports = cluster.masters.iter().map(|master| master.port).collect();
    CLUSTER.set((endpoint.clone(), ports)).expect("there is one test");

    let monitors = cluster.masters.iter().map(|master| Monitor::start(master.port));
    let monitors: Vec<Monitor> = monitors.collect();
    promises_of_every_store!(all_in_turn_in_a_cluster);
    promises_of_durable_stores!(all_in_turn_in_a_cluster);
    promises_of_rates!(all_in_turn_in_a_cluster);
    promises_of_cron!(all_in_turn_in_a_cluster);
    promises_of_durable_cron!(all_in_turn_in_a_cluster);
    promises_of_expiry!(all_in_turn_in_a_cluster);
    promises_of_tracks!(all_in_turn_in_a_cluster);
    promises_of_durable_tracks!(all_in_turn_in_a_cluster);
    run_alone(nodes_and_pages(endpoint.clone()));
    run_alone(push_while_a_slot_moves(&cluster, &endpoint));
    let ended = monitors.into_iter().zip(&cluster.masters);
    let used: BTreeSet<String> = ended.flat_map(|(monitor, master)| monitor.end(master)).collect();
    assert_all_used(&line, &used);
    cluster.masters.iter().for_each(assert_none_denied);
}

/// The endpoint of the restricted user.
fn restricted(redis: &RedisServer, database: &str) -> RedisEndpoint {
    let url = format!("redis://weir@127.0.0.1:{}{database}", redis.port);
    let password = Some(Secret::new(PASSWORD));
    RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() }
}

/// What `weir check` prints.
fn acl_line_of_cluster(endpoint: &RedisEndpoint) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check_server(endpoint, &RedisStoreSettings::default())).acl_line
}

/// Gives the restricted user the permissions of the line and no others.
fn grant(redis: &RedisServer, line: &str) {
    let mut words: Vec<&str> = line.split(' ').collect();
    let password = format!(">{PASSWORD}");
    words.splice(3..3, ["reset", "on", &password]);
    redis.run(&[&words]);
}

fn assert_all_used(line: &str, used: &BTreeSet<String>) {
    let commands = line.split(' ').filter_map(|word| word.strip_prefix('+'));
    let unused: Vec<&str> = commands.filter(|command| !used.contains(*command)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "of {used:?}");
}

fn assert_none_denied(redis: &RedisServer) {
    let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut redis.client()).unwrap();
    assert_eq!(log.len(), 0, "{log:?}");
}

/// The names of queues are about to be on another master.
async fn push_while_a_slot_moves(cluster: &RedisCluster, redis: &RedisEndpoint) {
    let node = Node::open(redis);
    let from = cluster.owner_of("queues");
    let to = (from + 1) % 3;
    cluster.begin_move("queues", to);
    let job = r#"{"jid":"job-00001","jobtype":"Test","args":[],"queue":"new"}"#;
    node.push(job).await.unwrap();
    cluster.end_move("queues", from, to);
    assert_eq!(node.fetch_now("new").await.as_deref(), Some("job-00001"));
}

/// What only a store in Redis does: several nodes, and Sidekiq's pages.
async fn nodes_and_pages(redis: RedisEndpoint) {
    let job = |jid: &str| format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q"}}"#);
    let (one, other) = (Node::open(&redis), Node::open(&redis));
    for jid in ["job-00001", "job-00002", "job-00003"] {
        one.push(&job(jid)).await.unwrap();
        assert_eq!(one.fetch_now("q").await.as_deref(), Some(jid));
    }
    assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]));
    let worker = WorkerReport {
        wid: Wid::new("w1"),
        hostname: "host".to_owned(),
        pid: 7,
        labels: Vec::new(),
        started: Timestamp::default(),
        rss_kb: 1,
        queues: vec![queue_name("q")],
        quiet: false,
        busy: 2,
    };
    assert_eq!(one.store.exchange_reports(NodeReport::default(), vec![worker]).await, []);
    let beat = (Wid::new("w1"), Duration::from_secs(1));
    let known =
        one.store.exchange_beats(std::slice::from_ref(&beat), std::slice::from_ref(&beat.0)).await;
    assert_eq!(known.unwrap().len(), 1);
    one.store.fail(report("job-00002")).await.unwrap();
    drop(one.crash());
    let back = other.fetch("w2", "q", Duration::from_secs(30)).await.unwrap();
    assert_eq!(&*back.jid, "job-00003");
    assert!(other.store.storage().await.bytes > 0);
    other.store.close().await.unwrap();
}

/// Collects the commands that a Redis runs.
struct Monitor {
    lines: std::thread::JoinHandle<BTreeSet<String>>,
}

impl Monitor {
    fn start(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        Self { lines: std::thread::spawn(move || lines.filter_map(|it| command_in(&it)).collect()) }
    }

    /// Returns the commands as ACL rules name them.
    fn end(self, redis: &RedisServer) -> BTreeSet<String> {
        redis.run(&[&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]]);
        let mut used = self.lines.join().unwrap();
        // Redis monitors no EXEC: it runs what follows MULTI.
        if used.contains("multi") {
            used.insert("exec".to_owned());
        }
        used
    }
}

/// Returns the command of a line such as `+1.5 [3 127.0.0.1:1] "script" "load" "return 1"`, unless it
/// belongs to the check of permissions.
fn command_in(line: &str) -> Option<String> {
    if line.contains("acl-check") || line.contains(r#""return 1""#) || line.contains("e0e1f9fab") {
        return None;
    }
    let (_, words) = line.split_once("] ")?;
    let mut words = words.split(' ').map(|word| word.trim_matches('"').to_lowercase());
    let command = words.next()?;
    match command.as_str() {
        "script" | "cluster" => Some(format!("{command}|{}", words.next()?)),
        _ => Some(command),
    }
}

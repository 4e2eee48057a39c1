//! Sentinels: a failover under load, a primary that comes back, passwords, TLS.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_jobs::store::Store;
use weir_sidekiq::{RedisAddress, RedisEndpoint};

use super::authority::Authority;
use super::rig::{job, open, pass_a_job, push_error, until, until_pushed};
use crate::redis_server::{RedisServer, free_port};
use crate::store::rig::{Node, run_alone};

/// Of a client after an error.
const PAUSE: Duration = Duration::from_millis(5);

/// A primary, a replica and three Sentinels.
struct Watched {
    primary: RedisServer,
    replica: RedisServer,
    sentinels: Vec<RedisServer>,
}

/// How the Sentinels watch the server on a port. Their times are short, and long enough for a slow
/// machine.
fn monitor(port: u16, quorum: usize) -> String {
    format!(
        "sentinel monitor mymaster 127.0.0.1 {port} {quorum}\n\
         sentinel down-after-milliseconds mymaster 1500\n\
         sentinel failover-timeout mymaster 5000"
    )
}

impl Watched {
    fn start() -> Option<Self> {
        let primary = RedisServer::start()?;
        let port = primary.port.to_string();
        let replica = RedisServer::start_with(move |_, _| {
            ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]
                .map(str::to_owned)
                .to_vec()
        })?;
        let sentinel = |_| RedisServer::start_sentinel_with(&monitor(primary.port, 2), "port");
        let sentinels = (0..3).map(sentinel).collect::<Option<Vec<_>>>()?;
        Some(Self { primary, replica, sentinels })
    }

    fn endpoint(&self) -> RedisEndpoint {
        let address = |sentinel: &RedisServer| format!("127.0.0.1:{}", sentinel.port);
        let addresses: Vec<String> = self.sentinels.iter().map(address).collect();
        let url = format!("redis+sentinel://{}/mymaster/3", addresses.join(","));
        RedisEndpoint::parse(&url).unwrap()
    }

    /// Waits until all Sentinels know each other and the replica, which has all data.
    async fn is_settled(&self) {
        until(async || {
            let knows = |sentinel: &RedisServer| {
                let state: Result<BTreeMap<String, String>, _> = redis::cmd("SENTINEL")
                    .arg(&["MASTER", "mymaster"])
                    .query(&mut sentinel.client());
                state.is_ok_and(|state| {
                    state["num-other-sentinels"] == "2" && state["num-slaves"] == "1"
                })
            };
            replication(&self.replica).contains("master_link_status:up")
                && self.sentinels.iter().all(knows)
        })
        .await;
    }

    async fn replica_is_promoted(&self) {
        until(async || replication(&self.replica).contains("role:master")).await;
    }
}

fn replication(redis: &RedisServer) -> String {
    redis::cmd("INFO").arg("replication").query(&mut redis.client()).unwrap()
}

/// What clients did while a primary failed.
#[derive(Default)]
struct Load {
    pushed: RefCell<Vec<String>>,
    fetched: RefCell<BTreeSet<String>>,
    is_over: Cell<bool>,
}

impl Load {
    async fn push(self: Rc<Self>, node: Rc<Node>) {
        let mut number = 0;
        while !self.is_over.get() {
            let jid = format!("job-{number:06}");
            number += 1;
            match node.push(&job(&jid)).await {
                Ok(()) => self.pushed.borrow_mut().push(jid),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn work(self: Rc<Self>, node: Rc<Node>) {
        while !self.is_over.get() {
            if !self.work_once(&node).await {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn work_once(&self, node: &Node) -> bool {
        use weir_jobs::store::{BatchSize, FetchRequest};
        let queues = [crate::store::rig::queue_name("q")];
        let wait = Duration::from_millis(100);
        let request = FetchRequest { wid: None, queues: &queues, max: BatchSize::ONE, wait };
        let Ok(jobs) = node.store.fetch(request).await else { return false };
        for delivery in &jobs {
            self.fetched.borrow_mut().insert(delivery.jid.to_string());
            drop(node.store.ack(&[&delivery.jid]).await);
        }
        !jobs.is_empty()
    }

    async fn until_pushed(&self, count: usize) {
        until(async || self.pushed.borrow().len() >= count).await;
    }
}

#[test]
fn jobs_pass_again_after_a_failover_under_load() {
    let Some(mut watched) = Watched::start() else { return };
    run_alone(async move {
        watched.is_settled().await;
        let node = Rc::new(open(&watched.endpoint()));
        let load = Rc::<Load>::default();
        let tasks = [
            tokio::task::spawn_local(Rc::clone(&load).push(Rc::clone(&node))),
            tokio::task::spawn_local(Rc::clone(&load).work(Rc::clone(&node))),
        ];
        load.until_pushed(300).await;
        watched.primary.kill();
        let before = load.pushed.borrow().len();
        watched.replica_is_promoted().await;
        let promoted = load.pushed.borrow().len();
        load.until_pushed(promoted + 300).await;
        load.is_over.set(true);
        for task in tasks {
            task.await.unwrap();
        }
        while load.work_once(&node).await {}
        let mut client = watched.replica.client();
        redis::cmd("SELECT").arg(3).exec(&mut client).unwrap();
        let reserved: Vec<String> =
            redis::cmd("HVALS").arg("weir:{queue:q}:reserved").query(&mut client).unwrap();
        let is_kept = |jid: &String| {
            load.fetched.borrow().contains(jid)
                || reserved.iter().any(|it| it.contains(jid.as_str()))
        };
        let pushed = load.pushed.borrow();
        let lost = pushed.iter().filter(|jid| !is_kept(jid)).count();
        eprintln!(
            "{} jobs were acknowledged, {lost} lost (asynchronous replication)",
            pushed.len()
        );
        assert!(pushed[promoted..].iter().all(is_kept), "jobs of the new primary are lost");
        assert!(before <= promoted);
    });
}

#[test]
fn a_primary_that_was_replaced_while_it_hung_is_not_used_when_it_continues() {
    let Some(watched) = Watched::start() else { return };
    run_alone(async move {
        watched.is_settled().await;
        let node = open(&watched.endpoint());
        pass_a_job(&node, "job-00001").await;
        watched.primary.signal("STOP");
        watched.replica_is_promoted().await;
        until_pushed(&node, "job-00002").await;
        watched.primary.signal("CONT");
        let length = |redis: &RedisServer| {
            let mut client = redis.client();
            redis::cmd("SELECT").arg(3).exec(&mut client).unwrap();
            redis::cmd("LLEN").arg("queue:q").query::<u64>(&mut client).unwrap()
        };
        let before = length(&watched.replica);
        let mut pushed = 0;
        // Until the Sentinels have told the old primary.
        until(async || {
            pushed += u64::from(node.push(&job(&format!("job-1{pushed:04}"))).await.is_ok());
            replication(&watched.primary).contains("role:slave")
        })
        .await;
        assert!(pushed > 0);
        // A push whose reply was lost may have been stored as well.
        let after = length(&watched.replica);
        assert!(
            after >= before + pushed,
            "{before} + {pushed} jobs, and {after} on the new primary"
        );
    });
}

#[test]
fn another_primary_is_used_although_the_old_one_still_accepts_commands() {
    let (Some(old), Some(new)) = (RedisServer::start(), RedisServer::start()) else { return };
    let Some(sentinel) = RedisServer::start_sentinel(old.port) else { return };
    run_alone(async move {
        let url = format!("redis+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
        let node = open(&RedisEndpoint::parse(&url).unwrap());
        pass_a_job(&node, "job-00001").await;
        let port = new.port.to_string();
        sentinel.run(&[
            &["SENTINEL", "REMOVE", "mymaster"],
            &["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "1"],
        ]);
        until(async || {
            drop(node.push(&job("job-00002")).await);
            redis::cmd("EXISTS").arg("queue:q").query::<bool>(&mut new.client()).unwrap()
        })
        .await;
    });
}

#[test]
fn sentinels_have_a_password_of_their_own() {
    let Some(redis) = RedisServer::start() else { return };
    let lines = format!("{}\nrequirepass hunter2", monitor(redis.port, 1));
    let Some(sentinel) = RedisServer::start_sentinel_with(&lines, "port") else { return };
    run_alone(async move {
        let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:1/mymaster", sentinel.port);
        let with = |password: Option<&str>, url: &str| {
            let mut endpoint = RedisEndpoint::parse(url).unwrap();
            let RedisAddress::Sentinel(sentinel) = &mut endpoint.address else { panic!("{url}") };
            sentinel.password = password.map(Secret::new);
            open(&endpoint)
        };
        pass_a_job(&with(Some("hunter2"), &url), "job-00001").await;
        for password in [None, Some("hunter3")] {
            let error = push_error(&with(password, &url)).await;
            assert!(error.contains("cannot be found through its Sentinels"), "{error}");
            assert!(error.contains("sentinel_password beside the url"), "{error}");
            assert!(!error.contains("hunter"), "{error}");
        }
        let error = push_error(&with(Some("hunter2"), &url.replace("mymaster", "other"))).await;
        assert!(error.contains("No such master") && error.contains("know the service"), "{error}");
        let nobody = "redis+sentinel://127.0.0.1:1,127.0.0.1:2/mymaster";
        let error = push_error(&with(None, nobody)).await;
        assert!(error.contains("Sentinel 127.0.0.1:1: ") && error.contains(":2: "), "{error}");
    });
}

#[test]
fn sentinels_and_their_servers_are_reached_with_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::write(folder.path());
    let port = free_port();
    let Some(_redis) = RedisServer::start_with(|_: &Path, _| {
        let mut arguments = authority.arguments();
        arguments.extend(["--tls-port".to_owned(), port.to_string()]);
        arguments
    }) else {
        return;
    };
    let tls = authority.options().map(|(name, value)| format!("{name} {value}")).join("\n");
    let lines = format!("port 0\ntls-replication yes\n{tls}\n{}", monitor(port, 1));
    let Some(sentinel) = RedisServer::start_sentinel_with(&lines, "tls-port") else { return };
    run_alone(async move {
        let url = format!("rediss+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
        let mut endpoint = RedisEndpoint::parse(&url).unwrap();
        let error = push_error(&open(&endpoint)).await;
        assert!(error.contains("ca beside the url"), "{error}");
        endpoint.tls = authority.client_files();
        pass_a_job(&open(&endpoint), "job-00001").await;
    });
}

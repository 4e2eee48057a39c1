//! Faults under load, with a checker over all clients.
//!
//! `WEIR_REALTIME_FAULTS` sets the number of rounds of each kind.

mod checker;
mod load;
mod moved_client;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weir_redis::RedisEndpoint;

use self::checker::Account;
use self::load::{CHANNELS, ClientLog, Recorder};
use self::moved_client::MovedClient;
use crate::client::Client;
use crate::cluster::key_of;
use crate::failover::Watched;
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use crate::rig::{Node, loop_until};

/// Enough to see that the trial works.
const ROUNDS: u64 = 1;
/// Nodes that publish.
const NODES: usize = 3;
const ROOM: &str = "presence-room";
/// How long Redis does not respond.
const PAUSE: Duration = Duration::from_secs(20);
const SHORT_PAUSE: Duration = Duration::from_secs(2);

fn rounds() -> u64 {
    std::env::var_os("WEIR_REALTIME_FAULTS").map_or(ROUNDS, |rounds| {
        rounds.to_string_lossy().parse().expect("WEIR_REALTIME_FAULTS is a number")
    })
}

/// Whether the trials run as `make long` runs them.
fn is_long_run() -> bool {
    std::env::var_os("WEIR_REALTIME_FAULTS").is_some()
}

/// Sums over all rounds of one kind.
#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    account: Account,
    /// The longest time until the members of a node that ended were gone.
    members_gone_max: Duration,
}

impl Tally {
    fn add(&mut self, account: &Account) {
        self.rounds += 1;
        self.account.add(account);
    }

    fn print(&self, kind: &str) {
        let Account { acknowledged, delivered, gaps, lost_unseen, late_max } = &self.account;
        let rounds = self.rounds;
        eprintln!(
            "realtime fault, {kind}: {rounds} rounds, {acknowledged} events acknowledged, \
             {delivered} deliveries in one order, {gaps} gaps reported, no silent loss, \
             {lost_unseen} lost before any node had them, delivered within {late_max:.2?} of the \
             reply"
        );
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(200..600))).await;
}

/// Runs nodes on this Redis under load, with a fault meanwhile.
async fn run_round(endpoint: &RedisEndpoint, fault: impl Future<Output = ()>) -> Account {
    let nodes = load::start_nodes(endpoint, NODES).await;
    let mut recorders = load::recorders(&nodes).await;
    let recording = join_all(recorders.iter_mut().map(Recorder::read_to_end));
    let (acknowledged, _) = tokio::join!(load::run(&nodes, fault), recording);
    let logs: Vec<&ClientLog> = recorders.iter().map(|recorder| &recorder.log).collect();
    checker::check(&acknowledged, &logs)
}

#[tokio::test]
async fn no_event_is_lost_silently_when_subscriptions_are_cut() {
    let mut tally = Tally::default();
    for _ in 0..rounds() {
        let redis = RedisServer::start();
        let fault = async {
            for _ in 0..3 {
                pause().await;
                redis.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            }
            pause().await;
        };
        tally.add(&run_round(&redis.endpoint(), fault).await);
    }
    assert_eq!(tally.account.lost_unseen, 0);
    tally.print("subscriptions cut");
}

#[tokio::test]
async fn no_event_is_lost_silently_when_redis_is_paused() {
    let mut tally = Tally::default();
    for _ in 0..rounds() {
        let redis = RedisServer::start();
        let fault = async {
            pause().await;
            redis.signal("STOP");
            tokio::time::sleep(if is_long_run() { PAUSE } else { SHORT_PAUSE }).await;
            redis.signal("CONT");
            pause().await;
        };
        tally.add(&run_round(&redis.endpoint(), fault).await);
    }
    assert_eq!(tally.account.lost_unseen, 0);
    tally.print("Redis paused");
}

/// The replica may lack the last events. A Sentinel names it afterwards.
#[tokio::test]
async fn no_event_is_lost_silently_when_a_primary_is_failed_over() {
    let mut tally = Tally::default();
    for _ in 0..rounds() {
        let mut watched = Watched::start();
        let endpoint = watched.endpoint();
        let fault = async {
            pause().await;
            if fastrand::bool() {
                // What is published from now on is lost, although nodes deliver it.
                watched.replica.run(&["REPLICAOF", "NO", "ONE"]);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            watched.replica.run(&["REPLICAOF", "NO", "ONE"]);
            watched.fail_over();
            pause().await;
        };
        tally.add(&run_round(&endpoint, fault).await);
    }
    tally.print("primary failed over");
}

#[tokio::test]
async fn no_event_is_lost_silently_when_slots_are_moved() {
    let mut tally = Tally::default();
    for _ in 0..rounds() {
        let cluster = RedisCluster::start();
        let fault = async {
            for channel in CHANNELS {
                pause().await;
                let (key, from) = key_of(&cluster, channel);
                let to = (from + 1) % 3;
                cluster.begin_move(&key, from, to);
                pause().await;
                cluster.end_move(&key, from, to);
            }
            pause().await;
        };
        tally.add(&run_round(&cluster.endpoint(), fault).await);
    }
    assert_eq!(tally.account.lost_unseen, 0);
    tally.print("slots moved");
}

/// Clients of the node continue at another one, from where they were.
#[tokio::test]
async fn no_event_is_lost_silently_when_a_node_is_killed() {
    let mut tally = Tally::default();
    for _ in 0..rounds() {
        let redis = RedisServer::start();
        let (account, gone) = kill_a_node(&redis.endpoint()).await;
        tally.add(&account);
        tally.members_gone_max = tally.members_gone_max.max(gone);
    }
    assert_eq!(tally.account.lost_unseen, 0);
    tally.print("node killed");
    eprintln!("members of the node gone within {:.2?}", tally.members_gone_max);
}

async fn kill_a_node(endpoint: &RedisEndpoint) -> (Account, Duration) {
    let mut nodes = load::start_nodes(endpoint, NODES).await;
    let mut mortal = nodes.pop().expect("a node");
    let mut recorders = load::recorders(&nodes).await;
    let lost = load::recorders(std::slice::from_ref(&mortal)).await;
    let members = [Client::connect(&nodes[0].node), Client::connect(&mortal.node)];
    members[0].join(ROOM, "ada", &json!({})).await;
    members[1].join(ROOM, "bob", &json!({})).await;
    loop_until(async || (users(&nodes[0].node) == 2).then_some(())).await;
    // Leases that a node finds when it starts have longer.
    nodes[0].node.heartbeats(3).await;
    let (sender, receiver) = oneshot::channel();
    let fault = async {
        pause().await;
        mortal.kill();
        let killed = Instant::now();
        let moving = lost.into_iter().map(|it| MovedClient::resume(it, &mortal, &nodes[0].node));
        assert!(sender.send(join_all(moving).await).is_ok());
        loop_until(async || (users(&nodes[0].node) == 1).then_some(())).await;
        killed.elapsed()
    };
    let recording = join_all(recorders.iter_mut().map(Recorder::read_to_end));
    let moved = async {
        let moved: Vec<MovedClient<'_>> = receiver.await.expect("the clients");
        join_all(moved.into_iter().map(MovedClient::read_to_end)).await
    };
    let ((acknowledged, gone), _, moved) =
        tokio::join!(load::run_with(&nodes, fault), recording, moved);
    let logs: Vec<&ClientLog> = recorders.iter().map(|it| &it.log).chain(&moved).collect();
    (checker::check(&acknowledged, &logs), gone)
}

fn users(node: &Node) -> usize {
    node.hub.members("1", ROOM, None, 1).map_or(0, |page| page.total)
}

//! A Redis that hangs, dies, or is behind a network that does.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{Store, StoreError};
use weir_sidekiq::RedisEndpoint;

use super::rig::{job, open, pass_a_job, push_error, settings, until, until_error, until_pushed};
use crate::redis_server::RedisServer;
use crate::store::rig::{Node, run_alone};

#[test]
fn a_redis_that_hangs_is_reported_and_used_again_when_it_continues() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let node = open(&redis.endpoint());
        pass_a_job(&node, "job-00001").await;
        redis.signal("STOP");
        let error = node.push(&job("job-00002")).await.unwrap_err();
        let StoreError::Uncertain(text) = &error else { panic!("{error:?}") };
        assert!(
            text.contains("no reply within 1s (jobs.redis.advanced.command_timeout)"),
            "{text}"
        );
        assert!(text.contains(&redis.endpoint().to_string()), "{text}");
        // Nothing hangs from here on: one command at a time tries, and the others fail.
        let error = push_error(&node).await;
        assert!(error.contains("can't be used since"), "{error}");
        redis.signal("CONT");
        until_pushed(&node, "job-00003").await;
    });
}

#[test]
fn only_so_many_commands_wait_for_a_redis_that_hangs() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let limits = JobServerLimits { store_commands_max: 20, ..JobServerLimits::default() };
        let server = JobServerSettings { limits, ..JobServerSettings::default() };
        let node = Node::open_as(&redis.endpoint(), settings(), &server);
        pass_a_job(&node, "job-00001").await;
        redis.signal("STOP");
        let pushes = (0..200).map(|number| {
            let (node, jid) = (&node, format!("job-1{number:04}"));
            async move { node.push(&job(&jid)).await }
        });
        let outcomes = join_all(pushes).await;
        let limit = "too many commands wait for Redis: at most 20 \
                     (jobs.limits.advanced.store_commands_max)";
        let rejected = |it: &&Result<(), StoreError>| **it == Err(StoreError::Limit(limit.into()));
        let uncertain = |it: &&Result<(), StoreError>| matches!(it, Err(StoreError::Uncertain(_)));
        let rejected = outcomes.iter().filter(rejected).count();
        // The store's own tasks have commands in flight as well.
        let waited = outcomes.iter().filter(uncertain).count();
        assert!((10..=20).contains(&waited), "{waited} of 200 waited");
        assert_eq!(rejected + waited, 200, "{outcomes:?}");
        redis.signal("CONT");
        until_pushed(&node, "job-00003").await;
        // The places are free again.
        let again = (0..15).map(|number| {
            let (node, jid) = (&node, format!("job-2{number:04}"));
            async move { node.push(&job(&jid)).await }
        });
        assert!(join_all(again).await.iter().all(Result::is_ok));
    });
}

#[test]
fn a_redis_that_dies_is_found_again_where_it_was() {
    let Some(mut redis) = RedisServer::start() else { return };
    run_alone(async move {
        let node = open(&redis.endpoint());
        pass_a_job(&node, "job-00001").await;
        redis.kill();
        let error = until_error(&node, "does not respond: nothing listens there").await;
        assert!(error.contains("can't be used since"), "{error}");
        let counts = node.store.counts().await;
        assert!(counts.age > Duration::ZERO, "{counts:?}");
        let Some(_redis) = RedisServer::start_at(redis.port) else { return };
        until_pushed(&node, "job-00002").await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00002"));
    });
}

/// What a network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Passes,
    /// Connections stay open and nothing arrives.
    Swallows,
}

/// A network between the node and its Redis.
struct Proxy {
    network: watch::Sender<Network>,
    port: u16,
}

impl Proxy {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (network, mut state) = watch::channel(Network::Passes);
        let proxy = Self { network, port: listener.local_addr().unwrap().port() };
        tokio::task::spawn_local(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut state_here = state.clone();
                tokio::task::spawn_local(async move {
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
                        return;
                    };
                    while state_here.wait_for(|it| *it == Network::Passes).await.is_ok() {
                        let mut until_swallowed = state_here.clone();
                        tokio::select! {
                            _ = copy_bidirectional(&mut client, &mut server) => return,
                            _ = until_swallowed.wait_for(|it| *it == Network::Swallows) => {}
                        }
                    }
                });
                state.mark_unchanged();
            }
        });
        proxy
    }

    fn endpoint(&self) -> RedisEndpoint {
        RedisEndpoint::parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }
}

#[test]
fn a_network_that_swallows_everything_is_an_outage_with_an_end() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let proxy = Proxy::to(redis.port).await;
        let node = Rc::new(open(&proxy.endpoint()));
        pass_a_job(&node, "job-00001").await;
        proxy.network.send(Network::Swallows).unwrap();
        // A FETCH that waits is told, not left alone for longer than its wait.
        let fetching = {
            let node = Rc::clone(&node);
            tokio::task::spawn_local(async move {
                node.store.ack(&["job-00001"]).await.map(|unknown| unknown.len())
            })
        };
        until_error(&node, "no reply within 1s").await;
        assert!(fetching.await.unwrap().is_err());
        let error = push_error(&node).await;
        assert!(error.contains("can't be used since"), "{error}");
        proxy.network.send(Network::Passes).unwrap();
        until(async || node.push(&job("job-00002")).await.is_ok()).await;
        // What was sent into the outage arrives as well: it was reported as uncertain.
        until(async || node.fetch_now("q").await.as_deref() == Some("job-00002")).await;
    });
}

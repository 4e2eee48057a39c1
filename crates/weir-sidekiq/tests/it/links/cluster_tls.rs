//! TLS to a Redis Cluster: certificates are checked for the names that its nodes announce.

use tempfile::TempDir;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::check_server;

use super::authority::Authority;
use super::rig::{open, settings};
use crate::redis_cluster::{ClusterOptions, RedisCluster};
use crate::store::cluster::job;
use crate::store::rig::{Node, run_alone};

/// The arguments of nodes that announce host names, which Redis has from version 7.
const ANNOUNCE_NAMES: [&str; 4] =
    ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];

/// A cluster that requires client certificates.
struct TlsCluster {
    cluster: RedisCluster,
    authority: Authority,
    _folder: TempDir,
}

impl TlsCluster {
    /// Its certificate is valid for `host`.
    fn start(host: &str, arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::write_for(folder.path(), host);
        let mut all = authority.arguments();
        all.extend(arguments.iter().map(|word| (*word).to_owned()));
        let options = ClusterOptions { has_tls: true, arguments: all, ..ClusterOptions::default() };
        let cluster = RedisCluster::start_with(&options)?;
        Some(Self { cluster, authority, _folder: folder })
    }

    fn endpoint(&self, host: &str) -> RedisEndpoint {
        let tls = self.authority.client_files();
        RedisEndpoint { tls, ..self.cluster.tls_endpoint(host) }
    }

    /// Pushes a job to a queue on each master, and fetches it again.
    async fn pass_jobs(&self, node: &Node) {
        for place in 0..3 {
            let (queue, jid) = (self.cluster.queue_at(place), format!("job-{place:05}"));
            node.push(&job(&jid, &queue)).await.unwrap();
            assert_eq!(node.fetch_now(&queue).await.as_deref(), Some(&*jid));
            assert_eq!(weir_jobs::store::Store::ack(&node.store, &[&jid]).await, Ok(vec![]));
        }
    }
}

#[test]
fn nodes_that_announce_addresses_have_certificates_for_them() {
    let Some(redis) = TlsCluster::start("127.0.0.1", &[]) else { return };
    run_alone(async move {
        let endpoint = redis.endpoint("127.0.0.1");
        assert_eq!(check_server(&endpoint, &settings()).await.problem, None);
        redis.pass_jobs(&open(&endpoint)).await;
    });
}

#[test]
fn nodes_that_announce_host_names_have_certificates_for_them() {
    let Some(redis) = TlsCluster::start("localhost", &ANNOUNCE_NAMES) else { return };
    run_alone(async move {
        let endpoint = redis.endpoint("localhost");
        assert_eq!(check_server(&endpoint, &settings()).await.problem, None);
        let node = open(&endpoint);
        redis.pass_jobs(&node).await;
        // A slot that moves is at a host name, too.
        let queue = redis.cluster.queue_at(0);
        redis.cluster.move_slot(&format!("queue:{queue}"), 1);
        redis.pass_jobs(&node).await;
    });
}

#[test]
fn an_announced_address_that_the_certificate_lacks_is_named() {
    let Some(redis) = TlsCluster::start("localhost", &[]) else { return };
    run_alone(async move {
        let error = check_server(&redis.endpoint("localhost"), &settings()).await.problem.unwrap();
        assert!(error.contains("Redis 127.0.0.1:"), "it is the address of a node: {error}");
        assert!(error.contains("cluster-preferred-endpoint-type hostname"), "{error}");
    });
}

#[test]
fn a_node_without_a_client_certificate_is_named() {
    let Some(redis) = TlsCluster::start("127.0.0.1", &[]) else { return };
    run_alone(async move {
        let endpoint = redis.endpoint("127.0.0.1");
        let tls = weir_sidekiq::TlsFiles { client: None, ..redis.authority.client_files() };
        let without = RedisEndpoint { tls, ..endpoint };
        let error = check_server(&without, &settings()).await.problem.unwrap();
        assert!(error.contains("requires a client certificate"), "{error}");
    });
}

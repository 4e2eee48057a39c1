//! TLS: both certificates, and new ones while the store runs.

use std::path::Path;

use tempfile::TempDir;
use weir_sidekiq::{RedisEndpoint, TlsFiles};

use super::authority::Authority;
use super::rig::{open, pass_a_job, push_error, until_error, until_pushed};
use crate::redis_server::{RedisServer, free_port};
use crate::store::rig::run_alone;

/// A server with TLS that requires client certificates.
struct TlsServer {
    redis: RedisServer,
    authority: Authority,
    port: u16,
    _folder: TempDir,
}

impl TlsServer {
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::write(folder.path());
        let port = free_port();
        let redis = RedisServer::start_with(|_: &Path, _| {
            let mut arguments = authority.arguments();
            arguments.extend(["--tls-port".to_owned(), port.to_string()]);
            arguments
        })?;
        Some(Self { redis, authority, port, _folder: folder })
    }

    fn endpoint(&self, host: &str) -> RedisEndpoint {
        let endpoint = RedisEndpoint::parse(&format!("rediss://{host}:{}/2", self.port)).unwrap();
        RedisEndpoint { tls: self.authority.client_files(), ..endpoint }
    }
}

#[test]
fn jobs_pass_through_tls_with_a_client_certificate() {
    let Some(server) = TlsServer::start() else { return };
    run_alone(async move {
        pass_a_job(&open(&server.endpoint("127.0.0.1")), "job-00001").await;
    });
}

#[test]
fn what_is_not_trusted_is_refused_with_the_reason() {
    let Some(server) = TlsServer::start() else { return };
    let other = tempfile::tempdir().unwrap();
    let stranger = Authority::write(other.path());
    run_alone(async move {
        let with = |tls| RedisEndpoint { tls, ..server.endpoint("127.0.0.1") };
        let wrong_authority = TlsFiles { ..stranger.client_files() };
        let error = push_error(&open(&with(wrong_authority))).await;
        assert!(error.contains("not trusted here") && error.contains("ca beside"), "{error}");
        // The certificate is for the address, not for this name of it.
        let error = push_error(&open(&server.endpoint("localhost"))).await;
        assert!(error.contains("use the host name of its certificate"), "{error}");
        let tls = TlsFiles { client: None, ..server.authority.client_files() };
        let error = push_error(&open(&with(tls))).await;
        assert!(error.contains("requires a client certificate"), "{error}");
        let tls =
            TlsFiles { client: stranger.client_files().client, ..server.authority.client_files() };
        let error = push_error(&open(&with(tls))).await;
        assert!(error.contains("--redis-cert"), "{error}");
        let missing = TlsFiles { authority: Some(server.authority.file("none.pem")), client: None };
        let error = push_error(&open(&with(missing))).await;
        assert!(error.contains("none.pem") && error.contains("PEM file"), "{error}");
    });
}

#[test]
fn new_certificates_are_read_with_the_next_connection() {
    let Some(server) = TlsServer::start() else { return };
    run_alone(async move {
        let node = open(&server.endpoint("127.0.0.1"));
        pass_a_job(&node, "job-00001").await;
        // The server gets certificates of another authority. The client's files are those of the
        // first one until they are replaced, too.
        let other = tempfile::tempdir().unwrap();
        let stranger = Authority::write(other.path());
        let mut command = vec!["CONFIG".to_owned(), "SET".to_owned()];
        command.extend(stranger.options().into_iter().flat_map(|(name, it)| [name.to_owned(), it]));
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        server.redis.run(&[&words, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]]);
        until_error(&node, "not trusted here").await;
        for name in ["authority.pem", "client.pem", "client.key"] {
            std::fs::copy(stranger.file(name), server.authority.file(name)).unwrap();
        }
        until_pushed(&node, "job-00002").await;
    });
}

//! Ways in: unix sockets, TLS with certificates on both sides, Sentinel, several shards.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use weir_base::secret::Secret;
use weir_sidekiq::{
    READ_ONLY_ACL, RedisConnection, RedisEndpoint, RedisErrorKind, SampleLimits, SampleScope,
    SidekiqError, TlsFiles, join,
};

use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;

const JOB: &str = r#"{"class":"A","args":[],"enqueued_at":1763790000.5}"#;

pub(crate) fn is_denied(error: &SidekiqError) -> bool {
    let SidekiqError::Redis(error) = error else { return false };
    matches!(error.kind, RedisErrorKind::NoPermission { .. })
}

fn fill(redis: &RedisServer) {
    redis.run(&[&["SADD", "queues", "pull"], &["LPUSH", "queue:pull", JOB]]);
}

async fn length_at(endpoint: &RedisEndpoint) -> Result<u64, SidekiqError> {
    let limits = SampleLimits::default();
    let mut connection = RedisConnection::open(endpoint, &limits).await?;
    let queues = connection.sample(SampleScope::Changes, &limits).await?.queues.unwrap();
    Ok(queues[0].length)
}

#[tokio::test]
async fn a_unix_socket_and_another_database_are_reached() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let url = format!("unix://{}", redis.socket().display());
    assert_eq!(length_at(&RedisEndpoint::parse(&url).unwrap()).await.unwrap(), 1);
    redis.run(&[&["MOVE", "queue:pull", "2"], &["MOVE", "queues", "2"]]);
    let url = format!("{url}?db=2");
    assert_eq!(length_at(&RedisEndpoint::parse(&url).unwrap()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_sentinel_says_where_the_server_is() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let Some(sentinel) = RedisServer::start_sentinel(redis.port) else { return };
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/mymaster", sentinel.port);
    let endpoint = RedisEndpoint::parse(&url).unwrap();
    assert_eq!(length_at(&endpoint).await.unwrap(), 1);
    let connection = RedisConnection::open(&endpoint, &SampleLimits::default()).await.unwrap();
    assert_eq!(connection.master(), Some(format!("127.0.0.1:{}", redis.port).as_str()));
    let unknown = format!("redis+sentinel://127.0.0.1:{}/another", sentinel.port);
    assert!(length_at(&RedisEndpoint::parse(&unknown).unwrap()).await.is_err());
}

#[tokio::test]
async fn a_node_of_a_cluster_is_named_as_one() {
    let Some(cluster) = RedisCluster::start() else { return };
    let mut reasons = Vec::new();
    for master in &cluster.masters {
        let endpoint = master.endpoint();
        let limits = SampleLimits::default();
        let mut connection = RedisConnection::open(&endpoint, &limits).await.unwrap();
        let snapshot = connection.sample(SampleScope::Everything, &limits).await.unwrap();
        reasons.extend(snapshot.processes.err());
    }
    // One of the three has the key.
    assert_eq!(reasons.len(), 2);
    assert!(reasons.iter().all(|it| it.reason.contains("Redis Cluster")), "{reasons:?}");
}

#[tokio::test]
async fn two_shards_are_one() {
    let (Some(one), Some(other)) = (RedisServer::start(), RedisServer::start()) else { return };
    fill(&one);
    fill(&other);
    fill(&other);
    let limits = SampleLimits::default();
    let shards = [
        one.sample(SampleScope::Everything, &limits).await,
        other.sample(SampleScope::Everything, &limits).await,
    ];
    let joined = join(shards).unwrap();
    assert_eq!(joined.queues.unwrap()[0].length, 3);
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let error = length_at(&RedisEndpoint::parse("redis://127.0.0.1:1").unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(error.to_string().ends_with("host and port in the address"), "{error}");
}

/// An authority, and certificates of it for a server at 127.0.0.1 and for a client.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    fs::write(folder.join("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let authority = Issuer::new(params, key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        // OpenSSL takes a certificate with its issuer's name for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

#[tokio::test]
async fn tls_takes_the_right_authority_and_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let text = |name: &str| file(name).display().to_string();
    let spare = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tls_port = spare.local_addr().unwrap().port();
    drop(spare);
    let Some(redis) = RedisServer::start_with(|_, _| {
        let options = [
            ("--tls-port", tls_port.to_string()),
            ("--tls-ca-cert-file", text("authority.pem")),
            ("--tls-cert-file", text("server.pem")),
            ("--tls-key-file", text("server.key")),
            ("--tls-auth-clients", "yes".to_owned()),
        ];
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }) else {
        return;
    };
    fill(&redis);
    let mut endpoint = RedisEndpoint::parse(&format!("rediss://127.0.0.1:{tls_port}")).unwrap();
    let said = |endpoint: RedisEndpoint| async move {
        length_at(&endpoint).await.expect_err("it is not let in").to_string()
    };
    let not_trusted = said(endpoint.clone()).await;
    assert!(not_trusted.contains("--redis-ca"), "{not_trusted}");
    let plain = said(RedisEndpoint::parse(&format!("redis://127.0.0.1:{tls_port}")).unwrap()).await;
    assert!(plain.contains("use rediss://"), "{plain}");
    let tls =
        said(RedisEndpoint::parse(&format!("rediss://127.0.0.1:{}", redis.port)).unwrap()).await;
    assert!(tls.contains("use redis://"), "{tls}");
    endpoint.tls.authority = Some(file("authority.pem"));
    let nobody = said(endpoint.clone()).await;
    assert!(nobody.contains("--redis-cert"), "{nobody}");
    endpoint.tls.client = Some((file("client.pem"), file("client.key")));
    assert_eq!(length_at(&endpoint).await.unwrap(), 1);

    endpoint.tls = TlsFiles { authority: Some(file("missing.pem")), client: None };
    let error = length_at(&endpoint).await.unwrap_err().to_string();
    assert!(error.contains("missing.pem") && error.contains("PEM"), "{error}");
}

/// What a look says to a Redis that answers everything with `error`.
async fn answered(error: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It ends with its client, which ends with this test.
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut client, _) = listener.accept().unwrap();
        let mut received = [0; 4_096];
        while client.read(&mut received).is_ok_and(|bytes| bytes > 0) {
            if client.write_all(format!("-{error}\r\n").as_bytes()).is_err() {
                break;
            }
        }
    });
    let endpoint = RedisEndpoint::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    let error = length_at(&endpoint).await.unwrap_err();
    assert!(!is_denied(&error), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_redis_that_answers_nobody_says_why_and_what_to_do() {
    for (error, remedy) in [
        ("LOADING Redis is loading the dataset in memory", "wait until"),
        ("NOAUTH Authentication required.", "--redis-password-env"),
        ("ERR max number of clients reached", "CONFIG SET maxclients"),
        ("BUSY Redis is busy running a script.", "SCRIPT KILL"),
        ("MASTERDOWN Link with MASTER is down", "use the address of the master"),
    ] {
        let said = answered(error).await;
        assert!(said.contains(remedy) && said.contains(error), "{said}");
        assert!(!said.contains("ACL") && !said.contains("+ping"), "{said}");
    }
}

#[tokio::test]
async fn a_missing_and_a_wrong_password_are_told_apart() {
    let password = |_: &Path, _| vec!["--requirepass".to_owned(), "hunter2".to_owned()];
    let Some(redis) = RedisServer::start_with(password) else { return };
    let without = length_at(&redis.endpoint()).await.unwrap_err().to_string();
    assert!(without.contains("requires a password"), "{without}");
    let wrong = RedisEndpoint { password: Some(Secret::new("hunter3")), ..redis.endpoint() };
    let wrong = length_at(&wrong).await.unwrap_err().to_string();
    assert!(wrong.contains("or that password") && !wrong.contains("hunter3"), "{wrong}");
}

#[tokio::test]
async fn another_database_that_may_not_be_chosen_asks_for_that_right() {
    let Some(redis) = RedisServer::start() else { return };
    let mut user = vec!["ACL", "SETUSER", "we@ir", "reset", "on", ">hunter2", "~*"];
    user.extend(READ_ONLY_ACL.split_whitespace());
    redis.run(&[&user]);
    let url = format!("redis://we%40ir@127.0.0.1:{}", redis.port);
    let at = |url: &str| {
        let password = Some(Secret::new("hunter2"));
        RedisEndpoint { password, ..RedisEndpoint::parse(url).unwrap() }
    };
    fill(&redis);
    assert_eq!(length_at(&at(&url)).await.unwrap(), 1, "a name with an @ in it");
    let error = length_at(&at(&format!("{url}/3"))).await.unwrap_err().to_string();
    assert!(error.contains("SELECT") && error.ends_with("+select"), "{error}");
}

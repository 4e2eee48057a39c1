//! Upstreams that redirect requests.

use hyper::StatusCode;
use sha2::{Digest, Sha256};
use weir_base::secret::Secret;
use weir_gems::package::sample::Sample;

use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};

const PATH: &str = "/gems/a-1.0.gem";

fn to(url: &str) -> Reply {
    Reply::Raw(format!("HTTP/1.1 302 Found\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n").into())
}

/// Returns a mirror of an upstream that has one gem, and the gem's file.
async fn mirror(upstream: &Scripted, redirect_hosts: &[&str]) -> (Replica, Vec<u8>) {
    let file = Sample::new("a", "1.0").build();
    upstream.versions(&[upstream.gem("a", &[("1.0", Sha256::digest(&file).into())])]);
    let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
        let upstream = &mut settings.upstreams[0];
        upstream.credentials = Some(Secret::new("me:word"));
        upstream.redirect_hosts = redirect_hosts.iter().map(|host| host.parse().unwrap()).collect();
    });
    let replica = setup.start().await;
    replica.sync().await;
    (replica, file)
}

#[tokio::test]
async fn an_upstream_leads_nowhere_that_is_nearer_than_itself() {
    let (upstream, other) = (Scripted::start(), Scripted::start());
    let (replica, file) = mirror(&upstream, &[]).await;
    other.text(PATH, file);
    // The second is the other server, too, by an address that no server has as its own.
    let there = other.url().replace("127.0.0.1", "0.0.0.0");
    for (url, host) in [
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "169.254.169.254"),
        (format!("{there}{PATH}"), "0.0.0.0"),
        (there.replace("0.0.0.0", "[::ffff:169.254.169.254]"), "::ffff:169.254.169.254"),
    ] {
        upstream.on(PATH, to(&url));
        let answer = replica.file("a-1.0").await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        let told = format!("name {host} in gems.mirror.upstreams.redirect_hosts");
        assert!(answer.text().contains(&told), "{}", answer.text());
    }
    assert_eq!(other.asked(), Vec::<String>::new());
    let counted = "failures_total{upstream=\"one\",reason=\"redirect\"} 3";
    assert!(replica.metrics().contains(counted), "{}", replica.metrics());
}

#[tokio::test]
async fn an_upstream_leads_to_a_host_that_is_named() {
    let (upstream, other) = (Scripted::start(), Scripted::start());
    let (replica, file) = mirror(&upstream, &["0.0.0.0"]).await;
    other.text(PATH, file.clone());
    upstream.on(PATH, to(&format!("{}{PATH}", other.url().replace("127.0.0.1", "0.0.0.0"))));
    assert_eq!(replica.file("a-1.0").await.body, file);
    assert!(!other.head_of(PATH).contains("authorization"), "{}", other.head_of(PATH));
}

#[tokio::test]
async fn an_upstream_leads_to_its_equals_as_often_as_it_may_and_never_shows_its_password() {
    let (upstream, other) = (Scripted::start(), Scripted::start());
    let (replica, file) = mirror(&upstream, &[]).await;
    other.text("/there", file.clone());
    other.on("/elsewhere", to("/there"));
    upstream.on("/moved", to(&format!("{}/elsewhere", other.url())));
    upstream.on(PATH, to("/moved"));
    assert_eq!(replica.file("a-1.0").await.body, file);
    assert!(upstream.head_of("/moved").contains("authorization"));
    for path in ["/elsewhere", "/there"] {
        assert!(other.head_of(path).starts_with("get "), "{path}");
        assert!(!other.head_of(path).contains("authorization"), "{path}");
    }
    // One more.
    std::fs::remove_file(replica.index.files().0.remove(0)).unwrap();
    upstream.on(PATH, to("/again"));
    upstream.on("/again", to("/moved"));
    let answer = replica.file("a-1.0").await;
    assert!(answer.text().contains("we go on 3 times"), "{}", answer.text());
}

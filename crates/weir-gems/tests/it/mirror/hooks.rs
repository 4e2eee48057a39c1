//! Webhooks of upstreams: authentication, durability before the response, and processing.

use std::future::Future;
use std::time::Duration;

use hyper::StatusCode;
use sha2::{Digest, Sha256};
use weir_base::shutdown::ShutdownToken;
use weir_gems::mirror::HooksDone;
use weir_gems::package::sample::Sample;

use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Replica, SECRET, Setup, assert_same};
use crate::http::Index;
use crate::store::{NOW, identity, new};

pub(super) const ADD: &str = "/api/v1/add_spec.json";
const REMOVE: &str = "/api/v1/remove_spec.json";
pub(super) const RUBYGEMS: &str = "/api/v1/hooks/rubygems";

/// Returns the body that the Bundler API receives.
pub(super) fn spec(name: &str, version: &str, token: &str) -> String {
    let (number, platform) = version.split_once('-').unwrap_or((version, "ruby"));
    format!(
        "{{\"name\":\"{name}\",\"version\":\"{number}\",\"platform\":\"{platform}\",\
         \"prerelease\":false,\"rubygems_token\":\"{token}\"}}"
    )
}

/// Returns header and body in the format of rubygems.org.
pub(super) fn signed(name: &str, version: &str, secret: &str) -> (String, String) {
    let (number, platform) = version.split_once('-').unwrap_or((version, "ruby"));
    let body = format!(
        "{{\"name\":\"{name}\",\"downloads\":1,\"version\":\"{number}\",\"platform\":\"{platform}\",\
         \"authors\":\"x\",\"yanked\":false,\"sha\":\"00\",\"dependencies\":{{\"runtime\":[]}}}}"
    );
    (hex::encode(Sha256::digest(format!("{name}{number}{secret}"))), body)
}

pub(super) fn token() -> String {
    format!("{SECRET} one")
}

pub(super) fn done(done: u64, put_off: u64, given_up: u64) -> HooksDone {
    HooksDone { done, put_off, given_up }
}

#[tokio::test]
async fn what_a_hook_tells_is_looked_up_and_served() {
    let origin = Origin::start().await;
    origin.store().push(new("a", "1.0"), NOW).await.unwrap();
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    replica.sync().await;
    origin.store().push(new("a", "2.0-java"), NOW).await.unwrap();
    origin.store().push(new("b", "1.0"), NOW).await.unwrap();
    assert_eq!(replica.hook(ADD, "", spec("a", "2.0-java", &token())).await, StatusCode::OK);
    let (authorization, body) = signed("b", "1.0", &token());
    assert_eq!(replica.hook(RUBYGEMS, &authorization, body).await, StatusCode::OK);
    assert_eq!(replica.state().await.hooks_waiting, 2);
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(2, 0, 0));
    assert_same(&replica, origin.store()).await;
    // Both were in one look: the tail, and two infos.
    assert_eq!(replica.state().await.upstreams[0].requests, 2 + 3);
    origin.store().yank(&"a".parse().unwrap(), &identity("1.0"), NOW).await.unwrap();
    assert_eq!(replica.hook(REMOVE, "", spec("a", "1.0", &token())).await, StatusCode::OK);
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(1, 0, 0));
    assert_same(&replica, origin.store()).await;
    // A change that is already here needs no request.
    replica.hook(ADD, "", spec("b", "1.0", &token())).await;
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(1, 0, 0));
    assert_eq!(replica.state().await.upstreams[0].requests, 2 + 3 + 2);
    for line in ["hooks_total{outcome=\"taken\"} 4", "hooks_total{outcome=\"done\"} 4"] {
        assert!(replica.metrics().contains(line), "{}", replica.metrics());
    }
}

#[tokio::test]
async fn only_upstreams_send_hooks() {
    let upstream = Scripted::start();
    let setup = Setup::new(&[("one", &upstream.url())])
        .change(|settings| settings.limits.hooks_waiting_max = 1);
    let replica = setup.start().await;
    let good = || spec("a", "1.0", &token());
    for (path, authorization, body, expected) in [
        (ADD, "", spec("a", "1.0", "wrong"), StatusCode::FORBIDDEN),
        (ADD, "", spec("a", "1.0", ""), StatusCode::FORBIDDEN),
        (RUBYGEMS, "", good(), StatusCode::FORBIDDEN),
        (RUBYGEMS, &token(), good(), StatusCode::FORBIDDEN),
        (RUBYGEMS, &signed("b", "1.0", &token()).0, good(), StatusCode::FORBIDDEN),
        (ADD, "", "[]".to_owned(), StatusCode::BAD_REQUEST),
        (ADD, "", spec("a/b", "1.0", &token()), StatusCode::BAD_REQUEST),
        (ADD, "", spec("..", "1.0", &token()), StatusCode::BAD_REQUEST),
        (ADD, "", spec("a", "x", &token()), StatusCode::BAD_REQUEST),
        (ADD, "", good(), StatusCode::OK),
        (ADD, "", good(), StatusCode::SERVICE_UNAVAILABLE),
    ] {
        assert_eq!(replica.hook(path, authorization, body.clone()).await, expected, "{body}");
    }
    assert_eq!(replica.index.get(ADD).await.status, StatusCode::METHOD_NOT_ALLOWED);
    let without = Index::new().await;
    assert_eq!(without.ask("POST", ADD, &[], good()).await.status, StatusCode::NOT_FOUND);
    for line in ["denied\"} 5", "malformed\"} 4", "taken\"} 1", "full\"} 1"] {
        assert!(replica.metrics().contains(line), "{line} {}", replica.metrics());
    }
}

#[tokio::test]
async fn a_release_that_versions_does_not_have_yet_is_found_in_its_info() {
    let upstream = Scripted::start();
    let old = upstream.gem("a", &[("1.0", [1; 32])]);
    upstream.versions(&[old]);
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    replica.sync().await;
    let new = upstream.gem("a", &[("1.0", [1; 32]), ("2.0", [1; 32])]);
    replica.hook(ADD, "", spec("a", "2.0", &token())).await;
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(1, 0, 0));
    assert_eq!(replica.listed("a").await, ["1.0", "2.0"]);
    // When its line comes, there is nothing to do.
    upstream.forget();
    upstream.versions(&[upstream.gem("a", &[("1.0", [1; 32])]), new]);
    upstream.gem("a", &[("1.0", [1; 32]), ("2.0", [1; 32])]);
    assert!(replica.sync().await.is_complete());
    assert_eq!(upstream.asked(), ["/versions"]);
}

#[tokio::test]
async fn a_hook_is_tried_again_until_it_is_given_up() {
    let upstream = Scripted::start();
    upstream.versions(&[]);
    let setup = Setup::new(&[("one", &upstream.url())])
        .policy("private acme-*")
        .change(|settings| settings.limits.hook_attempts_max = 3);
    let replica = setup.start().await;
    for (name, version) in [("a", "1.0"), ("acme-web", "99.0")] {
        replica.hook(ADD, "", spec(name, version, &token())).await;
    }
    // The webhook for the private name is done without any request.
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(1, 1, 0));
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(0, 0, 0));
    let later = || replica.index.clock.advance(Duration::from_secs(60));
    later();
    upstream.on("/versions", Reply::Raw(b"HTTP/1.1 500 No\r\n\r\n".to_vec()));
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(0, 1, 0));
    later();
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(0, 0, 1));
    assert_eq!(replica.state().await.hooks_waiting, 0);
    assert!(upstream.asked().iter().all(|path| !path.contains("acme")), "{:?}", upstream.asked());
    assert!(replica.metrics().contains("given_up\"} 1"));
    // A local name.
    replica.index.push_sample(&Sample::new("ours", "1.0")).await;
    upstream.versions(&[upstream.gem("ours", &[("99.0", [1; 32])])]);
    replica.hook(ADD, "", spec("ours", "99.0", &token())).await;
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(1, 0, 0));
    assert_eq!(replica.listed("ours").await, ["1.0"]);
}

#[tokio::test]
async fn nothing_is_asked_about_what_does_not_come_from_there() {
    let upstream = Scripted::start();
    let other = Scripted::start();
    upstream.versions(&[upstream.gem("shop", &[("1.0", [1; 32]), ("2.0", [1; 32])])]);
    other.versions(&[]);
    let setup = Setup::new(&[("one", &upstream.url()), ("two", &other.url())]);
    let replica = setup.policy("from two bound").start().await;
    replica.try_sync().await;
    replica.index.push_sample(&Sample::new("ours", "1.0")).await;
    replica.store().yank(&"shop".parse().unwrap(), &identity("2.0"), NOW).await.unwrap();
    upstream.forget();
    for (name, version) in [("ours", "99.0"), ("bound", "1.0"), ("shop", "2.0"), ("shop", "1.0")] {
        replica.hook(ADD, "", spec(name, version, &token())).await;
    }
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(4, 0, 0));
    assert_eq!(upstream.asked(), Vec::<String>::new());
}

/// Waits until a condition is met.
pub(super) async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

#[tokio::test]
async fn a_running_mirror_looks_at_the_start_and_when_a_hook_comes() {
    let origin = Origin::start().await;
    origin.store().push(new("a", "1.0"), NOW).await.unwrap();
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    let (shutdown, mirror) = (ShutdownToken::new(), std::sync::Arc::clone(&replica.mirror));
    let twin = shutdown.clone();
    shutdown.spawn(async move { mirror.run(&twin).await });
    until(|| async { replica.listed("a").await == ["1.0"] }).await;
    // The clock stands still: only the hook can tell.
    origin.store().push(new("a", "2.0"), NOW).await.unwrap();
    replica.hook(ADD, "", spec("a", "2.0", &token())).await;
    until(|| async { replica.listed("a").await == ["1.0", "2.0"] }).await;
    until(|| async { replica.state().await.hooks_waiting == 0 }).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, weir_base::shutdown::Drained::Clean);
}

#[tokio::test]
async fn hooks_of_a_former_upstream_are_given_up() {
    let upstream = Scripted::start();
    upstream.versions(&[]);
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    replica.hook(ADD, "", spec("a", "1.0", &token())).await;
    let Replica { index, .. } = replica;
    let replica = Setup::new(&[("two", &upstream.url())]).start_on(index.opened_again());
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap(), done(0, 0, 1));
    assert_eq!(upstream.asked(), Vec::<String>::new());
}

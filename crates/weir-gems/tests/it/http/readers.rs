//! An index that requires a key to read.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use weir_gems::Endpoint;
use weir_gems::package::sample::Sample;
use weir_gems::settings::Readers;
use weir_gems::store::Scope;

use super::{Answer, Index};

const REVALIDATE: &str = "private, max-age=0, must-revalidate";

/// Returns an index with one gem that requires a key.
async fn private() -> Index {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    index.change(|settings| settings.read = Readers::WithKey);
    index
}

async fn key_of_reader(index: &Index) -> String {
    index.new_key(|key| key.scopes = vec![Scope::IndexRubygems]).await
}

/// Returns the header that `bundle` sends.
fn basic(pair: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

async fn read(index: &Index, path: &str, key: &str) -> Answer {
    index.ask("GET", path, &[("authorization", &basic(&format!("ci:{key}")))], "").await
}

async fn status(index: &Index, path: &str, key: &str) -> u16 {
    read(index, path, key).await.status.as_u16()
}

/// Returns paths to read from an endpoint; none if it is for writing.
fn paths(endpoint: Endpoint) -> &'static [&'static str] {
    match endpoint {
        Endpoint::Root => &["/"],
        Endpoint::Names => &["/names"],
        Endpoint::Versions => &["/versions"],
        Endpoint::Info => &["/info/a"],
        Endpoint::Dependencies => {
            &["/api/v1/dependencies?gems=a", "/api/v1/dependencies.json?gems=a"]
        }
        Endpoint::Specs => &["/specs.4.8.gz", "/latest_specs.4.8.gz", "/prerelease_specs.4.8.gz"],
        Endpoint::Gemspec => &["/quick/Marshal.4.8/a-1.0.gemspec.rz"],
        Endpoint::File => &["/gems/a-1.0.gem"],
        Endpoint::Push | Endpoint::Yank | Endpoint::Hook => &[],
    }
}

#[tokio::test]
async fn whatever_is_read_takes_a_key_and_is_kept_by_no_shared_cache() {
    let index = private().await;
    let key = key_of_reader(&index).await;
    for path in Endpoint::ALL.into_iter().flat_map(paths) {
        for method in ["GET", "HEAD"] {
            let refused = index.ask(method, path, &[], "").await;
            assert_eq!(refused.status.as_u16(), 401, "{method} {path}");
            assert!(refused.header("www-authenticate").starts_with("Basic realm="), "{path}");
            assert_eq!(refused.header("cache-control"), "no-store", "{path}");
            assert!(refused.text().contains("bundle config set"), "{path}: {}", refused.text());
        }
        index.change(|settings| settings.read = Readers::Anyone);
        let open = index.get(path).await;
        index.change(|settings| settings.read = Readers::WithKey);
        let answer = read(&index, path, &key).await;
        assert_eq!((answer.status, &answer.body), (open.status, &open.body), "{path}");
        assert_eq!(answer.status.as_u16(), 200, "{path}");
        assert!(open.header("cache-control").starts_with("public, "), "{path}");
        let told = open.header("cache-control").replace("public", "private");
        assert_eq!(answer.header("cache-control"), told, "{path}");
    }
    let file = read(&index, "/gems/a-1.0.gem", &key).await;
    assert_eq!(file.header("cache-control"), "private, max-age=31536000");
    assert_eq!(read(&index, "/versions", &key).await.header("cache-control"), REVALIDATE);
    assert_eq!(status(&index, "/info/nope", &key).await, 404);
    assert_eq!(index.get("/info/nope").await.status.as_u16(), 401, "names are not told either");
}

#[tokio::test]
async fn parts_and_the_word_that_nothing_has_changed_are_private_too() {
    let index = private().await;
    let authorization = key_of_reader(&index).await;
    let etag = read(&index, "/info/a", &authorization).await.header("etag").to_owned();
    for (name, value, status) in
        [("if-none-match", &*etag, 304), ("range", "bytes=3-", 206), ("range", "bytes=999-", 416)]
    {
        let headers = [("authorization", &*authorization), (name, value)];
        let answer = index.ask("GET", "/info/a", &headers, "").await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.header("cache-control"), REVALIDATE, "{status}");
        let without = index.ask("GET", "/info/a", &[(name, value)], "").await;
        assert_eq!(without.status.as_u16(), 401, "{name}");
    }
}

#[tokio::test]
async fn a_key_reads_if_that_is_what_it_is_for() {
    let index = private().await;
    let read = async |key: &str| status(&index, "/info/a", key).await;
    assert_eq!(read("weir_nobody").await, 401);
    // This key may push and yank, but not read.
    assert_eq!(read(&index.key).await, 403);
    let headers = [("authorization", &*index.key)];
    let told = index.ask("GET", "/info/a", &headers, "").await;
    assert!(told.text().contains("it has no scope index_rubygems"), "{}", told.text());
    let both = [Scope::IndexRubygems, Scope::PushRubygem];
    let limited = index
        .new_key(|key| {
            key.scopes = both.to_vec();
            key.gems = vec!["shop-*".parse().unwrap()];
        })
        .await;
    assert_eq!(read(&limited).await, 200, "reading is of the whole index");
    let headers = [("authorization", &*limited)];
    for (name, status) in [("shop-a", 200), ("b", 403)] {
        let gem = Sample::new(name, "1.0").build();
        let answer = index.ask("POST", "/api/v1/gems", &headers, gem).await;
        assert_eq!(answer.status.as_u16(), status, "{name}");
    }
    let reader = key_of_reader(&index).await;
    let headers = [("authorization", &*reader)];
    let push = index.ask("POST", "/api/v1/gems", &headers, Sample::new("c", "1").build()).await;
    assert_eq!(push.status.as_u16(), 403);
}

#[tokio::test]
async fn a_key_ends_at_its_time_and_when_it_is_revoked() {
    let index = private().await;
    let end = index.clock.now() + Duration::from_millis(500);
    let short = index
        .new_key(|key| {
            key.scopes = vec![Scope::IndexRubygems];
            key.expires_at_us = Some(end.as_micros());
        })
        .await;
    let key = key_of_reader(&index).await;
    assert_eq!(status(&index, "/versions", &short).await, 200);
    assert_eq!(status(&index, "/versions", &key).await, 200);
    index.clock.advance(Duration::from_millis(500));
    assert_eq!(status(&index, "/versions", &short).await, 401);
    let id = index.gems.store().keys().await.unwrap().last().unwrap().id;
    assert!(index.gems.revoke_key(id).await.unwrap());
    assert_eq!(status(&index, "/versions", &key).await, 401);
}

#[tokio::test]
async fn what_another_process_revokes_is_over_a_second_later() {
    let index = private().await;
    let key = key_of_reader(&index).await;
    assert_eq!(status(&index, "/names", &key).await, 200);
    let id = index.gems.store().keys().await.unwrap().last().unwrap().id;
    assert!(index.gems.store().remove_key(id).await.unwrap());
    assert_eq!(status(&index, "/names", &key).await, 200, "it was looked up a moment ago");
    index.clock.advance(Duration::from_secs(1));
    assert_eq!(status(&index, "/names", &key).await, 401);
}

#[tokio::test]
async fn the_way_to_files_elsewhere_takes_a_key() {
    let index = private().await;
    index.change(|settings| settings.files_url = Some("https://files.example".to_owned()));
    let key = key_of_reader(&index).await;
    let refused = index.get("/gems/a-1.0.gem").await;
    assert_eq!((refused.status.as_u16(), refused.header("location")), (401, ""));
    let sent = read(&index, "/gems/a-1.0.gem", &key).await;
    assert_eq!(sent.status.as_u16(), 302);
    assert_eq!(sent.header("location"), "https://files.example/a-1.0.gem");
    assert_eq!(sent.header("cache-control"), REVALIDATE);
}

#[tokio::test]
async fn who_sends_something_needs_no_key_to_read_with() {
    let index = private().await;
    index.push_sample(&Sample::new("b", "1.0")).await;
    assert_eq!(index.yank("gem_name=b&version=1.0").await.status.as_u16(), 200);
    // There is no mirror, but the endpoint does not require a key.
    let hook = index.ask("POST", "/api/v1/hooks/rubygems", &[], "{}").await;
    assert_eq!(hook.status.as_u16(), 404);
    assert!(hook.text().contains("no mirror"), "{}", hook.text());
}

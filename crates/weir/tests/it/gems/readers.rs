//! An index that takes a key to read. Real clients are in e2e.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;

use super::{BASE, GEMS, client, import, line, mirror, site};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::Weir;

const READ: &str = "read = \"key\"\n";
const REFUSED: &str = "HTTP/1.1 401 Unauthorized";
const GOOD: &str = "HTTP/1.1 200 OK";

fn key(weir: &Weir, scope: &str) -> String {
    weir.site.ok(&["gems", "key", "create", "reader", "--scope", scope]).trim().to_owned()
}

/// Sends a request like `bundle`; returns the status line and the body.
fn read(address: SocketAddr, path: &str, key: &str) -> (String, String) {
    let pair = BASE64_STANDARD.encode(format!("ci:{key}"));
    get(address, path, &format!("Authorization: Basic {pair}\r\n"))
}

#[test]
fn reload_can_require_keys_for_reading() {
    let mut weir = site(GEMS).start();
    import(&weir.site, &line("rack", &["1.0"]));
    assert_eq!(get(weir.gems(), "/names", "").0, GOOD);
    weir.site.write(&format!("{BASE}{GEMS}{READ}"));
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    let (status, told) = get(weir.gems(), "/names", "");
    assert_eq!(status, REFUSED);
    assert!(told.contains("weir gems key create NAME --scope index_rubygems"), "{told}");
    let (reader, pusher) = (key(&weir, "index_rubygems"), key(&weir, "push_rubygem"));
    assert_eq!(read(weir.gems(), "/names", &reader).1, "---\nrack\n");
    let (status, told) = read(weir.gems(), "/names", &pusher);
    assert_eq!(status, "HTTP/1.1 403 Forbidden");
    assert!(told.contains("it has no scope index_rubygems"), "{told}");
    let listed = weir.site.ok(&["gems", "key", "list"]);
    assert!(listed.contains("reader  index_rubygems  all "), "{listed}");
    let weir = weir.end().start();
    assert_eq!(read(weir.gems(), "/info/rack", &reader).0, GOOD);
    weir.site.ok(&["gems", "key", "revoke", "1"]);
    assert_eq!(read(weir.gems(), "/info/rack", &reader).0, REFUSED);
    // Metrics, pages and the admin API are the console's, with a password of its own.
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let refused = "weir_gems_answers_total{endpoint=\"info\",status=\"4xx\"} 1\n";
    assert!(metrics.contains(refused), "{metrics}");
    assert_eq!(weir.site.ok(&["gems", "list"]), "rack\n");
    assert!(weir.stop().success());
}

#[test]
fn read_keys_apply_only_below_the_mount() {
    let worker = crate::front::worker::Worker::start("shop");
    let more = format!(
        "[gems]\nmount = \"/gems-index\"\n{READ}[front]\nlisten = \"127.0.0.1:0\"\n\
         [[front.apps]]\nname = \"shop\"\nupstreams = [\"{}\"]\n",
        worker.address
    );
    let weir = site(&more).start();
    let reader = key(&weir, "index_rubygems");
    assert_eq!(get(weir.front(), "/gems-index/", "").0, REFUSED);
    assert_eq!(read(weir.front(), "/gems-index/names", &reader).1, "---\n");
    assert_eq!(get(weir.front(), "/names", "").1, "shop /names");
    assert!(weir.stop().success());
}

#[test]
fn keys_are_created_only_with_usable_scopes() {
    let weir = site(GEMS).start();
    let create = ["gems", "key", "create", "team", "--gem", "team-*", "--scope"];
    let shown = |scopes: &str| weir.site.shown(&[&create[..], &[scopes]].concat());
    insta::assert_snapshot!(shown("index_rubygems"), @r"
    exit: 2
    -- stdout
    -- stderr
    error: a key that only reads is for the whole index (gems limit what a key pushes and yanks; leave them out)
    ");
    let both = shown("index_rubygems,push_rubygem");
    assert!(both.contains("It can read all gems; --gem limits pushes and yanks only"), "{both}");
    assert!(both.contains("bundle config set --global HOST USER:KEY"), "{both}");
    assert!(weir.stop().success());
}

#[test]
fn mirror_authenticates_with_a_key() {
    let upstream = site(&format!("{GEMS}{READ}")).start();
    client::push(upstream.gems(), &client::key(&upstream), "rack", "1.0");
    let mirroring = site(&format!(
        "{GEMS}[gems.mirror]\ninterval = \"1h\"\n[[gems.mirror.upstreams]]\nname = \"one\"\n\
         url = \"http://{}\"\ncredentials = {{ file = \"credentials\" }}\n",
        upstream.gems()
    ));
    let credentials = mirroring.path().join("credentials");
    std::fs::write(&credentials, "mirror:weir_wrong").expect("written");
    let weir = mirroring.start();
    let error = || mirror::status(&weir)["upstreams"][0]["last_error"].as_str().map(str::to_owned);
    wait_until("it is denied", || error().is_some());
    assert!(error().is_some_and(|it| it.contains("gems.mirror.upstreams.credentials")));
    let key = key(&upstream, "index_rubygems");
    std::fs::write(&credentials, format!("mirror:{key}")).expect("written");
    let weir = weir.end().start();
    wait_until("all is here", || get(weir.gems(), "/names", "").1 == "---\nrack\n");
    assert_eq!(client::file(&weir, "rack-1.0").0, GOOD, "its file is fetched with the key, too");
    let shown = weir.site.shown(&["gems", "mirror", "status"]);
    assert!(!shown.contains(&key), "{shown}");
    assert!(weir.stop().success());
    assert!(upstream.stop().success());
}

//! The index in a Postgres, as the binary has it.

use rustix::process::Signal;

use super::client::{file, key, push};
use super::{import, line, site};
use crate::http::get;
use crate::weir::{Site, Weir};

#[path = "../../../../weir-gems/tests/it/store/postgres/server.rs"]
#[expect(
    dead_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the tests of the store need more of it; a test that is skipped says so"
)]
mod server;

/// Creates the site of one of several Weirs with a shared database and file folder.
fn shared(url: &str, schema: &str, files: &std::path::Path, more: &str) -> Site {
    let site = site(&format!(
        "[gems]\nlisten = \"127.0.0.1:0\"\nstore = \"postgres\"\nfiles_dir = \"{}\"\n\
         [gems.postgres]\nurl = {{ file = \"url\" }}\npassword = {{ file = \"password\" }}\n\
         schema = \"{schema}\"\n[gems.postgres.limits]\nconnections_max = 4\n\
         [gems.webhooks]\nadvanced.poll_interval = \"1h\"\n{more}",
        files.display()
    ));
    std::fs::write(site.path().join("url"), url).expect("written");
    std::fs::write(site.path().join("password"), "not asked for").expect("written");
    site
}

#[test]
fn two_weirs_serve_one_index_in_postgres() {
    let Some(server) = server::server() else { return };
    let files = tempfile::tempdir().expect("a folder");
    let shared = || shared(&server.url(), "weir_product", files.path(), "");
    let site = shared();
    import(&site, &line("rack", &["1.0", "2.0"]));
    let (one, other) = (site.start(), shared().start());
    assert_eq!(get(other.gems(), "/names", "").1, "---\nrack\n");
    let key = key(&one);
    push(one.gems(), &key, "shop", "1.0");
    assert_eq!(get(other.gems(), "/names", "").1, "---\nrack\nshop\n");
    let gemspec = get(other.gems(), "/info/shop", "").1;
    assert!(gemspec.contains("\n1.0 |checksum:"), "{gemspec}");
    // With the key that the other one made.
    push(other.gems(), &key, "shop", "1.1");
    other.site.ok(&["gems", "yank", "rack", "1.0", "--yes"]);
    let list = one.site.ok(&["gems", "info", "rack"]);
    assert!(list.contains("2.0") && !list.contains("\n1.0"), "{list}");
    assert!(get(one.console(), "/gems", "").1.contains("<a href=\"/gem?name=shop\">shop</a>"));
    let metrics = get(one.console(), "/metrics", "").1;
    assert!(metrics.contains("\nweir_gems_postgres_connections "), "{metrics}");
    let sound = one.site.ok(&["gems", "verify", "--files"]);
    assert!(
        sound.starts_with("sound: 2 gems, 3 releases\nsound: 2 files\nnot here: 1 file of "),
        "{sound}"
    );
    one.site.ok(&["switch", "off", "--gems", "names"]);
    assert!(!one.data_dir().join("gems/index.db").exists());
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn weir_starts_without_its_postgres() {
    let files = tempfile::tempdir().expect("a folder");
    // Nobody listens at port 1.
    let url = "postgres://weir@127.0.0.1:1/weir?sslmode=disable";
    let upstream = "[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"http://127.0.0.1:1\"\n";
    let mut weir = shared(url, "weir_product", files.path(), upstream).start();
    let (status, _) = get(weir.gems(), "/names", "");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(get(weir.console(), "/ready", "").0, "HTTP/1.1 503 Service Unavailable");
    let status = weir.site.ok(&["status"]);
    let gems = format!("gems at      {}\ngems         PROBLEM: ", weir.gems());
    assert!(status.contains(&gems) && status.contains("\ntakes jobs\n"), "{status}");
    let told = weir.site.shown(&["gems", "verify"]);
    assert!(told.contains("cannot use the database at gems.postgres.url: "), "{told}");
    // A secret shows no difference, but there is one.
    std::fs::write(weir.site.path().join("password"), "another").expect("written");
    weir.signal(Signal::HUP);
    weir.wait_for_log("gems.postgres.password changed: needs `weir restart`");
    assert!(weir.stop().success());
}

#[test]
fn two_weirs_on_one_postgres_mirror_the_same() {
    let Some(server) = server::server() else { return };
    let upstream = site("[gems]\nlisten = \"127.0.0.1:0\"\n").start();
    let theirs = key(&upstream);
    push(upstream.gems(), &theirs, "rack", "1.0");
    push(upstream.gems(), &theirs, "shop", "9.9");
    let files = tempfile::tempdir().expect("a folder");
    let mirror = format!(
        "[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"http://{}\"\n\
         [gems.mirror]\npolicy = \"policy\"\ninterval = \"1h\"\n",
        upstream.gems()
    );
    let start = || {
        let site = shared(&server.url(), "weir_mirrored", files.path(), &mirror);
        std::fs::write(site.path().join("policy"), "private shop\n").expect("written");
        site.start()
    };
    let (one, other) = (start(), start());
    let ours = key(&one);
    push(one.gems(), &ours, "shop", "1.0");
    for weir in [&one, &other] {
        weir.site.ok(&["gems", "mirror"]);
    }
    push(upstream.gems(), &theirs, "rack", "2.0");
    let told = one.site.ok(&["gems", "mirror"]);
    assert!(told.starts_with("one: 1 name changed, 1 new version; "), "{told}");
    let info = |weir: &Weir, name| get(weir.gems(), &format!("/info/{name}"), "").1;
    assert_eq!(info(&other, "rack"), info(&upstream, "rack"));
    assert!(info(&other, "shop").contains("\n1.0 |") && !info(&other, "shop").contains("9.9"));
    assert_eq!(file(&other, "rack-2.0").0, "HTTP/1.1 200 OK");
    drop(upstream);
    assert_eq!(file(&one, "rack-2.0").0, "HTTP/1.1 200 OK", "the other one has fetched it");
    let sound = one.site.ok(&["gems", "verify", "--files"]);
    assert_eq!(sound, "sound: 2 gems, 3 releases\nsound: 2 files\n");
    assert!(one.stop().success() && other.stop().success());
}

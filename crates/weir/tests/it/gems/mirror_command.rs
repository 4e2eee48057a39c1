//! What `weir gems mirror` says of upstreams that are not as they should be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_gems::index::digest::Digests;

use super::mirror::{mirror_site, normalized_output, status};
use super::{GEMS, site, upstream};
use crate::process::wait_until;

/// Longer than a command takes between two looks at how far it is.
const SLOW: Duration = Duration::from_millis(500);

/// Returns a gem's `/info`, and its line of `/versions`.
fn one_gem(name: &str) -> (String, String) {
    let info = format!("---\n1.0 |checksum:{}\n", "ab".repeat(32));
    let md5 = hex::encode(Digests::of(info.as_bytes()).md5);
    (info, format!("{name} 1.0 {md5}\n"))
}

#[test]
fn mirror_command_reports_failures() {
    let (info, line) = one_gem("rack");
    let versions = format!("---\nnone\n{line}{}", line.replace("rack", "rake"));
    let half = upstream::start(move |path| match path {
        "/versions" => ("200 OK", versions.clone()),
        "/info/rack" => ("200 OK", info.clone()),
        _ => ("403 Forbidden", String::new()),
    });
    let page = upstream::start(|_| ("200 OK", "<!DOCTYPE html>\n<html></html>\n".to_owned()));
    let busy = upstream::start(|_| ("429 Too Many Requests\r\nRetry-After: 7", String::new()));
    let output = |upstream: SocketAddr| {
        normalized_output(&mirror_site(upstream, "none\n"), upstream, &["gems", "mirror"])
    };
    insta::assert_snapshot!(output(half), @r"
    exit: 2
    -- stdout
    one: 1 name changed, 1 new version
    one: 2 names there
    -- stderr
    one: 1 line skipped as invalid
    one: 1 name denied by the upstream (401, 403): rake
    one: last error: /info/rake: the answer was 403 Forbidden; are gems.mirror.upstreams.credentials right?
    ");
    insta::assert_snapshot!(output(page), @r"
    exit: 2
    -- stdout
    -- stderr
    one: /versions: it does not begin with `---`; is this the address of a gem index?
    ");
    insta::assert_snapshot!(output(busy), @r"
    exit: 2
    -- stdout
    -- stderr
    one: /versions: the answer was 429 Too Many Requests: it is too busy, and asks to come again in 7 s
    ");
    for (arguments, told) in [
        (&["gems", "key", "create", "ci", "--gem", "shop/*"][..], "has '/'"),
        (&["gems", "key", "revoke", "ci"], "a key is identified by a number"),
    ] {
        let shown = site(GEMS).shown(arguments);
        assert!(shown.starts_with("exit: 64") && shown.contains(told), "{shown}");
    }
}

#[test]
fn replaced_file_is_reported_and_can_be_accepted() {
    let gem = |sums: [&str; 2]| {
        let [one, two] = sums.map(|sum| sum.repeat(32));
        let info = format!("---\n1.0 |checksum:{one}\n2.0-java |checksum:{two}\n");
        let md5 = hex::encode(Digests::of(info.as_bytes()).md5);
        (info, format!("---\nrack 1.0,2.0-java {md5}\n"))
    };
    let (is_replaced, [before, after]) =
        (Arc::new(AtomicBool::new(false)), [gem(["ab", "cd"]), gem(["ef", "01"])]);
    let door = Arc::clone(&is_replaced);
    let one = upstream::start(move |path| {
        let (info, versions) = if door.load(Ordering::SeqCst) { &after } else { &before };
        ("200 OK", if path == "/versions" { versions } else { info }.clone())
    });
    let mirror = site(&format!(
        "{GEMS}[gems.mirror]\ninterval = \"1h\"\n[[gems.mirror.upstreams]]\nname = \"one\"\n\
         url = \"http://{one}\"\n"
    ));
    let mirror = mirror.start();
    wait_until("all is here", || status(&mirror)["upstreams"][0]["last_result"]["added"] == 2);
    is_replaced.store(true, Ordering::SeqCst);
    let told = mirror.site.shown(&["gems", "mirror"]);
    assert!(told.starts_with("exit: 2"), "{told}");
    assert!(
        told.contains("one: 2 versions rejected: the upstream has replaced the file"),
        "{told}"
    );
    let told = mirror.site.ok(&["gems", "mirror", "status"]);
    let line = format!(
        "one: rack 2.0 (java) is rejected: the upstream has replaced the file with SHA-256 {} by one with {}; accept it with \
         `weir gems mirror accept rack 2.0 --platform java`",
        "cd".repeat(32),
        "01".repeat(32)
    );
    assert!(told.contains(&line), "{told}");
    let accept = ["gems", "mirror", "accept", "rack", "2.0", "--platform", "java", "--yes"];
    let told = mirror.site.ok(&accept);
    assert!(told.contains(&"01".repeat(32)), "{told}");
    // It was accepted once; and the other one still waits.
    let told = mirror.site.shown(&accept);
    assert!(told.contains("no replaced file of rack-2.0-java is kept out"), "{told}");
    let info = || crate::http::get(mirror.gems(), "/info/rack", "").1;
    wait_until("it is taken", || info().contains(&"01".repeat(32)));
    assert!(info().contains(&"ab".repeat(32)) && !info().contains(&"ef".repeat(32)));
    assert_eq!(status(&mirror)["upstreams"][0]["replaced"], 1);
    assert!(mirror.stop().success());
}

#[test]
fn requested_sync_takes_names_held_back_by_upstream_order() {
    // It is away when the mirror starts, so nobody knows what it has; and slower than the later one.
    let is_back = Arc::new(AtomicBool::new(false));
    let door = Arc::clone(&is_back);
    let first = upstream::start(move |_| match door.load(Ordering::SeqCst) {
        true => {
            thread::sleep(SLOW);
            ("200 OK", "---\n".to_owned())
        }
        false => ("502 Bad Gateway", String::new()),
    });
    // Names that waited take longer than a command that does not wait for them.
    let (info, line) = one_gem("rack");
    let later = upstream::start(move |path| match path {
        "/versions" => ("200 OK", format!("---\n{line}")),
        _ => {
            thread::sleep(SLOW);
            ("200 OK", info.clone())
        }
    });
    // Nobody looks by itself.
    let mirror = site(&format!(
        "{GEMS}[gems.mirror]\ninterval = \"1h\"\n[gems.mirror.limits]\nadvanced.backoff_min = \"1h\"\n\
         advanced.backoff_max = \"1h\"\n[[gems.mirror.upstreams]]\nname = \"first\"\nurl = \"http://{first}\"\n\
         [[gems.mirror.upstreams]]\nname = \"later\"\nurl = \"http://{later}\"\n"
    ));
    let mirror = mirror.start();
    wait_until("it waits", || status(&mirror)["upstreams"][1]["last_result"]["waiting"] == 1);
    is_back.store(true, Ordering::SeqCst);
    let told = mirror.site.ok(&["gems", "mirror"]);
    assert!(told.contains("later: 1 name there"), "{told}");
    assert_eq!(status(&mirror)["upstreams"][1]["pending"], 0);
    assert!(mirror.stop().success());
}

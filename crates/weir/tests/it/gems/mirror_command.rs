//! What `weir gems mirror` says of upstreams that are not as they should be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_gems::index::digest::Digests;

use super::mirror::{shown, status, upstream_with_two};
use super::{GEMS, site, upstream};
use crate::process::wait_until;

#[test]
fn a_command_says_what_it_could_not_do_and_why() {
    let elsewhere = site(GEMS);
    let info = format!("---\n1.0 |checksum:{}\n", "ab".repeat(32));
    let md5 = hex::encode(Digests::of(info.as_bytes()).md5);
    let versions = format!("---\nnone\nrack 1.0 {md5}\nrake 1.0 {md5}\n");
    let half = upstream::start(move |path| match path {
        "/versions" => ("200 OK", versions.clone()),
        "/info/rack" => ("200 OK", info.clone()),
        _ => ("403 Forbidden", String::new()),
    });
    let page = upstream::start(|_| ("200 OK", "<!DOCTYPE html>\n<html></html>\n".to_owned()));
    let busy = upstream::start(|_| ("429 Too Many Requests\r\nRetry-After: 7", String::new()));
    let shown = |upstream: SocketAddr| {
        shown(&elsewhere, upstream, &["gems", "mirror", &format!("http://{upstream}")])
    };
    insta::assert_snapshot!(shown(half), @r"
    exit: 2
    -- stdout
    [upstream]: 1 name changed, 1 new version
    [upstream]: 2 names there
    -- stderr
    [upstream]: 1 name could not be brought up to date: run this again
    [upstream]: 1 line that can't be read or kept, left out
    [upstream]: the last that failed: /info/rake: the answer was 403 Forbidden; are gems.mirror.upstreams.credentials right?
    ");
    insta::assert_snapshot!(shown(page), @r"
    exit: 2
    -- stdout
    -- stderr
    [upstream]: /versions: it does not begin with `---`; is this the address of a gem index?
    ");
    insta::assert_snapshot!(shown(busy), @r"
    exit: 2
    -- stdout
    -- stderr
    [upstream]: /versions: the answer was 429 Too Many Requests: it is too busy, and asks to come again in 7 s
    ");
    for (arguments, told) in [
        (&["gems", "key", "create", "ci", "--gem", "shop/*"][..], "has '/'"),
        (&["gems", "key", "revoke", "ci"], "keys have numbers"),
    ] {
        let shown = elsewhere.shown(arguments);
        assert!(shown.starts_with("exit: 64") && shown.contains(told), "{shown}");
    }
}

#[test]
fn a_look_that_is_asked_for_takes_what_the_order_of_upstreams_held_back() {
    let later = upstream_with_two();
    // It is away when the mirror starts, so nobody knows what it has.
    let is_back = Arc::new(AtomicBool::new(false));
    let door = Arc::clone(&is_back);
    let first = upstream::start(move |_| match door.load(Ordering::SeqCst) {
        true => ("200 OK", "---\n".to_owned()),
        false => ("502 Bad Gateway", String::new()),
    });
    // Nobody looks by itself.
    let mirror = site(&format!(
        "{GEMS}[gems.mirror]\ninterval = \"1h\"\n[gems.mirror.limits]\nbackoff_min = \"1h\"\n\
         backoff_max = \"1h\"\n[[gems.mirror.upstreams]]\nname = \"first\"\nurl = \"http://{first}\"\n\
         [[gems.mirror.upstreams]]\nname = \"later\"\nurl = \"http://{}\"\n",
        later.gems()
    ));
    let mirror = mirror.start();
    wait_until("they wait", || status(&mirror)["upstreams"][1]["last_result"]["waiting"] == 2);
    is_back.store(true, Ordering::SeqCst);
    let told = mirror.site.ok(&["gems", "mirror"]);
    assert!(told.contains("later: 2 names there"), "{told}");
    let result = &status(&mirror)["upstreams"][1];
    assert_eq!((&result["pending"], &result["last_result"]["waiting"]), (&0.into(), &0.into()));
    assert!(mirror.stop().success());
    assert!(later.stop().success());
}

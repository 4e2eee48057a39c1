//! What API keys are for.

use std::net::SocketAddr;

use super::{GEMS, site};
use crate::http::send_request;
use crate::process::wait_until;

/// Returns the response to a push of an invalid gem.
fn push(address: SocketAddr, key: &str) -> (String, String) {
    send_request(
        address,
        &format!(
            "POST /api/v1/gems HTTP/1.1\r\nHost: {address}\r\nAuthorization: {key}\r\n\
             Content-Length: 6\r\nConnection: close\r\n\r\nno gem"
        ),
    )
}

#[test]
fn key_works_within_its_scopes_until_revoked() {
    let weir = site(GEMS).start();
    let create = |more: &[&str]| {
        let command = [&["gems", "key", "create"][..], more].concat();
        weir.site.ok(&command).trim().to_owned()
    };
    let (push_key, yank_key) = (create(&["ci"]), create(&["ops", "--scope", "yank_rubygem"]));
    let over = create(&["old", "--gem", "rack*", "--expires", "1s"]);
    let status = |key: &str| push(weir.gems(), key).0;
    assert_eq!(status(&push_key), "HTTP/1.1 422 Unprocessable Entity", "it is no gem");
    assert_eq!(status(&yank_key), "HTTP/1.1 403 Forbidden");
    assert_eq!(status("weir_0"), "HTTP/1.1 401 Unauthorized");
    wait_until("the key expires", || status(&over) == "HTTP/1.1 401 Unauthorized");
    let (_, why) = push(weir.gems(), &over);
    assert!(why.contains("has expired"), "{why}");
    let never = weir.site.shown(&["gems", "key", "create", "never", "--expires", "0s"]);
    assert!(never.contains("exit: 2") && never.contains("could never be used"), "{never}");
    let long = weir.site.shown(&["gems", "key", "create", &"x".repeat(101)]);
    assert!(long.contains("at most 100 characters; this one has 101"), "{long}");
    let listed = weir.site.ok(&["gems", "key", "list"]);
    assert!(listed.contains("ci    push_rubygem  all "), "{listed}");
    assert!(listed.contains("old   push_rubygem  rack* "), "{listed}");
    assert!(!listed.contains("weir_"), "no text is kept: {listed}");
    assert_eq!(weir.site.ok(&["gems", "key", "revoke", "1"]), "key 1 is revoked\n");
    assert_eq!(status(&push_key), "HTTP/1.1 401 Unauthorized");
    insta::assert_snapshot!(weir.site.shown(&["gems", "key", "revoke", "1"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: there is no key 1 (`weir gems key list` shows them)
    ");
    insta::assert_snapshot!(weir.site.shown(&["gems", "key", "create", "x", "--scope", "all"]), @r#"
    exit: 64
    -- stdout
    -- stderr
    error: invalid value 'all' for '--scope <SCOPE>': there is no scope "all"; there are index_rubygems, push_rubygem and yank_rubygem

    For more information, try '--help'.
    "#);
    assert!(weir.stop().success());
}

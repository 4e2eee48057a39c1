//! Reloads, restarts and upgrades.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use super::{BASE, GEMS, import, line, site};
use crate::http::get;
use crate::process::wait_until;

#[test]
fn reload_applies_limits_and_lists_the_rest() {
    let mut weir = site(GEMS).start();
    let url = "/api/v1/dependencies.json?gems=a,b";
    assert_eq!(get(weir.gems(), url, "").0, "HTTP/1.1 200 OK");
    let after = format!("{BASE}{GEMS}mount = \"/x\"\n[gems.limits]\ndependency_names_max = 1\n");
    weir.site.write(&after);
    weir.signal(Signal::HUP);
    weir.wait_for_log("gems.mount changed: needs `weir restart`");
    weir.wait_for_log("settings reloaded");
    assert_eq!(get(weir.gems(), url, "").0, "HTTP/1.1 422 Unprocessable Entity");
    weir.site.write(BASE);
    weir.signal(Signal::HUP);
    weir.wait_for_log("gems changed: needs `weir upgrade`");
    weir.wait_for_log("settings reloaded");
    assert_eq!(get(weir.gems(), url, "").0, "HTTP/1.1 200 OK");
    assert!(weir.stop().success());
}

/// Sends requests until `is_over`; each must get a response. Returns their number.
fn request_until(is_over: &AtomicBool, address: SocketAddr) -> usize {
    let mut answers = 0;
    while !is_over.load(Ordering::Relaxed) {
        let (status, names) = get(address, "/names", "");
        assert_eq!((status.as_str(), names.as_str()), ("HTTP/1.1 200 OK", "---\nrack\n"));
        answers += 1;
    }
    answers
}

#[test]
fn restart_and_upgrade_are_invisible_to_clients() {
    let weir = site(GEMS).start();
    import(&weir.site, &line("rack", &["1.0"]));
    let (is_over, address) = (Arc::new(AtomicBool::new(false)), weir.gems());
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || request_until(&is_over, address))
        })
        .collect();
    for command in ["restart", "upgrade"] {
        let before = weir.service();
        weir.site.ok(&[command]);
        wait_until("the new process answers", || weir.service() != before);
    }
    is_over.store(true, Ordering::Relaxed);
    let answers: Vec<usize> = asking.into_iter().map(|it| it.join().expect("answered")).collect();
    assert!(answers.iter().all(|count| *count > 0), "{answers:?}");
    assert!(weir.stop().success());
}

#[test]
fn upgrade_opens_a_new_address() {
    let weir = site("").start();
    weir.site.write(&format!("{BASE}{GEMS}"));
    let refused = weir.site.shown(&["restart"]);
    assert!(refused.contains("(gems.listen); apply them with `weir upgrade`"), "{refused}");
    let before = weir.service();
    weir.site.ok(&["upgrade"]);
    wait_until("the new process answers", || weir.service() != before);
    let status = weir.site.ok(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let address = status["gems_listen"].as_str().expect("an address").parse().expect("an address");
    assert_eq!(get(address, "/names", "").1, "---\n");
    assert_eq!(status["gems"]["gems"], 0);
    assert!(weir.stop().success());
}

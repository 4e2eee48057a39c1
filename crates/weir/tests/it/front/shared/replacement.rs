//! The service process is replaced, and the parent executed anew, while workers take connections
//! themselves: neither they nor their sockets and words may notice.

use std::net::TcpStream;

use super::*;

/// Kinds of sharing, some of which take privileges. Nobody waits for a worker that is busy.
const KINDS: [&str; 3] = ["", "queues = 3\nqueues_per_worker = 2\n", "selection = \"join-idle\"\n"];

/// Returns the pids of busy workers, and for how long they have been busy.
fn busy_since(weir: &Weir) -> Vec<(i64, f64)> {
    let oldest = |worker: &Value| {
        Some((worker["pid"].as_i64()?, worker["oldest_request_seconds"].as_f64()?))
    };
    workers(weir).iter().filter_map(oldest).collect()
}

fn connections_given(weir: &Weir) -> u64 {
    workers(weir).iter().filter_map(|worker| worker["given"].as_u64()).sum()
}

#[test]
fn restart_and_upgrade_keep_records_and_requests() {
    for settings in KINDS {
        let weir = start(3, "keeps", settings);
        let (before, selection) = (pids(&weir), listed(&weir)["selection"].clone());
        let slow = start_slow_request(&weir);
        wait_until_true(|| busy(&weir) == 1);
        let clients = Clients::start(weir.app("shop"));
        for verb in ["restart", "upgrade", "upgrade", "restart"] {
            let (was, counted) = (busy_since(&weir), connections_given(&weir));
            weir.site.ok(&[verb]);
            assert_eq!(pids(&weir), before, "{verb}: the workers are those of before");
            assert_eq!(listed(&weir)["selection"], selection);
            let now = busy_since(&weir);
            let stuck = was.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("a slow one");
            let same = now.iter().find(|it| it.0 == stuck.0).expect("still busy");
            assert!(same.1 > stuck.1, "{verb}: its request is older now: {was:?} {now:?}");
            assert!(connections_given(&weir) >= counted, "{verb}");
        }
        clients.stop();
        finish_slow_requests(&weir);
        assert_eq!(slow.join().expect("a client").0, "HTTP/1.1 200 OK");
        wait_until_true(|| busy(&weir) == 0);
        assert!(weir.stop().success());
    }
}

#[test]
fn join_idle_works_after_an_upgrade() {
    let Some(weir) = start_join_idle("advanced.claim_timeout = \"50ms\"\n") else { return };
    let address = weir.app("shop");
    weir.site.ok(&["upgrade"]);
    reach_all_workers(&weir);
    // Chosen for three connections, they begin nothing.
    drop([(); 3].map(|()| TcpStream::connect(address).expect("connected")));
    let repaired = "weir_front_worker_words_repaired_total{app=\"shop\"} 3";
    wait_until_true(|| get(weir.console(), "/metrics", "").1.contains(repaired));
    reach_all_workers(&weir);
    // The present parent closes the door of one that dies, and opens that of its successor.
    let killed = *pids(&weir).first().expect("a worker");
    kill(killed);
    // In this order: what was seen of the states before may be older than its end.
    wait_until_true(|| !pids(&weir).contains(&killed) && states(&weir) == vec!["serving"; 3]);
    reach_all_workers(&weir);
    // One that is to end gets nothing more, one that was added helps where all are busy.
    write(&weir.site, 4, "keeps", "selection = \"join-idle\"\nadvanced.claim_timeout = \"50ms\"\n");
    weir.site.ok(&["upgrade"]);
    wait_until_true(|| states(&weir) == vec!["serving"; 4]);
    write(&weir.site, 2, "keeps", "selection = \"join-idle\"\nadvanced.claim_timeout = \"50ms\"\n");
    let clients = Clients::start(address);
    weir.site.ok(&["upgrade"]);
    wait_until_true(|| states(&weir) == vec!["serving"; 2]);
    clients.stop();
    assert!(weir.stop().success());
}

#[test]
fn upgrade_to_fewer_workers_drains_the_others() {
    let Some(weir) = start_join_idle("finish_timeout = \"60s\"\n") else { return };
    let slow = start_slow_request(&weir);
    wait_until_true(|| busy(&weir) == 1);
    write(&weir.site, 1, "keeps", "selection = \"join-idle\"\nfinish_timeout = \"60s\"\n");
    weir.site.ok(&["upgrade"]);
    wait_until_true(|| {
        pids(&weir).len() == 1 || states(&weir).iter().any(|state| state == "draining")
    });
    finish_slow_requests(&weir);
    assert_eq!(slow.join().expect("a client").0, "HTTP/1.1 200 OK");
    wait_until_true(|| states(&weir) == ["serving"]);
    let left = pids(&weir);
    let served: BTreeSet<i32> = (0..6).map(|_| get_pid(weir.app("shop"), "/")).collect();
    assert_eq!(served, left);
    assert!(weir.stop().success());
}

/// The old and the new service may both probe a starting worker, and the new parent opens its socket.
#[test]
fn rolling_restart_continues_through_an_upgrade() {
    for settings in KINDS {
        let weir = start(3, "keeps", settings);
        let before = pids(&weir);
        let clients = Clients::start(weir.app("shop"));
        weir.site.ok(&["workers", "restart", "shop", "--no-wait"]);
        weir.site.ok(&["upgrade"]);
        wait_until_true(|| {
            listed(&weir)["rolling"] == "finished" && pids(&weir).is_disjoint(&before)
        });
        clients.stop();
        wait_until_true(|| states(&weir) == ["serving"; 3]);
        if listed(&weir)["selection"] == "join-idle" {
            reach_all_workers(&weir);
        }
        assert!(weir.stop().success());
    }
}

#[test]
fn worker_sockets_belong_to_the_parent() {
    let weir = start(2, "keeps", "");
    let before = pids(&weir);
    write(&weir.site, 2, "keeps", "queues = 2\n");
    let shown = weir.site.shown(&["restart"]);
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(shown.contains("(front.apps \"shop\": queues); apply them with"), "{shown}");
    let shown = weir.site.shown(&["upgrade"]);
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(
        shown.contains("front.apps[0]: the workers of shop would have to listen on"),
        "{shown}"
    );
    assert_eq!(pids(&weir), before);
    // What is the service's own needs no other parent.
    let more = "advanced.claim_timeout = \"9s\"\nevict_after = \"300ms\"\nwarm_up = [\"/\"]\n";
    write(&weir.site, 2, "keeps", more);
    weir.site.ok(&["restart"]);
    assert_eq!(pids(&weir), before);
    assert!(start_slow_request(&weir).join().is_err(), "it was too old");
    wait_until_true(|| pids(&weir).intersection(&before).count() == 1);
    wait_until_true(|| states(&weir) == ["serving"; 2]);
    assert!(weir.stop().success());
}

#[test]
fn upgrade_applies_new_apps_with_sockets() {
    let weir = start(2, "keeps", "");
    let (shop, before) = (weir.app("shop"), pids(&weir));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    write(&weir.site, 2, "keeps", "queues = 2\n");
    let file = weir.site.path().join("weir.toml");
    let text = std::fs::read_to_string(&file).expect("settings").replace("\"shop\"", "\"cart\"");
    let text = text.replacen(
        "mode = \"sockets\"\nlisten = \"127.0.0.1:0\"",
        "mode = \"sockets\"\nlisten = \"ADDRESS\"",
        1,
    );
    std::fs::write(&file, text.replace("ADDRESS", &address)).expect("written");
    let shown = weir.site.shown(&["upgrade"]);
    assert!(shown.contains("front.apps[0].listen") && shown.contains("in use"), "{shown}");
    assert_eq!(pids(&weir), before);
    drop(taken);
    weir.site.ok(&["upgrade"]);
    wait_until_true(|| listed(&weir)["name"] == "cart" && states(&weir) == ["serving"; 2]);
    assert!(pids(&weir).contains(&get_pid(address.parse().expect("an address"), "/")));
    assert!(pids(&weir).is_disjoint(&before));
    // Nobody listens any more where the other app did.
    wait_until_true(|| TcpStream::connect(shop).is_err());
    assert!(weir.stop().success());
}

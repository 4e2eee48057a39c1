//! Webhooks of gems, from the settings to the receiver.

use rustix::process::{Signal, kill_process};

use super::client::{key, push};
use super::receiver::Receiver;
use super::{BASE, GEMS, site};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// An endpoint is held for `connect_timeout`, twice `response_timeout` and 5 s after a crash in the
/// middle of an attempt.
const SOON: &str = "[gems.webhooks]\nconnect_timeout = \"1s\"\nresponse_timeout = \"2s\"\n\
                    advanced.poll_interval = \"10ms\"\nretry_delay_min = \"10ms\"\nretry_delay_max = \"50ms\"\n";
const SECRET: &str = "a secret of the endpoint";

fn webhook_settings(receivers: &[(&str, &Receiver)]) -> String {
    let endpoint = |(name, receiver): &(&str, &Receiver)| {
        format!(
            "[[gems.webhooks.endpoints]]\nname = \"{name}\"\nurl = \"http://{}/hooks\"\n\
             secret = {{ file = \"secret\" }}\ngems = [\"shop*\"]\n",
            receiver.address
        )
    };
    let endpoints: String = receivers.iter().map(endpoint).collect();
    format!("{GEMS}{SOON}{endpoints}")
}

fn webhook_site(receivers: &[(&str, &Receiver)]) -> Site {
    let site = site(&webhook_settings(receivers));
    std::fs::write(site.path().join("secret"), SECRET).expect("written");
    site
}

/// Kills the service process, and waits until the parent has started another one.
fn kill_service(weir: &Weir) {
    let before = weir.service();
    kill_process(before, Signal::KILL).expect("killed");
    wait_until("another one serves", || weir.service() != before);
}

#[test]
fn webhooks_survive_sigkill_in_order() {
    let receiver = Receiver::start();
    let weir = webhook_site(&[("ci", &receiver)]).start();
    let key = key(&weir);
    push(weir.gems(), &key, "shop", "1.0");
    push(weir.gems(), &key, "other", "1.0");
    push(weir.gems(), &key, "shop-cart", "2.0");
    weir.site.ok(&["gems", "yank", "shop", "1.0", "--yes"]);
    wait_until("an attempt has failed", || receiver.refused_connections() > 0);
    kill_service(&weir);
    receiver.open();
    for expected in ["push shop 1.0", "push shop-cart 2.0", "yank shop 1.0"] {
        let told = receiver.request();
        assert_eq!(told.summary(), expected);
        assert_eq!(told.header("x-weir-signature"), told.hmac(SECRET));
    }
    let sent = "weir_gems_webhook_events_sent_total 3\n";
    wait_until("it is counted", || get(weir.console(), "/metrics", "").1.contains(sent));
    assert!(weir.stop().success());
}

#[test]
fn reload_changes_endpoints_and_shutdown_keeps_the_rest() {
    let (first, second) = (Receiver::start(), Receiver::start());
    first.open();
    let mut weir = webhook_site(&[("first", &first)]).start();
    let key = key(&weir);
    push(weir.gems(), &key, "shop", "1.0");
    assert_eq!(first.request().summary(), "push shop 1.0");
    let both = webhook_settings(&[("first", &first), ("second", &second)]);
    weir.site.write(&format!("{BASE}{both}"));
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    let known = "weir_gems_webhook_events_waiting{endpoint=\"second\"} 0\n";
    wait_until("it is known", || get(weir.console(), "/metrics", "").1.contains(known));
    push(weir.gems(), &key, "shop", "2.0");
    assert_eq!(first.request().summary(), "push shop 2.0");
    wait_until("an attempt has failed", || second.refused_connections() > 0);
    let site = weir.end();
    second.open();
    let weir = site.start();
    assert_eq!(second.request().summary(), "push shop 2.0");
    assert!(weir.stop().success());
}

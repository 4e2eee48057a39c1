//! One Weir mirrors another. Real clients of both are in e2e.

use std::net::SocketAddr;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use weir_gems::package::sample::Sample;

use super::client::{file, key, push};
use super::{BASE, GEMS, import, line, site};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

const SECRET: &str = "a secret between the two";

/// Returns `[gems.mirror]` with this upstream, without scheduled synchronization.
fn mirror_settings(upstream: SocketAddr) -> String {
    format!(
        "{GEMS}[gems.mirror]\npolicy = \"policy\"\ninterval = \"1h\"\n[gems.mirror.limits]\nadvanced.backoff_min = \"10ms\"\n\
         advanced.backoff_max = \"50ms\"\nsilence_timeout = \"2s\"\n[[gems.mirror.upstreams]]\nname = \"one\"\n\
         url = \"http://{upstream}\"\nhook_secret = {{ file = \"secret\" }}\n"
    )
}

pub(super) fn mirror_site(upstream: SocketAddr, policy: &str) -> Site {
    let site = site(&mirror_settings(upstream));
    std::fs::write(site.path().join("secret"), SECRET).expect("written");
    std::fs::write(site.path().join("policy"), policy).expect("written");
    site
}

/// Configures the upstream's webhook to the mirror.
pub(super) fn configure_hook(upstream: &mut Weir, mirror: &Weir) {
    std::fs::write(upstream.site.path().join("secret"), SECRET).expect("written");
    upstream.site.write(&format!(
        "{BASE}{GEMS}[gems.webhooks]\nretry_delay_min = \"10ms\"\nretry_delay_max = \"100ms\"\n\
         [[gems.webhooks.endpoints]]\nname = \"mirror\"\nurl = \"http://{}/api/v1/hooks/rubygems\"\n\
         secret = {{ file = \"secret\" }}\napi_key = {{ file = \"secret\" }}\n",
        mirror.gems()
    ));
    upstream.signal(Signal::HUP);
    upstream.wait_for_log("settings reloaded");
    let known = "weir_gems_webhook_events_waiting{endpoint=\"mirror\"} 0\n";
    wait_until("the endpoint is known", || {
        get(upstream.console(), "/metrics", "").1.contains(known)
    });
}

fn info(weir: &Weir, name: &str) -> String {
    get(weir.gems(), &format!("/info/{name}"), "").1
}

pub(super) fn status(weir: &Weir) -> Value {
    let text = weir.site.ok(&["gems", "mirror", "status", "--json"]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn upstream_webhook_mirrors_a_push_and_keeps_it() {
    let mut upstream = site(GEMS).start();
    let pushing = key(&upstream);
    push(upstream.gems(), &pushing, "rack", "1.0");
    let mirror = mirror_site(upstream.gems(), "none\n").start();
    wait_until("all is here", || info(&mirror, "rack") == info(&upstream, "rack"));
    configure_hook(&mut upstream, &mirror);
    push(upstream.gems(), &pushing, "rack", "2.0");
    push(upstream.gems(), &pushing, "rake", "13.0");
    wait_until("the second is here", || info(&mirror, "rake") == info(&upstream, "rake"));
    assert_eq!(info(&mirror, "rack"), info(&upstream, "rack"));
    let length = Sample::new("rack", "2.0").build().len();
    assert_eq!(file(&mirror, "rack-2.0"), ("HTTP/1.1 200 OK".to_owned(), length));
    let taken = "weir_gems_mirror_hooks_total{outcome=\"taken\"} 2\n";
    assert!(get(mirror.console(), "/metrics", "").1.contains(taken));

    let infos = (info(&mirror, "rack"), info(&mirror, "rake"));
    drop(upstream.end());
    let mirror = mirror.end().start();
    assert_eq!((info(&mirror, "rack"), info(&mirror, "rake")), infos);
    assert_eq!(file(&mirror, "rack-2.0"), ("HTTP/1.1 200 OK".to_owned(), length));
    // That one was never fetched.
    assert_eq!(file(&mirror, "rake-13.0").0, "HTTP/1.1 503 Service Unavailable");
    wait_until("it is told", || status(&mirror)["upstreams"][0]["last_error"].is_string());
    let seen = status(&mirror);
    assert_eq!(seen["upstreams"][0]["names"], 2, "{seen}");
    // As of the process before.
    assert!(seen["upstreams"][0]["staleness_seconds"].is_f64(), "{seen}");
    let asked = mirror.site.shown(&["gems", "mirror"]);
    assert!(asked.starts_with("exit: 2\n-- stdout\n-- stderr\none: cannot connect"), "{asked}");
    assert!(mirror.stop().success());
}

/// Returns the output of a command without what differs between runs: addresses and costs.
pub(super) fn normalized_output(site: &Site, upstream: SocketAddr, arguments: &[&str]) -> String {
    let text = site.shown(arguments).replace(&upstream.to_string(), "[upstream]");
    let text = text.replace(&upstream.to_string().replace(':', "-"), "[upstream]");
    let told = |line: &str| match line.rsplit_once("; ") {
        Some((told, cost)) if cost.ends_with(" s") => told.to_owned() + "\n",
        _ => line.to_owned() + "\n",
    };
    text.lines().map(told).collect()
}

/// Starts an upstream with two gems.
fn upstream_with_two() -> Weir {
    let upstream = site(GEMS).start();
    import(&upstream.site, &(line("rack", &["1.0", "2.0"]) + &line("rake", &["13.0"])));
    upstream
}

#[test]
fn mirror_command_copies_an_index() {
    let upstream = upstream_with_two();
    insta::assert_snapshot!(site(GEMS).shown(&["gems", "mirror"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: weir.toml has no [[gems.mirror.upstreams]]; add one: name = "rubygems", url = "https://rubygems.org"
    "#);
    let elsewhere = mirror_site(upstream.gems(), "none\n");
    let url = format!("http://{}", upstream.gems());
    let output = |arguments: &[&str]| normalized_output(&elsewhere, upstream.gems(), arguments);
    insta::assert_snapshot!(output(&["gems", "mirror"]), @r#"
    exit: 0
    -- stdout
    one: 2 names changed, 3 new versions
    one: 2 names there
    -- stderr
    "#);
    // Earlier commands name the upstream.
    insta::assert_snapshot!(output(&["gems", "mirror", &url]), @r#"
    exit: 0
    -- stdout
    one: nothing new
    one: 2 names there
    -- stderr
    "#);
    insta::assert_snapshot!(output(&["gems", "mirror", "--policy", "policy"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: --policy was removed; set gems.mirror.policy instead
    "#);
    insta::assert_snapshot!(output(&["gems", "mirror", "status"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: Weir is not running with this data_dir (nothing accepts connections at data/weir.sock); start it with `weir up`, or name the running one with --data-dir, --config or --url (`weir up` and `weir demo` print their addresses and directory)
    "#);
    assert!(elsewhere.ok(&["gems", "verify"]).starts_with("sound: 2 gems, 3 releases"));
    assert!(upstream.stop().success());
}

#[test]
fn mirror_command_triggers_a_running_weir() {
    let upstream = upstream_with_two();
    let mirror = mirror_site(upstream.gems(), "none\n").start();
    wait_until("all is here", || status(&mirror)["upstreams"][0]["names"] == 2);
    import(&upstream.site, &line("erb", &["4.0"]));
    let output = |arguments: &[&str]| normalized_output(&mirror.site, upstream.gems(), arguments);
    insta::assert_snapshot!(output(&["gems", "mirror"]), @r#"
    exit: 0
    -- stdout
    one: 1 name changed, 1 new version
    one: 3 names there
    -- stderr
    "#);
    assert_eq!(info(&mirror, "erb"), info(&upstream, "erb"));
    insta::assert_snapshot!(output(&["gems", "mirror", "--everything"]), @r#"
    exit: 0
    -- stdout
    one: compared everything, no differences
    one: 3 names there
    -- stderr
    "#);
    insta::assert_snapshot!(output(&["gems", "mirror", "--files"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: --files cannot be used while Weir mirrors: set gems.mirror.files to "eagerly", or stop Weir first
    "#);
    insta::assert_snapshot!(output(&["gems", "mirror", "https://a.example"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: https://a.example is not in gems.mirror.upstreams; add it there, because their order decides which upstream a name comes from
    "#);
    assert!(mirror.stop().success());
    assert!(upstream.stop().success());
}

#[test]
fn private_names_are_never_mirrored() {
    let upstream = site(GEMS).start();
    let theirs = key(&upstream);
    for (name, version) in [("acme-web", "9.9"), ("billing", "9.9"), ("rack", "1.0")] {
        push(upstream.gems(), &theirs, name, version);
    }
    let mut mirror = mirror_site(upstream.gems(), "private acme-*\n").start();
    wait_until("all is here", || {
        info(&mirror, "rack").contains("\n1.0 ") && status(&mirror)["rounds_done"] != 0
    });
    assert_eq!(get(mirror.gems(), "/info/acme-web", "").0, "HTTP/1.1 404 Not Found");
    let ours = key(&mirror);
    push(mirror.gems(), &ours, "acme-web", "1.0");
    // One that nobody thought of is taken away by a reload, and then is ours.
    assert!(info(&mirror, "billing").contains("\n9.9 "));
    std::fs::write(mirror.site.path().join("policy"), "private acme-*\nprivate billing\n")
        .expect("written");
    mirror.signal(Signal::HUP);
    mirror.wait_for_log("settings reloaded");
    wait_until("it is gone", || !info(&mirror, "billing").contains("9.9"));
    push(mirror.gems(), &ours, "billing", "1.0");
    mirror.site.ok(&["gems", "mirror", "--everything"]);
    for name in ["acme-web", "billing"] {
        let listed = info(&mirror, name);
        assert!(listed.contains("\n1.0 |") && !listed.contains("9.9"), "{listed}");
        assert_eq!(file(&mirror, &format!("{name}-9.9")).0, "HTTP/1.1 404 Not Found");
    }
    let told = mirror.site.ok(&["gems", "mirror", "status"]);
    assert!(
        told.contains("one: acme-web is rejected: it is private by gems.mirror.policy"),
        "{told}"
    );

    // Hung, then gone: nothing changes.
    let hung = upstream.service();
    kill_process(hung, Signal::STOP).expect("stopped");
    for name in ["acme-web", "billing"] {
        let listed = info(&mirror, name);
        assert!(listed.contains("\n1.0 |") && !listed.contains("9.9"), "{listed}");
        assert_eq!(file(&mirror, &format!("{name}-1.0")).0, "HTTP/1.1 200 OK");
        assert_eq!(file(&mirror, &format!("{name}-9.9")).0, "HTTP/1.1 404 Not Found");
    }
    kill_process(hung, Signal::CONT).expect("goes on");
    drop(upstream);
    assert_eq!(file(&mirror, "acme-web-9.9").0, "HTTP/1.1 404 Not Found");
    assert!(mirror.stop().success());
}

#[test]
fn killed_mirror_resumes_synchronization() {
    let upstream = site(GEMS).start();
    let names: Vec<String> = (0..400).map(|number| format!("gem-{number}")).collect();
    let lines: String = names.iter().map(|name| line(name, &["1.0", "1.1"])).collect();
    import(&upstream.site, &lines);
    let site = mirror_site(upstream.gems(), "none\n");
    let small = "requests_max = 2\nadvanced.batch_gems = 20\nadvanced.backoff_min";
    site.write(
        &format!("{BASE}{}", mirror_settings(upstream.gems())).replace("backoff_min", small),
    );
    let mirror = site.start();
    let mut last = 0;
    for _ in 0..3 {
        wait_until("some more are here", || {
            let here = get(mirror.gems(), "/names", "").1.lines().count();
            here > last + 40 || here > names.len()
        });
        last = get(mirror.gems(), "/names", "").1.lines().count();
        let before = mirror.service();
        kill_process(before, Signal::KILL).expect("killed");
        wait_until("another one serves", || mirror.service() != before);
    }
    wait_until("all are here", || status(&mirror)["upstreams"][0]["last_success_at"].is_number());
    for name in &names {
        assert_eq!(info(&mirror, name), info(&upstream, name), "{name}");
    }
    let verified = mirror.site.ok(&["gems", "verify"]);
    assert!(verified.starts_with("sound: 400 gems, 800 releases"), "{verified}");
    assert!(mirror.stop().success());
}

#[test]
fn reload_lists_mirror_settings_that_need_a_restart() {
    let upstream = site(GEMS).start();
    let mut mirror = mirror_site(upstream.gems(), "none\n").start();
    let other = mirror_settings(upstream.gems()).replace("interval = \"1h\"", "interval = \"2h\"");
    std::fs::write(mirror.site.path().join("secret"), "another").expect("written");
    mirror.site.write(&format!("{BASE}{other}"));
    mirror.signal(Signal::HUP);
    mirror.wait_for_log("gems.mirror.interval changed: needs `weir restart`");
    mirror.wait_for_log("gems.mirror.upstreams changed: needs `weir restart`");
    mirror.wait_for_log("settings reloaded");
    mirror.site.write(&format!("{BASE}{GEMS}"));
    mirror.signal(Signal::HUP);
    mirror.wait_for_log("gems.mirror changed: needs `weir restart`");
    mirror.wait_for_log("settings reloaded");
    mirror.site.ok(&["restart"]);
    let shown = mirror.site.shown(&["gems", "mirror", "status"]);
    assert!(shown.contains("this Weir mirrors no other index"), "{shown}");
    assert!(mirror.stop().success());
}

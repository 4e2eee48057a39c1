//! The index of gems as the binary serves it. Real clients are in e2e.

mod alerts;
mod answered;
mod client;
mod keys;
mod mirror;
mod mirror_command;
mod operators;
mod postgres;
mod readers;
mod receiver;
mod restarts;
mod upstream;
mod webhooks;

use crate::front::worker::Worker;
use crate::http::get;
use crate::process::output_with_input;
use crate::weir::{Site, Weir, program};

const BASE: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
                    [console]\nlisten = \"127.0.0.1:0\"\n";
const GEMS: &str = "[gems]\nlisten = \"127.0.0.1:0\"\n";

fn site(more: &str) -> Site {
    let site = Site::new("");
    site.write(&format!("{BASE}{more}"));
    site
}

/// Returns a line of an import.
fn line(name: &str, numbers: &[&str]) -> String {
    let row = |number: &&str| {
        format!(
            "{{\"number\":\"{number}\",\"sha256\":\"{}\",\"dependencies\":[[\"rake\",\">= 13\"]]}}",
            "ab".repeat(32)
        )
    };
    let rows: Vec<String> = numbers.iter().map(row).collect();
    format!("{{\"name\":\"{name}\",\"versions\":[{}]}}\n", rows.join(","))
}

fn import(site: &Site, lines: &str) -> String {
    let mut command = program();
    command.current_dir(site.path()).args(["gems", "import"]);
    let output = output_with_input(&mut command, lines.as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn gems_can_run_alone_and_see_imports_at_once() {
    let weir = site(GEMS).start_with(|command| {
        command.args(["--only", "gems,console"]);
    });
    assert!(!weir.serves("jobs") && !weir.serves("front"));
    assert_eq!(get(weir.gems(), "/names", "").1, "---\n");
    let lines = line("rack", &["1.0", "2.0"]) + &line("Rake", &["13.0"]);
    assert_eq!(import(&weir.site, &lines), "3 releases imported, 2 new gems; 0 existed already\n");
    assert_eq!(import(&weir.site, &lines), "0 releases imported, 0 new gems; 3 existed already\n");
    assert_eq!(get(weir.gems(), "/names", "").1, "---\nrack\nRake\n");
    let (_, info) = get(weir.gems(), "/info/rack", "");
    assert!(info.contains("\n2.0 rake:>= 13|checksum:abab"), "{info}");

    let (_, metrics) = get(weir.console(), "/metrics", "");
    let counted = "weir_gems_answers_total{endpoint=\"names\",status=\"200\"} 2\n";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(get(weir.console(), "/ready", "").1, "ready\n");
    assert!(get(weir.console(), "/gems", "").1.contains("<a href=\"/gem?name=rack\">rack</a>"));
    let status = weir.site.ok(&["status"]);
    assert!(status.contains(&format!("gems at      {}\n", weir.gems())), "{status}");
    assert!(status.contains("\ngems         2 with releases"), "{status}");
    assert!(!status.contains("realtime"), "{status}");
    assert!(weir.stop().success());
}

#[test]
fn gems_mount_separates_index_and_apps() {
    let worker = Worker::start("shop");
    let more = format!(
        "[gems]\nmount = \"/gems-index\"\n[front]\nlisten = \"127.0.0.1:0\"\n\
         [[front.apps]]\nname = \"shop\"\nupstreams = [\"{}\"]\n",
        worker.address
    );
    let weir = site(&more).start();
    assert!(!weir.serves("gems"), "a mount alone opens no address");
    import(&weir.site, &line("rack", &["1.0"]));
    let body = |path| get(weir.front(), path, "").1;
    assert_eq!(body("/gems-index/names"), "---\nrack\n");
    assert!(body("/gems-index/").starts_with("An index of gems."));
    assert_eq!(body("/gems-index/nothing"), "there is nothing at this path\n");
    assert_eq!(body("/names"), "shop /names");
    assert_eq!(body("/gems-index-of-the-app"), "shop /gems-index-of-the-app");
    let (refused, _) = get(weir.front(), "/gems-index/x", "Upgrade: a\r\n");
    assert_eq!(refused, "HTTP/1.1 404 Not Found");
    let status = weir.site.ok(&["status"]);
    assert!(status.contains(&format!("{}/gems-index\n", weir.front())), "{status}");

    let site = weir.end();
    let weir = site.start_with(|command| {
        command.args(["--only", "front,console"]);
    });
    let (_, app) = get(weir.front(), "/gems-index/names", "");
    assert_eq!(app, "shop /gems-index/names", "not a part of this process");
    assert!(weir.stop().success());
}

#[test]
fn disabled_endpoint_stays_disabled_after_a_restart() {
    let weir = site(GEMS).start();
    let url = "/api/v1/dependencies.json?gems=rack";
    assert_eq!(get(weir.gems(), url, "").1, "[]");
    assert_eq!(
        weir.site.ok(&["switch", "off", "--gems", "dependencies"]),
        "dependencies is switched off\n"
    );
    insta::assert_snapshot!(weir.site.shown(&["switch", "off", "--gems", "dependency"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: the gem index has no endpoint "dependency"; its endpoints are root, names, versions, info, dependencies, specs, gemspec, file, push, yank, hook
    "#);
    insta::assert_snapshot!(weir.site.shown(&["switch", "off", "typing"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: this Weir does not serve realtime (add an app under [[realtime.apps]] in weir.toml, and include realtime in --only)
    ");
    let weir = weir.end().start();
    let (status, told) = get(weir.gems(), url, "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(told, "\"dependencies\" is switched off at the moment\n");
    let listed = weir.site.ok(&["switch", "list"]);
    assert!(listed.contains("\ngems  dependencies  "), "{listed}");
    assert!(weir.site.ok(&["status"]).contains("\nswitched off dependencies\n"));
    weir.site.ok(&["switch", "on", "--gems", "dependencies"]);
    assert_eq!(get(weir.gems(), url, "").1, "[]");
    assert!(weir.stop().success());
}

#[test]
fn missing_gems_are_reported() {
    let weir = Weir::start();
    for command in [&["gems", "list"][..], &["gems", "key", "list"]] {
        let shown = weir.site.shown(command);
        assert!(shown.contains("gems are not served by this Weir ("), "{shown}");
    }
    assert!(weir.stop().success());
}

#[test]
fn gems_can_run_at_the_front_without_apps() {
    let worker = Worker::start("shop");
    let more = format!(
        "[gems]\nmount = \"/gems-index\"\n[front]\nlisten = \"127.0.0.1:0\"\n\
         [[front.apps]]\nname = \"shop\"\nupstreams = [\"{}\"]\n",
        worker.address
    );
    let weir = site(&more).start_with(|command| {
        command.args(["--only", "gems"]);
    });
    assert_eq!(get(weir.front(), "/gems-index/names", "").1, "---\n");
    let (status, told) = get(weir.front(), "/", "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(told.contains("gems below gems.mount"), "{told}");
    assert!(!weir.serves("console") && !weir.serves("jobs"));
    assert!(weir.stop().success());
}

//! The index of gems as the binary serves it. Real clients are in e2e.

mod answered;
mod client;
mod mirror;
mod mirror_command;
mod mirror_policy;
mod postgres;
mod readers;
mod receiver;
mod upstream;
mod webhooks;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::front::worker::Worker;
use crate::http::{ask, get};
use crate::process::{output_with_input, wait_until};
use crate::weir::{Site, Weir, program};

const BASE: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
                    [console]\nlisten = \"127.0.0.1:0\"\n";
const GEMS: &str = "[gems]\nlisten = \"127.0.0.1:0\"\n";

fn site(more: &str) -> Site {
    let site = Site::new("");
    site.write(&format!("{BASE}{more}"));
    site
}

/// A line of an import.
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

/// Status line of a push of something that is no gem.
fn push(address: SocketAddr, key: &str) -> (String, String) {
    ask(
        address,
        &format!(
            "POST /api/v1/gems HTTP/1.1\r\nHost: {address}\r\nAuthorization: {key}\r\n\
             Content-Length: 6\r\nConnection: close\r\n\r\nno gem"
        ),
    )
}

#[test]
fn gems_alone_are_a_weir_and_what_another_process_imports_is_seen_at_once() {
    let weir = site(GEMS).start_with(|command| {
        command.args(["--only", "gems,console"]);
    });
    assert!(!weir.serves("jobs") && !weir.serves("front"));
    assert_eq!(get(weir.gems(), "/names", "").1, "---\n");
    let lines = line("rack", &["1.0", "2.0"]) + &line("Rake", &["13.0"]);
    assert_eq!(
        import(&weir.site, &lines),
        "3 releases imported, 2 new gems; 0 were known already\n"
    );
    assert_eq!(
        import(&weir.site, &lines),
        "0 releases imported, 0 new gems; 3 were known already\n"
    );
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
fn below_its_mount_everything_is_the_indexs_and_all_else_the_apps() {
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
fn an_endpoint_that_is_off_stays_off_over_a_restart() {
    let weir = site(GEMS).start();
    let url = "/api/v1/dependencies.json?gems=rack";
    assert_eq!(get(weir.gems(), url, "").1, "[]");
    assert_eq!(weir.site.ok(&["switch", "off", "--gems", "dependencies"]), "dependencies is off\n");
    insta::assert_snapshot!(weir.site.shown(&["switch", "off", "--gems", "dependency"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: gems have no endpoint "dependency"; they have root, names, versions, info, dependencies, specs, gemspec, file, push, yank, hook, page
    "#);
    insta::assert_snapshot!(weir.site.shown(&["switch", "off", "typing"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: realtime is not served by this Weir (it is with an app in [[realtime.apps]], unless --only leaves it out)
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
fn a_key_does_what_it_is_for_until_it_is_revoked() {
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

#[test]
fn operators_find_yank_and_check_what_there_is() {
    let weir = site(GEMS).start();
    let lines = line("rack", &["1.0", "2.0"]) + &line("Rake", &["13.0"]) + &line("erb", &["1"]);
    import(&weir.site, &lines);
    assert_eq!(weir.site.ok(&["gems", "list", "--search", "RA"]), "Rake\nrack\n");
    assert_eq!(weir.site.ok(&["gems", "list", "--limit", "2"]), "Rake\nerb\n");
    insta::assert_snapshot!(weir.site.shown(&["gems", "info", "rack"]), @r"
    exit: 0
    -- stdout
    VERSION  PLATFORM  FILE       DOWNLOADS  SHA256        NEEDS
    2.0      ruby      elsewhere  0          abababababab  rake (>= 13)
    1.0      ruby      elsewhere  0          abababababab  rake (>= 13)
    -- stderr
    2 of 2; 0 downloads
    ");
    insta::assert_snapshot!(weir.site.shown(&["gems", "yank", "rack", "1.0"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: Yank rack 1.0 (ruby)? It can't be pushed again. Nobody to ask here: say --yes
    ");
    weir.site.ok(&["gems", "yank", "rack", "1.0", "--yes"]);
    insta::assert_snapshot!(weir.site.shown(&["gems", "yank", "rack", "1.0", "--yes"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: The version 1.0 has already been yanked.
    ");
    insta::assert_snapshot!(weir.site.shown(&["gems", "yank", "rack", "3", "--yes"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: The version 3 does not exist. (`weir gems info NAME` lists what there is)
    ");
    let nobody = weir.site.shown(&["gems", "yank", "nope", "1", "--yes"]);
    let unknown = weir.site.shown(&["gems", "info", "nope"]);
    for told in [nobody, unknown] {
        assert!(told.contains("(`weir gems list --search TEXT` finds names; "), "{told}");
    }
    let before = get(weir.gems(), "/versions", "").1;
    assert_eq!(before.lines().count(), 6, "a line for the yank: {before}");
    weir.site.ok(&["gems", "rebaseline"]);
    assert_eq!(get(weir.gems(), "/versions", "").1.lines().count(), 5);
    insta::assert_snapshot!(weir.site.shown(&["gems", "verify"]), @r"
    exit: 0
    -- stdout
    sound: 3 gems, 3 releases
    -- stderr
    ");
    let site = weir.end();
    // The store needs no Weir.
    let sound: serde_json::Value =
        serde_json::from_str(&site.ok(&["gems", "verify", "--fix", "--json"])).expect("JSON");
    assert_eq!((&sound["gems"], &sound["is_fixed"]), (&3.into(), &false.into()));
    // As many as there are in lists.
    let weir = site.start();
    weir.site.ok(&["gems", "yank", "erb", "1", "--yes"]);
    assert_eq!(weir.site.ok(&["gems", "list"]), "Rake\nrack\n");
    let told = weir.site.ok(&["gems", "verify"]);
    assert_eq!(
        told,
        "sound: 2 gems, 2 releases; 1 more name without a release that is not yanked\n"
    );
    assert!(weir.stop().success());
}

#[test]
fn files_that_are_elsewhere_or_lost_for_good_are_told() {
    let weir = site(GEMS).start();
    client::push(weir.gems(), &client::key(&weir), "shop", "1.0");
    import(&weir.site, &(line("rack", &["1.0", "2.0", "3.0"]) + &line("rake", &["13.0"])));
    let (status, told) = get(weir.gems(), "/gems/rack-2.0.gem", "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(told.starts_with("the file of rack-2.0 is not here, though "), "{told}");
    let (_, unknown) = get(weir.gems(), "/gems/rack-9.0.gem", "");
    assert_eq!(unknown, "there is no release \"rack-9.0\" here\n");
    insta::assert_snapshot!(weir.site.shown(&["gems", "verify", "--files"]), @r"
    exit: 0
    -- stdout
    sound: 3 gems, 5 releases
    sound: 1 file
    not here: 4 files of imported releases (rack-1.0, rack-2.0, rack-3.0 and 1 more); set gems.files_url to where they are, or clients get 404
    -- stderr
    ");
    let folder = weir.data_dir().join("gems/files");
    let file = files_below(&folder).pop().expect("a file");
    std::fs::write(file, "damaged").expect("written");
    let shown = weir.site.shown(&["gems", "verify", "--files"]);
    assert!(shown.starts_with("exit: 1\n"), "{shown}");
    let shown = weir.site.shown(&["gems", "verify", "--files", "--fix"]);
    assert!(shown.starts_with("exit: 2\n") && shown.contains("from a backup"), "{shown}");
    assert!(weir.stop().success());
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let (folders, mut files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| files_below(folder)));
    files.retain(|file| file.extension().is_some_and(|it| it == "gem"));
    files
}

#[test]
fn downloads_are_counted_over_restarts() {
    let weir = site(GEMS).start();
    let key = client::key(&weir);
    client::push(weir.gems(), &key, "shop", "1.0");
    for _ in 0..2 {
        assert_eq!(client::file(&weir, "shop-1.0").0, "HTTP/1.1 200 OK");
    }
    // What is counted is kept at the end, whenever it would have been next.
    let weir = weir.end().start();
    assert!(weir.site.shown(&["gems", "info", "shop"]).ends_with("1 of 1; 2 downloads\n"));
    assert!(get(weir.console(), "/gem?name=shop", "").1.contains("2 downloads"));
    assert!(weir.stop().success());
}

#[test]
fn a_line_that_is_wrong_ends_an_import_and_is_told() {
    let site = site(GEMS);
    let text = line("rack", &["1.0"]) + "{\"name\":\"b c\",\"versions\":[]}\n" + &line("d", &["1"]);
    std::fs::write(site.path().join("gems.jsonl"), text).expect("written");
    insta::assert_snapshot!(site.shown(&["gems", "import", "gems.jsonl"]), @r#"
    exit: 2
    -- stdout
    1 release imported, 1 new gem; 0 were known already
    -- stderr
    error: line 2: the name "b c" has ' '; letters, digits, '-', '_' and '.' are allowed; the gems before it are in. Correct it and import the file again: what is known stays as it is
    "#);
    let mode = std::fs::metadata(site.path().join("data")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "as weir up makes it");

    let elsewhere = Site::new("");
    insta::assert_snapshot!(elsewhere.shown(&["gems", "import", "gems.jsonl"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: gems are not switched on: write a table [gems] into weir.toml, or name a data_dir with --data-dir
    ");
    insta::assert_snapshot!(elsewhere.shown(&["gems", "verify", "--data-dir", "data"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: there are no gems at data/gems/index.db; name its data_dir with --data-dir or --config
    ");
}

#[test]
fn a_weir_without_gems_says_so() {
    let weir = Weir::start();
    for command in [&["gems", "list"][..], &["gems", "key", "list"]] {
        let shown = weir.site.shown(command);
        assert!(shown.contains("gems are not served by this Weir ("), "{shown}");
    }
    assert!(weir.stop().success());
}

#[test]
fn a_reload_takes_limits_and_names_what_needs_a_restart() {
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

/// Asks again and again; each request must be answered.
fn ask_until(is_over: &AtomicBool, address: SocketAddr) -> usize {
    let mut answers = 0;
    while !is_over.load(Ordering::Relaxed) {
        let (status, names) = get(address, "/names", "");
        assert_eq!((status.as_str(), names.as_str()), ("HTTP/1.1 200 OK", "---\nrack\n"));
        answers += 1;
    }
    answers
}

#[test]
fn clients_do_not_notice_a_restart_nor_an_upgrade() {
    let weir = site(GEMS).start();
    import(&weir.site, &line("rack", &["1.0"]));
    let (is_over, address) = (Arc::new(AtomicBool::new(false)), weir.gems());
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || ask_until(&is_over, address))
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
fn an_upgrade_opens_the_address_that_is_new() {
    let weir = site("").start();
    weir.site.write(&format!("{BASE}{GEMS}"));
    let refused = weir.site.shown(&["restart"]);
    assert!(refused.contains("(gems.listen); `weir upgrade` takes them"), "{refused}");
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

#[test]
fn gems_alone_are_at_the_front_without_its_apps() {
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

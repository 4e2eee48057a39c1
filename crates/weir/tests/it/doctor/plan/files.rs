//! The files of a plan, read by what they are for.

use std::path::Path;
use std::process::Command;

use super::{MASTODON, code, error, plan};
use crate::process::output_of;
use crate::weir::Site;

#[test]
fn files_are_valid_and_never_replaced_without_consent() {
    let site = Site::new("");
    let folder = site.path().join("plan").display().to_string();
    let app = site.path().display().to_string();
    let write = [&MASTODON[..], &["--write", &folder, "--folder", &app]].concat();
    let output = plan(&write);
    assert_eq!(code(&output), 0, "{output:?}");
    let layout = format!("{folder}/layout.toml");
    assert_eq!(code(&plan(&["--check", &layout])), 0);
    let settings = site.ok(&["check", "--config", &format!("{folder}/weir.toml")]);
    assert!(settings.contains("workers.sidekiq-push.concurrency = 16\n"), "{settings}");
    let unit = std::fs::read_to_string(format!("{folder}/sidekiq-push.service")).unwrap();
    assert!(unit.contains(" sidekiq -c 16 -q push -q "), "{unit}");
    assert!(unit.contains("With rbenv, replace `/usr/bin/env bundle` by"), "{unit}");

    assert_eq!(code(&plan(&write)), 0, "nothing differs, so nobody is asked");
    std::fs::write(&layout, "mine").unwrap();
    let output = plan(&write);
    assert_eq!(code(&output), 2);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("layout.toml in ") && error.contains("confirm with --yes"), "{error}");
    assert_eq!(std::fs::read_to_string(&layout).unwrap(), "mine");
    assert_eq!(code(&plan(&[&write[..], &["--yes"]].concat())), 0);
    assert_ne!(std::fs::read_to_string(&layout).unwrap(), "mine");
}

#[test]
fn any_queue_name_gives_valid_files() {
    let site = Site::new("");
    let folder = site.path().join("plan").display().to_string();
    let app = site.path().display().to_string();
    let queues = ["mail.out=1,0.1", "Mail=1,0.1", "action_mailbox_incineration=1,0.1"];
    let queues = queues.iter().flat_map(|queue| ["--queue", queue]).collect::<Vec<_>>();
    let more = ["--memory", "8GiB", "--write", &folder, "--folder", &app];
    assert_eq!(code(&plan(&[&queues[..], &more].concat())), 0);
    site.ok(&["check", "--config", &format!("{folder}/weir.toml")]);
}

#[test]
fn unsafe_names_are_not_written() {
    let site = Site::new("");
    let folder = site.path().join("plan").display().to_string();
    for name in ["a\nb=1,1", "../../x=1,1", "-r=1,1"] {
        let output = plan(&["--memory", "8GiB", &format!("--queue={name}"), "--write", &folder]);
        assert_eq!(code(&output), 2, "{name}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("cannot be written to files"), "{error}");
    }
    assert!(!Path::new(&folder).exists());
}

/// As Mastodon comes with them, what matters here.
const WEB_UNIT: &str = "[Unit]\nDescription=mastodon-web\n[Service]\nUser=mastodon\nEnvironment=\"PORT=3000\"\n\
    ExecStart=/usr/bin/env bundle exec puma -C config/puma.rb\n[Install]\nWantedBy=multi-user.target\n";
const STREAMING_UNIT: &str = "[Unit]\nDescription=mastodon-streaming on port %I\n[Service]\nUser=mastodon\n\
    Environment=\"PORT=%I\"\nExecStart=/usr/bin/env node ./streaming\n[Install]\nWantedBy=multi-user.target\n";
const COMPOSE: &str = "services:\n  web:\n    image: mastodon\n    environment:\n      - RAILS_ENV=production\n  \
    streaming:\n    image: streaming\n    ports:\n      - '127.0.0.1:4000:4000'\n  sidekiq:\n    image: mastodon\n    \
    command: bundle exec sidekiq\n";

/// Writes a plan with three streaming processes, and two processes for pushes.
fn write_plan(folder: &Path) -> String {
    let shown = folder.display().to_string();
    let more =
        ["--streaming", "3x7", "--write", &shown, "--web-threads", "4", "--queue", "busy=60,0.5"];
    let output = plan(&[&MASTODON[..], &more].concat());
    assert_eq!(code(&output), 0, "{output:?}");
    error(&output)
}

#[test]
fn web_and_streaming_get_their_planned_resources() {
    let folder = tempfile::tempdir().unwrap();
    let said = write_plan(folder.path());
    assert!(
        said.contains("mastodon-web.service.d/weir.conf") && said.contains("the first lines"),
        "{said}"
    );
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let web = file("mastodon-web.service.d/weir.conf");
    assert!(web.contains("\nEnvironment=WEB_CONCURRENCY=2 MAX_THREADS=4 DB_POOL=4\n"), "{web}");
    let streaming = file("mastodon-streaming@.service.d/weir.conf");
    assert!(streaming.contains("\nEnvironment=DB_POOL=7\n"), "{streaming}");
    assert!(streaming.contains(
        " restart mastodon-streaming@4000 mastodon-streaming@4001 mastodon-streaming@4002\n"
    ));
    let compose = file("docker-compose.override.yml");
    let web = "  web:\n    environment:\n      WEB_CONCURRENCY: \"2\"\n      MAX_THREADS: \"4\"\n      DB_POOL: \"4\"\n";
    let streaming = "      - \"127.0.0.1:4000-4002:4000\"\n    deploy:\n      replicas: 3\n";
    assert!(compose.contains(web) && compose.contains(streaming), "{compose}");
    let none = tempfile::tempdir().unwrap();
    let shown = none.path().display().to_string();
    assert_eq!(code(&plan(&["--memory", "8GiB", "--queue", "a=1,1", "--write", &shown])), 0);
    let compose = std::fs::read_to_string(none.path().join("docker-compose.override.yml")).unwrap();
    assert!(!compose.contains("ports:"), "one keeps its own: {compose}");
}

/// Returns systemd's warnings about the units in a folder; None: systemd is not installed.
fn systemd_warnings(folder: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let units = entries.filter(|path| path.extension().is_some_and(|it| it == "service"));
    let mut command = Command::new("systemd-analyze");
    command.arg("verify").args(units);
    if let Err(missing) = Command::new("systemd-analyze").arg("--version").output() {
        eprintln!("skipped: systemd-analyze is not here ({missing})");
        return None;
    }
    let output = output_of(&mut command);
    let said = error(&output);
    // It reads this machine's other units as well.
    let shown = folder.display().to_string();
    let ours = |line: &&str| {
        line.contains(&shown) || line.contains("sidekiq") || line.contains("mastodon")
    };
    Some(said.lines().filter(ours).map(str::to_owned).collect())
}

#[test]
fn systemd_accepts_the_units() {
    let folder = tempfile::tempdir().unwrap();
    write_plan(folder.path());
    let file = |name: &str| folder.path().join(name);
    assert!(file("sidekiq-busy@.service").exists(), "one for several processes is among them");
    std::fs::write(file("mastodon-web.service"), WEB_UNIT).unwrap();
    std::fs::write(file("mastodon-streaming@.service"), STREAMING_UNIT).unwrap();
    let Some(said) = systemd_warnings(folder.path()) else { return };
    assert_eq!(said, [""; 0]);
    // What lies in the folders is read: a mistake there is found.
    for name in ["mastodon-web.service.d/weir.conf", "mastodon-streaming@.service.d/weir.conf"] {
        let text = std::fs::read_to_string(file(name)).unwrap();
        std::fs::write(file(name), text + "Nonsense=1\n").unwrap();
    }
    let said = systemd_warnings(folder.path()).unwrap();
    assert_eq!(said.iter().filter(|line| line.contains("'Nonsense'")).count(), 2, "{said:?}");
}

#[test]
fn compose_merges_the_override() {
    let is_there = Command::new("docker").args(["compose", "version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: docker compose is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_plan(folder.path());
    std::fs::write(folder.path().join("docker-compose.yml"), COMPOSE).unwrap();
    let mut command = Command::new("docker");
    command.args(["compose", "--project-name", "weir-plan", "config"]).current_dir(folder.path());
    let output = output_of(&mut command);
    assert!(output.status.success(), "{output:?}");
    let merged = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        merged.contains("WEB_CONCURRENCY: \"2\"") && merged.contains("RAILS_ENV: production"),
        "{merged}"
    );
    assert!(merged.contains("sidekiq-busy:") && merged.contains("4000-4002"), "{merged}");
}

//! `weir init` for applications: folders with their files, what is written and printed.

#![allow(clippy::print_stderr, reason = "what is skipped says so")]

mod fixtures;
mod walk;

use std::path::Path;

use self::fixtures::{App, COMPOSE, PUMA, SIDEKIQ_4_4};

/// Of a machine that no test has.
const MACHINE: [&str; 5] = ["--", "--cores", "4", "--memory", "8GiB"];

/// The words of `weir init KIND app`, with the units of the fixture.
fn words<'a>(kind: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["init", kind, "app", "--units", "units"][..], more].concat()
}

/// Asserts that `weir check` accepts what was written.
fn assert_checked(app: &App) {
    let output = app.site.run(&["check", "--offline", "--config", "app/weir.toml"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn mastodon_under_systemd_gets_settings_steps_and_a_way_back() {
    let app = App::mastodon_with_units();
    let shown = app.shown(&words("mastodon", &MACHINE));
    for part in [
        "exit: 0\n",
        "Mastodon 4.4.3 in [folder]/app, run by systemd\n",
        "read         Gemfile.lock (rails 8.0.2, puma 6.6.0, sidekiq 7.3.9, sidekiq-scheduler 5.0.6)\n",
        "read         config/sidekiq.yml (default, push, ingress, mailers, pull, scheduler, fasp)\n",
        "mastodon-web        2          5        5\n",
        "mastodon-sidekiq    1          25       25    default, push, ingress, mailers, pull, scheduler, fasp (by weight)\n",
        "     systemctl disable --now mastodon-sidekiq\n     systemctl enable --now weir-mastodon\n",
        "     systemctl disable --now weir-mastodon\n     systemctl enable --now mastodon-sidekiq\n",
        "     systemctl disable --now mastodon-streaming mastodon-web\n",
        "not read     mastodon-web: the values of OTHER_SECRET are not copied",
    ] {
        assert!(shown.contains(part), "{part}\n---\n{shown}");
    }
    let steps = shown.split_once("STEPS").expect("steps").1;
    assert_eq!(
        app.read("weir-steps.txt"),
        format!("STEPS{}", steps.split("-- stderr").next().expect("text"))
    );
    let settings = app.read("weir.toml");
    for part in [
        "command = [\"/opt/mastodon/.rbenv/shims/bundle\", \"exec\", \"puma\", \"-C\", \"config/puma.rb\", \"--workers\", \"0\", \"--threads\", \"5:5\", \"--bind\", \"unix://{socket}\"]\n",
        "environment = { RAILS_ENV = \"production\", LD_PRELOAD = \"libjemalloc.so\", MAX_THREADS = \"5\", DB_POOL = \"5\" }\n",
        "paths = [\"/api/v1/streaming\"]\n",
        "command = [\"env\", \"PORT={port}\", \"/usr/bin/node\", \"./streaming\"]\n",
        "[workers.sidekiq-scheduler]\n# Never more than one: two would enqueue scheduled jobs twice.\n",
        "[workers.sidekiq-fasp]\n",
        "queues = [\"push\", \"default\", \"ingress\", \"pull\", \"fasp\"]\n",
        "url = \"redis://localhost:6379/0\"\n",
        "pushes = [\"default\", \"push\", \"ingress\", \"mailers\", \"pull\", \"scheduler\", \"fasp\"]\n",
    ] {
        assert!(settings.contains(part), "{part}\n---\n{settings}");
    }
    let unit = app.read("weir-units/weir-mastodon.service");
    assert!(unit.contains("User=mastodon\n"), "{unit}");
    assert_checked(&app);
    app.assert_no_secret(&["weir.toml", "weir-units/weir-mastodon.service", "weir-steps.txt"]);
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// The threads that Sidekiq has today, and web processes beyond the default, are kept by the plan.
#[test]
fn present_threads_and_web_processes_are_kept() {
    let app = App::mastodon_with_units();
    app.unit(
        "mastodon-web",
        "bundle exec puma -C config/puma.rb",
        "Environment=\"WEB_CONCURRENCY=4\"\n",
    );
    let shown = app.shown(&words("mastodon", &MACHINE));
    let plan = shown.split_once("by plan").expect("a plan").1;
    let row = |name: &str| -> Vec<u32> {
        let line = plan.lines().find(|line| line.starts_with(name)).expect("a row");
        line.split_whitespace().skip(1).take(3).filter_map(|it| it.parse().ok()).collect()
    };
    assert_eq!(row("web"), [4, 5, 5], "{shown}");
    let names = ["default", "push", "ingress", "mailers", "pull", "scheduler", "fasp"];
    let threads: u32 =
        names.iter().map(|name| row(&format!("sidekiq-{name} "))).map(|row| row[0] * row[1]).sum();
    assert_eq!(threads, 25, "{shown}");
    // Unless the load is given.
    let given = [&MACHINE[..], &["--web-requests", "10"]].concat();
    let shown = app.shown(&[&words("mastodon", &["--force"])[..], &given].concat());
    let plan = shown.split_once("by plan").expect("a plan").1;
    assert!(plan.lines().any(|line| line.starts_with("web ") && line.contains(" 2 ")), "{shown}");
}

#[test]
fn mastodon_in_compose_gets_an_override_with_the_settings_of_its_servers() {
    let app = App::new();
    app.write("docker-compose.yml", COMPOSE);
    app.write(".env.production", fixtures::ENVIRONMENT);
    let shown = app.shown(&words("mastodon", &MACHINE));
    for part in [
        "Mastodon 4.2.10 in [folder]/app, run by docker compose\n",
        "not read     config/sidekiq.yml: it is not here; assumed: the queues of this version",
        "     docker compose -f docker-compose.yml exec -T redis sh -s < [folder]/app/redis-weir.sh\n",
        "     docker compose -f docker-compose.yml -f docker-compose.weir.yml up -d --remove-orphans\n",
        "     docker compose -f docker-compose.yml exec -T redis redis-cli SAVE\n     docker compose -f docker-compose.yml up -d --remove-orphans\n",
    ] {
        assert!(shown.contains(part), "{part}\n---\n{shown}");
    }
    let over = app.read("docker-compose.weir.yml");
    for part in [
        "  db:\n    command: [\"postgres\",\"-c\",\"log_min_duration_statement=500\",\"-c\",\"max_connections=120\",\"-c\",\"shared_buffers=512MB\"",
        "  redis:\n    command: [\"redis-server\",\"--save\",\"60\",\"1\",\"--maxmemory-policy\",\"noeviction\",\"--appendonly\",\"yes\"",
        "  web:\n    environment:\n      WEB_CONCURRENCY: \"2\"\n",
        "  sidekiq:\n    deploy:\n      replicas: 0\n",
        "  sidekiq-ingress:\n    extends:\n      file: docker-compose.yml\n      service: sidekiq\n",
    ] {
        assert!(over.contains(part), "{part}\n---\n{over}");
    }
    assert!(!over.contains("fasp"), "4.2 has no such queue: {over}");
    let check = app.shown(&words("mastodon", &["--check"]));
    assert!(check.contains("docker-compose.weir.yml serves the 6 queues"), "{check}");
    let settings = app.read("weir.toml");
    assert!(
        settings.contains("upstreams = [\"127.0.0.1:3000\"]\nconcurrency = 10\n"),
        "{settings}"
    );
    assert!(settings.contains("upstreams = [\"127.0.0.1:4000\"]\n"), "{settings}");
    assert!(!app.read("redis-weir.sh").contains("CONFIG REWRITE"), "a container has no redis.conf");
    assert_checked(&app);
    app.assert_no_secret(&[
        "weir.toml",
        "docker-compose.weir.yml",
        "weir-steps.txt",
        "redis-weir.sh",
    ]);
    // What was written is a layout that `weir plan --check` accepts.
    let both = app.path().join("docker-compose.override.yml");
    std::fs::copy(app.path().join("docker-compose.weir.yml"), both).expect("copied");
    let shown = app.shown(&["plan", "--check", "app"]);
    assert!(shown.contains("\nsidekiq-ingress "), "{shown}");
}

/// A password in the command of Redis is neither copied nor lost: the command stays.
#[test]
fn a_command_with_a_password_stays_as_it_is() {
    let app = App::new();
    app.write("docker-compose.yml", &COMPOSE.replace("--save 60 1", "--requirepass hunter2"));
    let shown = app.shown(&words("mastodon", &MACHINE));
    assert!(shown.contains("not managed  service redis: its command is not replaced"), "{shown}");
    assert!(!app.read("docker-compose.weir.yml").contains("  redis:\n"));
    app.assert_no_secret(&["docker-compose.weir.yml", "weir.toml"]);
}

#[test]
fn files_are_never_replaced_without_force() {
    let app = App::mastodon_with_units();
    app.write("weir-steps.txt", "mine\n");
    let shown = app.shown(&words("mastodon", &MACHINE));
    assert!(
        shown.starts_with("exit: 2\n")
            && shown.contains("weir-steps.txt exists; replace it with --force"),
        "{shown}"
    );
    assert!(!app.path().join("weir.toml").exists(), "nothing else is written");
    assert_eq!(app.read("weir-steps.txt"), "mine\n");
    let shown =
        app.shown(&words("mastodon", &["--output", "-", "--", "--cores", "4", "--memory", "8GiB"]));
    assert!(shown.starts_with("exit: 0\n-- stdout\n# Mastodon 4.4.3"), "{shown}");
    assert_eq!(app.read("weir-steps.txt"), "mine\n");
    assert!(
        app.shown(&words("mastodon", &[&["--force"][..], &MACHINE].concat()))
            .starts_with("exit: 0\n")
    );
    assert!(app.read("weir-steps.txt").starts_with("STEPS"));
}

#[test]
fn files_that_cannot_be_read_are_named_with_what_is_assumed() {
    for (settings, reason) in [
        (
            &b":queues:\n  - [default, 8\n  x: [[[\n"[..],
            "it is not valid YAML, or code in it decides",
        ),
        (b"<% if x %>\n:queues: [a]\n<% end %>\n", "it is not valid YAML, or code in it decides"),
        (b"\xff\xfe", "invalid utf-8 sequence"),
    ] {
        let app = App::mastodon_with_units();
        app.write_bytes("config/sidekiq.yml", settings);
        let shown = app.shown(&words("mastodon", &MACHINE));
        assert!(shown.starts_with("exit: 0\n") && shown.contains(reason), "{reason}\n{shown}");
        assert!(
            app.read("weir.toml").contains("\"ingress\""),
            "the queues of the version are served"
        );
        assert_checked(&app);
    }
    let app = App::new();
    app.write("docker-compose.yml", "services:\n  web: [\n");
    let shown = app.shown(&words("mastodon", &MACHINE));
    assert!(shown.starts_with("exit: 2\n") && shown.contains("is not valid YAML"), "{shown}");
}

#[test]
fn a_queue_that_no_process_serves_is_found_after_an_upgrade() {
    let app = App::mastodon_with_units();
    let old = SIDEKIQ_4_4.replace("  - fasp\n", "");
    app.write("config/sidekiq.yml", &old);
    app.version(4, 3);
    assert!(app.shown(&words("mastodon", &MACHINE)).starts_with("exit: 0\n"));
    assert!(!app.read("weir.toml").contains("fasp"));
    let check = words("mastodon", &["--check"]);
    assert!(
        app.shown(&check).contains("serves the 6 queues of the application"),
        "{}",
        app.shown(&check)
    );
    // By the settings, by the version alone, and by the code alone.
    for change in 0..3 {
        app.write("config/sidekiq.yml", if change == 0 { SIDEKIQ_4_4 } else { &old });
        app.version(4, if change == 1 { 4 } else { 3 });
        if change == 2 {
            app.write(
                "app/workers/fasp_worker.rb",
                "class A\n  sidekiq_options queue: 'fasp', retry: 3\nend\n",
            );
        }
        let shown = app.shown(&check);
        assert!(
            shown.starts_with("exit: 1\n") && shown.contains("queue fasp: no process of"),
            "{change}: {shown}"
        );
    }
    assert!(
        app.shown(&words("mastodon", &[&["--force"][..], &MACHINE].concat()))
            .starts_with("exit: 0\n")
    );
    assert!(app.shown(&check).starts_with("exit: 0\n"));
}

#[test]
fn hostile_files_reach_no_command_and_no_setting() {
    let app = App::mastodon_with_units();
    let hostile = "REDIS_HOST=\"; touch /tmp/owned #\nDB_NAME=a\"\\nx = 1\nDB_POOL=$(id)\nLOCAL_DOMAIN=`id`\n\
                   MAX_THREADS=\u{1b}[31m9\nREDIS_PASSWORD=hunter2\nA=\n=B\n\u{0}\n[jobs]\nlisten = \"0.0.0.0:1\"\n";
    app.write(".env.production", hostile);
    app.unit(
        "mastodon-web",
        "bundle exec puma -C config/puma.rb",
        "Environment=\"LD_PRELOAD=a\\\"b\"\n",
    );
    let shown = app.shown(&words("mastodon", &MACHINE));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    for text in [
        shown,
        app.read("weir.toml"),
        app.read("weir-steps.txt"),
        app.read("weir-units/weir-mastodon.service"),
    ] {
        assert!(
            !text.contains("touch") && !text.contains('\u{1b}') && !text.contains("hunter2"),
            "{text}"
        );
        assert!(!text.contains("0.0.0.0"), "{text}");
    }
    assert_checked(&app);
    let app = App::mastodon_with_units();
    app.write("config/sidekiq.yml", ":queues:\n  - \"a b; x\"\n");
    let shown = app.shown(&words("mastodon", &MACHINE));
    assert!(!shown.contains("exit: 101"), "{shown}");
}

#[test]
fn rails_gets_puma_and_sidekiq_or_its_own_jobs() {
    let app = App::new();
    app.write(
        "Gemfile.lock",
        "GEM\n  specs:\n    puma (6.4.2)\n    rails (7.1.3)\n    sidekiq (7.2.0)\n",
    );
    app.write("config/puma.rb", PUMA);
    app.write(
        "config/sidekiq.yml",
        ":concurrency: <%= ENV.fetch('N', 10) %>\n:queues:\n  - critical\n  - default\n",
    );
    app.write("config/routes.rb", "get \"up\" => \"rails/health#show\"\n");
    app.write("app/jobs/a_job.rb", "class AJob < ApplicationJob\n  queue_as :low\nend\n");
    let shown = app.shown(&words("rails", &MACHINE));
    for part in [
        "Rails in [folder]/app, run by commands\n",
        "assumed      the code also pushes to low, which config/sidekiq.yml does not list\n",
        "sidekiq-critical",
    ] {
        assert!(shown.contains(part), "{part}\n---\n{shown}");
    }
    let settings = app.read("weir.toml");
    assert!(
        settings.contains("ready_path = \"/up\"\n") && settings.contains("[workers.sidekiq-low]\n"),
        "{settings}"
    );
    assert!(settings.contains("RAILS_MAX_THREADS"), "{settings}");
    assert!(!settings.contains("streaming"), "{settings}");
    assert_checked(&app);
    let app = App::new();
    app.write(
        "Gemfile.lock",
        "GEM\n  specs:\n    puma (6.4.2)\n    rails (8.0.0)\n    solid_queue (1.0.0)\n",
    );
    app.write("config/puma.rb", PUMA);
    let shown = app.shown(&words("rails", &[]));
    assert!(shown.contains("not managed  no plan was made: there is no Sidekiq"), "{shown}");
    assert!(app.read("weir.toml").contains("[workers.solid_queue]\n"));
    assert_checked(&app);
}

#[test]
fn django_and_node_get_their_server() {
    let app = App::new();
    app.write("manage.py", "");
    app.write("shop/wsgi.py", "");
    app.write("shop/celery.py", "");
    app.write("requirements.txt", "Django==5.1\ngunicorn>=22\ncelery[redis]~=5.4\n# uvicorn\n");
    let shown = app.shown(&words("django", &[]));
    assert!(shown.contains("not managed  celery beat: exactly one may run."), "{shown}");
    let settings = app.read("weir.toml");
    assert!(settings.contains("\"unix:{socket}\", \"shop.wsgi:application\"]\n"), "{settings}");
    assert!(
        settings.contains("[workers.celery]\n")
            && settings.contains("\"-A\", \"shop\", \"worker\""),
        "{settings}"
    );
    assert_checked(&app);
    let app = App::new();
    app.write("manage.py", "");
    app.write("shop/asgi.py", "");
    app.write(
        "pyproject.toml",
        "[project]\ndependencies = [\"django\", \"uvicorn[standard]>=0.30\"]\n",
    );
    app.shown(&words("django", &[]));
    let settings = app.read("weir.toml");
    assert!(
        settings.contains("[\"uvicorn\", \"--uds\", \"{socket}\", \"shop.asgi:application\"]\n"),
        "{settings}"
    );
    assert_checked(&app);
    for (package, command) in [
        (
            r#"{"scripts": {"start": "node --max-old-space-size=512 dist/server.js"}}"#,
            "[\"env\", \"PORT={port}\", \"node\", \"--max-old-space-size=512\", \"dist/server.js\"]",
        ),
        (
            r#"{"scripts": {"start": "next start"}, "dependencies": {"bullmq": "5"}}"#,
            "[\"env\", \"PORT={port}\", \"npm\", \"run\", \"--silent\", \"start\"]",
        ),
        (r#"{"main": "main.js"}"#, "[\"env\", \"PORT={port}\", \"node\", \"main.js\"]"),
    ] {
        let app = App::new();
        app.write("package.json", package);
        let shown = app.shown(&words("node", &[]));
        assert!(app.read("weir.toml").contains(&format!("command = {command}\n")), "{shown}");
        assert_eq!(
            shown.contains("not managed  jobs of bullmq"),
            package.contains("bullmq"),
            "{shown}"
        );
        assert_checked(&app);
    }
}

#[test]
fn a_folder_without_the_application_is_an_error_that_names_the_remedy() {
    for (kind, part) in [
        ("mastodon", "weir init mastodon FOLDER"),
        ("rails", "weir init rails FOLDER"),
        ("django", "weir init django FOLDER"),
        ("node", "weir init node FOLDER"),
    ] {
        let app = App::new();
        let shown = app.shown(&words(kind, &[]));
        assert!(shown.starts_with("exit: 2\n") && shown.contains(part), "{shown}");
        assert!(
            std::fs::read_dir(app.path()).expect("a folder").next().is_none(),
            "nothing is written"
        );
    }
    let app = App::new();
    app.write("package.json", "{");
    assert!(app.shown(&words("node", &[])).contains("package.json is not JSON"));
    for (arguments, part) in [
        (&["init", "front", "app"][..], "a folder needs a template for an application"),
        (&["init", "node", "app", "--check"], "--check compares the queues of Sidekiq"),
        (
            &["init", "mastodon", "app", "--", "--nonsense"],
            "the options after -- are those of `weir plan`",
        ),
        (&["init", "mastodon", "app", "--", "--json"], "cannot be used"),
    ] {
        let app = App::mastodon_with_units();
        let shown = app.shown(arguments);
        assert!(shown.starts_with("exit: 64\n") && shown.contains(part), "{shown}");
    }
}

/// A machine without room for the plan gets no files.
#[test]
fn no_file_is_written_without_a_plan() {
    let app = App::mastodon_with_units();
    let shown = app.shown(&words("mastodon", &["--", "--cores", "1", "--memory", "512MiB"]));
    assert!(
        shown.starts_with("exit: 2\n") && shown.contains("no plan satisfies all rules"),
        "{shown}"
    );
    assert!(!Path::new(&app.path().join("weir.toml")).exists());
}

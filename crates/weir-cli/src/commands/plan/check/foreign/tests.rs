use std::fs;

use tempfile::TempDir;
use weir_advisor::plan::{ClaimOutcome, Gap, judge};

use super::*;

/// A typical compose file: anchors, lists, `env_file`, and a container for Postgres.
const COMPOSE: &str = r#"
x-app: &app
  image: registry.example/shop:1
  env_file: .env.production
services:
  db:
    image: postgres:16-alpine
    command: postgres -c max_connections=60 -c shared_buffers=1GB
  cache:
    image: redis:7
    command: ["redis-server", "--appendonly", "yes"]
  web:
    <<: *app
    command: ['bundle', 'exec', 'puma', '-C', 'config/puma.rb']
    environment:
      - WEB_CONCURRENCY=2
      - MAX_THREADS=${WEB_THREADS:-8}
  jobs:
    <<: *app
    command: bundle exec sidekiq -C config/sidekiq.yml
    deploy:
      replicas: 2
  mail:
    <<: *app
    environment:
      RAILS_MAX_THREADS: "3"
    command: ["bash", "-lc", "rm -f tmp/pid && exec bundle exec sidekiq -c $$RAILS_MAX_THREADS -q mailers"]
"#;
const SETTINGS: &str = "---\n:concurrency: <%= ENV.fetch(\"JOB_THREADS\", 10) %>\n:queues:\n  - [default, 8]\n  - [push, 6]\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    folder
}

fn given() -> DatabaseLimits {
    DatabaseLimits { max_connections: None, reserve: 15 }
}

fn read_all(files: &[(&str, &str)]) -> Deployment {
    let folder = folder(files);
    read(folder.path(), given()).expect("it can be read").expect("it starts something")
}

/// Returns name, processes, threads and pool of each started process.
fn rows(deployment: &Deployment) -> Vec<(&str, u32, u32, u32)> {
    let layout = &deployment.layout;
    let services =
        layout.services.iter().map(|it| (it.name.as_str(), it.processes, it.threads, it.pool));
    let workers =
        layout.workers.iter().map(|it| (it.name.as_str(), it.processes, it.concurrency, it.pool));
    services.chain(workers).collect()
}

/// Returns the outcome for the sum of all pools.
fn outcome(deployment: &Deployment) -> ClaimOutcome {
    judge(&deployment.layout, &[])[0].outcome
}

fn figures(deployment: &Deployment) -> String {
    judge(&deployment.layout, &[])[0].figures.clone()
}

#[test]
fn compose_file_is_read_with_the_files_it_names() {
    let deployment = read_all(&[
        ("docker-compose.yml", COMPOSE),
        (".env.production", "JOB_THREADS=12\n# DB_POOL=99\n"),
        ("config/sidekiq.yml", SETTINGS),
        ("Procfile", "worker: bundle exec sidekiq\n"),
    ]);
    let expected = [("web", 2, 8, 8), ("jobs", 2, 12, 12), ("mail", 1, 3, 3)];
    assert_eq!(rows(&deployment), expected);
    assert_eq!(deployment.layout.max_connections, 60);
    assert_eq!(deployment.layout.connections(), 2 * 8 + 2 * 12 + 3);
    assert_eq!(deployment.queues, ["default", "mailers", "push"]);
    assert_eq!(deployment.not_counted, ["Procfile: another description of the same processes"]);
    assert!(deployment.not_judged.is_empty(), "{:?}", deployment.not_judged);
    let proofs = judge(&deployment.layout, &[]);
    assert!(proofs[0].figures.starts_with("43 of 45 connections"), "{proofs:?}");
}

#[test]
fn override_file_is_merged_as_compose_does() {
    let over =
        "services:\n  jobs:\n    deploy:\n      replicas: 3\n    environment:\n      DB_POOL: 20\n";
    let deployment = read_all(&[
        ("docker-compose.yml", COMPOSE),
        ("docker-compose.override.yml", over),
        ("config/sidekiq.yml", SETTINGS),
    ]);
    assert!(rows(&deployment).contains(&("jobs", 3, 10, 20)), "{:?}", rows(&deployment));
    let assumed = deployment.assumed.join("\n");
    assert!(assumed.contains("jobs: .env.production is missing"), "{assumed}");
}

#[test]
fn container_with_the_default_command_of_its_image_is_not_ignored() {
    let text = "services:\n  base: &base\n    image: shop:1\n  web:\n    image: shop:1\n    ports: [80:80]\n  \
        db:\n    image: postgres:16\n    ports: [5432:5432]\n  jobs:\n    <<: *base\n    command: sidekiq -c 3\n";
    let deployment = read_all(&[("compose.yml", text)]);
    let expected = [("base", 1, 0, 0), ("web", 1, 0, 0), ("jobs", 1, 3, 3)];
    assert_eq!(rows(&deployment), expected);
    assert_eq!(deployment.layout.services[1].gaps, [Gap::Command]);
    let proof = &judge(&deployment.layout, &[])[0];
    assert_eq!(proof.outcome, ClaimOutcome::Unknown, "{proof:?}");
    assert!(proof.figures.contains("the commands of base and web are not known"), "{proof:?}");
    let not_judged = deployment.not_judged.join("\n");
    assert!(not_judged.contains("web: its image determines what it starts"), "{not_judged}");
    assert!(!not_judged.contains("db"), "{not_judged}");
}

#[test]
fn skipped_files_of_a_folder_are_reported() {
    let folder = folder(&[
        ("docker-compose.production.yaml", "services:\n"),
        ("Procfile.production", "web: puma\n"),
        ("README.md", ""),
    ]);
    let names = ["Procfile.production", "docker-compose.production.yaml"];
    assert_eq!(candidates(folder.path()), names);
}

#[test]
fn units_are_read_with_environment_files_and_drop_ins() {
    let worker = "[Service]\nWorkingDirectory=/srv/app\nEnvironment=\"RAILS_ENV=production\" DB_POOL=25\n\
        ExecStart=/opt/rbenv/shims/bundle exec sidekiq -c 25 \\\n  -q default -qpush\n";
    let web = "[Service]\nEnvironmentFile=-/srv/app/.env\nExecStart=\nExecStart=/bin/bash -lc 'bin/rails server -p $PORT'\n";
    let deployment = read_all(&[
        ("app-sidekiq.service", worker),
        ("app-web.service", web),
        ("app-web.service.d/weir.conf", "[Service]\nEnvironment=WEB_CONCURRENCY=3\n"),
        ("app-streaming@.service", "[Service]\nExecStart=/usr/bin/node ./streaming\n"),
        (
            "app-noop.service",
            "[Unit]\nWants=app-streaming@4000.service other@1.service\n[Service]\nExecStart=/bin/true\n",
        ),
        ("multi-user.target.wants/app-streaming@4001.service", ""),
        (".env", "RAILS_MAX_THREADS=7\n"),
        ("postgresql.conf", "max_connections = 200 # many\nsuperuser_reserved_connections = 5\n"),
    ]);
    let expected = [("app-streaming", 2, 1, 10), ("app-web", 3, 7, 7), ("app-sidekiq", 1, 25, 25)];
    assert_eq!(rows(&deployment), expected);
    assert_eq!(deployment.layout.workers[0].queues, ["default", "push"]);
    let limits = (deployment.layout.max_connections, deployment.layout.reserved_connections);
    assert_eq!(limits, (200, 5));
    assert!(deployment.not_judged.is_empty(), "{:?}", deployment.not_judged);
    assert_eq!(outcome(&deployment), ClaimOutcome::Holds);
}

#[test]
fn comments_after_values_are_read_as_the_program_that_reads_the_file_does() {
    let unit = "[Service]\nEnvironment=RAILS_ENV=production\nEnvironmentFile=/srv/own\n\
        ExecStart=bundle exec sidekiq -c 25 -q default\n";
    let of = |own: &str, dotenv: &str| {
        read_all(&[("jobs.service", unit), ("own", own), (".env.production", dotenv)])
    };
    let read = of("", "DB_POOL: 40\n");
    assert_eq!(rows(&read), [("jobs", 1, 25, 40)]);
    assert_eq!(rows(&of("", "export DB_POOL=30 # thirty\n")), [("jobs", 1, 25, 30)]);
    // In a file that systemd reads, it is a part of the value.
    let part = of("DB_POOL=40 # forty\n", "");
    assert_eq!(part.layout.workers[0].gaps, [Gap::Pool]);
    let why = "the number of connections in the pool (DB_POOL) is set to \"40 # forty\", which is \
               not a number";
    assert!(part.assumed[0].contains(why), "{:?}", part.assumed);
    let puma = [
        (
            "web.service",
            "[Service]\nEnvironmentFile=/srv/own\nExecStart=bundle exec puma -C config/puma.rb\n",
        ),
        ("own", "MAX_THREADS=8 # eight\n"),
        ("config/puma.rb", "threads 1, ENV.fetch('MAX_THREADS', 5).to_i\n"),
    ];
    let threads = |deployment: &Deployment| deployment.layout.services[0].threads;
    assert_eq!(threads(&read_all(&puma)), 8, "to_i reads the number at the start");
    let checked = ("config/puma.rb", "threads 1, Integer(ENV.fetch('MAX_THREADS', 5))\n");
    let part = read_all(&[puma[0], puma[1], checked]);
    assert!(part.assumed[0].contains("is set to \"8 # eight\""), "{:?}", part.assumed);
    assert!(!part.assumed[0].contains("computed by code"), "{:?}", part.assumed);
    // Rails reads the setting from YAML, where a comment begins at the same place.
    let rails = ("config/database.yml", "production:\n  pool: <%= ENV['DB_POOL'] || 5 %>\n");
    let commented = [("jobs.service", unit), ("own", "DB_POOL=16 # t\n"), rails];
    assert_eq!(rows(&read_all(&commented)), [("jobs", 1, 25, 16)]);
}

#[test]
fn what_dotenv_loads_counts_for_units_below_their_own_variables() {
    let unit = "[Service]\nEnvironment=\"RAILS_ENV=production\" MAX_THREADS=4\nExecStart=bundle exec puma\n";
    let rails = "production:\n  pool: <%= ENV.fetch('DB_POOL', 5) %>\n";
    let files = [("web.service", unit), ("config/database.yml", rails)];
    let alone = read_all(&files);
    assert!(
        alone.assumed.join("\n").contains(".env.production is not here"),
        "{:?}",
        alone.assumed
    );
    let variables = (".env.production", "DB_POOL=40\nMAX_THREADS=9\n");
    let deployment = read_all(&[&files[..], &[variables]].concat());
    assert_eq!(rows(&deployment)[0].3, 40);
    let assumed = deployment.assumed.join("\n");
    assert!(assumed.contains(".env.production is read, as dotenv does"), "{assumed}");
}

#[test]
fn a_compose_file_alone_leaves_its_override_out_and_says_so() {
    let folder = folder(&[
        ("docker-compose.yml", COMPOSE),
        ("docker-compose.override.yml", "services:\n"),
        ("config/sidekiq.yml", SETTINGS),
    ]);
    let file = folder.path().join("docker-compose.yml");
    let deployment = read(&file, given()).expect("it can be read").expect("it starts something");
    let left_out = deployment.not_counted.join("\n");
    assert!(left_out.starts_with("docker-compose.override.yml: give the folder"), "{left_out}");
}

#[test]
fn procfile_is_read_with_the_settings_of_puma_and_rails() {
    let puma = "# workers 9\nmax_threads = ENV.fetch(\"MAX_THREADS\") { 5 }.to_i\nthreads max_threads, max_threads\n\
        workers ENV.fetch('WEB_CONCURRENCY', 2).to_i\n";
    let rails = "production:\n  pool: <%= ENV['DB_POOL'] || ENV['MAX_THREADS'] || 5 %>\n";
    let files = [
        (
            "Procfile",
            "web: bundle exec puma -C config/puma.rb\nworker: dotenv bundle exec sidekiq -c 25\n",
        ),
        ("config/puma.rb", puma),
        ("config/database.yml", rails),
    ];
    let deployment = read_all(&files);
    assert_eq!(rows(&deployment), [("web", 2, 5, 5), ("worker", 1, 25, 5)]);
    let proofs = judge(&deployment.layout, &[]);
    let short =
        proofs.iter().find(|it| it.figures.contains("worker has 25 threads and a pool of 5"));
    assert!(short.is_some(), "{proofs:?}");
}

#[test]
fn named_sidekiq_file_takes_precedence_over_the_default() {
    let usual = ("config/sidekiq.yml", ":concurrency: 25\n:queues: [default]\n");
    let named = ("config/mail.yml", ":concurrency: 3\n:queues: [mailers]\n");
    for option in ["-C config/mail.yml", "--config=config/mail.yml"] {
        let line = format!("worker: DB_POOL=9 sidekiq {option}\n");
        let deployment = read_all(&[("Procfile", &line), usual, named]);
        assert_eq!(rows(&deployment), [("worker", 1, 3, 9)], "{option}");
        assert_eq!(deployment.layout.workers[0].queues, ["mailers"], "{option}");
    }
}

#[test]
fn variables_set_elsewhere_are_unknown() {
    for (line, gap) in [
        ("DB_POOL=9 bundle exec sidekiq -c $THREADS -q a", Gap::Threads),
        ("bundle exec sidekiq -c 5 -q $QUEUE", Gap::Queues),
        ("bundle exec sidekiq -c 5 -C config/none.yml", Gap::Queues),
        ("DB_POOL=$POOL bundle exec sidekiq -c 5 -q a", Gap::Pool),
        ("bundle exec sidekiq -c 5 -q a,8 -q b", Gap::Order),
    ] {
        let deployment = read_all(&[("Procfile", &format!("worker: {line}\n"))]);
        assert_eq!(deployment.layout.workers[0].gaps, [gap], "{line}");
    }
    // A pool as large as threads that nobody knows is not one of 0.
    let deployment =
        read_all(&[("Procfile", "worker: sidekiq -c $THREADS -q a\nweb: puma -t $T\n")]);
    assert_eq!(deployment.layout.workers[0].gaps, [Gap::Threads, Gap::Pool]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Threads, Gap::Pool]);
    let puma = ("config/puma.rb", "workers ENV.fetch('N') {\n  Etc.nprocessors\n}\nthreads 2, 2\n");
    let deployment = read_all(&[("Procfile", "web: puma\n"), puma]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Processes]);
    assert!(deployment.assumed[0].contains("is computed by code"), "{:?}", deployment.assumed);
    let figures = figures(&deployment);
    assert!(figures.contains("the number of processes of web is not known"), "{figures}");
    assert!(!figures.contains("`pool`"), "{figures}");
    let decided = "production:\n  :concurrency: 5\n<% if ENV['X'] %>\n:queues: [a]\n<% end %>\n";
    let deployment =
        read_all(&[("Procfile", "worker: sidekiq\n"), ("config/sidekiq.yml", decided)]);
    assert!(deployment.layout.workers[0].gaps.contains(&Gap::Queues));
}

#[test]
fn environment_blocks_take_precedence_and_a_single_file_works() {
    let settings = ":concurrency: 5\n:queues: [default, push]\nproduction:\n  :concurrency: 15\n";
    let folder = folder(&[("config/sidekiq.yml", settings), ("Procfile", "worker: sidekiq\n")]);
    let file = folder.path().join("Procfile");
    let deployment = read(&file, DatabaseLimits { max_connections: Some(50), reserve: 0 });
    let deployment = deployment.expect("it can be read").expect("it starts something");
    assert_eq!(rows(&deployment), [("worker", 1, 15, 15)]);
    assert_eq!(deployment.layout.max_connections, 50);
    assert_eq!(deployment.layout.workers[0].queues, ["default", "push"]);
}

#[test]
fn folder_without_processes_has_no_deployment() {
    let empty = folder(&[("README.md", "services:\n")]);
    assert!(read(empty.path(), given()).expect("it can be read").is_none());
    let other = folder(&[("Procfile", "web: nginx\n")]);
    assert!(read(other.path(), given()).expect("it can be read").is_none());
    let broken = folder(&[("compose.yml", "services:\n  a: [1\n")]);
    assert!(read(broken.path(), given()).is_err());
}

#[test]
fn unrecognised_command_makes_the_sum_unknown() {
    for (file, text, name) in [
        ("Procfile", "web: bin/dev\nworker: sidekiq -c 3\n", "web"),
        ("Procfile", "jobs: bundle exec rake jobs:work\nworker: sidekiq -c 3\n", "jobs"),
        ("Procfile", "web: puma 'open\nworker: sidekiq -c 3\n", "web"),
        ("Procfile", "worker: sidekiq -c 3\nall: bundle exec foreman start\n", "all"),
        (
            "a.service",
            "[Service]\nExecStart=/srv/app/bin/worker\nExecStart=sidekiq -c 3\nType=oneshot\nRemainAfterExit=yes\n",
            "",
        ),
        (
            "compose.yml",
            "services:\n  a:\n    image: shop\n    command: bin/web\n  b:\n    build: .\n    command: sidekiq -c 3\n",
            "a",
        ),
        (
            "compose.yml",
            "services:\n  a:\n    build: .\n  b:\n    build: .\n    command: sidekiq -c 3\n",
            "a",
        ),
    ] {
        let deployment = read_all(&[(file, text), ("config/sidekiq.yml", ":concurrency: 3\n")]);
        if name.is_empty() {
            // The first of two commands of a unit runs to its end before the second.
            assert_eq!(rows(&deployment), [("a", 1, 3, 3)], "{text}");
            continue;
        }
        assert_eq!(outcome(&deployment), ClaimOutcome::Unknown, "{text}");
        let expected = format!("unknown, because the command of {name} is not known");
        let figures = figures(&deployment);
        assert!(figures.contains("3 of 85") && figures.contains(&expected), "{text}: {figures}");
        assert!(
            deployment.not_judged[0].starts_with(&format!("{name}: ")),
            "{:?}",
            deployment.not_judged
        );
    }
}

#[test]
fn processes_without_connections_are_not_reported() {
    let compose = "services:\n  db:\n    image: postgres\n  cache:\n    image: redis:7\n    command: --loglevel warning\n  \
        proxy:\n    image: nginx:1\n  search:\n    image: elasticsearch:9\n  pool:\n    image: edoburu/pgbouncer\n  \
        idle:\n    build: .\n    command: sleep infinity\n  jobs:\n    build: .\n    command: sidekiq -c 3\n";
    let procfile = "release: bin/release\nweb: puma -t 3 -w 1\ncss: yarn build:css --watch\nassets: bin/webpack-dev-server\n";
    let unit = |line: &str| format!("[Service]\n{line}\n");
    let (echo, once) =
        (unit("ExecStart=/bin/echo sidekiq"), unit("Type=oneshot\nExecStart=/srv/app/bin/clean"));
    let (sshd, jobs) = (unit("ExecStart=/usr/sbin/sshd -D"), unit("ExecStart=sidekiq -c 3"));
    let timer = [
        ("a.service", &*echo),
        ("b.service", &*once),
        ("c.service", &*sshd),
        ("d.service", &*jobs),
    ];
    for files in [&[("compose.yml", compose)][..], &[("Procfile", procfile)], &timer] {
        let settings = ("config/sidekiq.yml", ":concurrency: 3\n");
        let deployment = read_all(&[files, &[settings]].concat());
        assert_eq!(outcome(&deployment), ClaimOutcome::Holds, "{:?}", deployment.not_judged);
        assert!(figures(&deployment).starts_with("3 of 85"), "{:?}", rows(&deployment));
        let is_system = |it: &String| it == "c: a program of the distribution";
        assert!(deployment.not_counted.iter().all(is_system), "{:?}", deployment.not_counted);
        assert!(deployment.not_judged.is_empty(), "{:?}", deployment.not_judged);
    }
}

#[test]
fn streaming_is_found_behind_npm_and_yarn() {
    let package = ("package.json", "{\"scripts\": {\"start\": \"node ./streaming/index.js\"}}");
    let unit =
        "[Service]\nWorkingDirectory=/srv/none/streaming\nExecStart=/usr/bin/npm run start\n";
    let compose =
        "services:\n  a:\n    build: .\n    working_dir: /app/streaming\n    command: yarn start\n";
    let root = "stream: env PORT=4000 yarn run start\n";
    for files in
        [&[("a.service", unit)][..], &[("compose.yml", compose)], &[("Procfile", root), package]]
    {
        let deployment = read_all(files);
        assert_eq!(deployment.layout.connections(), 10, "{files:?}");
        assert_eq!(outcome(&deployment), ClaimOutcome::Holds, "{files:?}");
    }
    // Older ones fork a process for each core but one.
    let old =
        ("streaming/index.js", "const n = +process.env.STREAMING_CLUSTER_NUM || cpus() - 1\n");
    let deployment = read_all(&[("Procfile", root), package, old]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Processes]);
    let said = (".env", "STREAMING_CLUSTER_NUM=3\nDB_POOL=7\n");
    let deployment = read_all(&[("Procfile", root), package, old, said]);
    assert_eq!(rows(&deployment), [("stream", 3, 1, 10)], "its program asks for no DB_POOL");
    let new = ("streaming/index.js", "const pool = process.env.DB_POOL\n");
    let deployment = read_all(&[("Procfile", root), package, new, said]);
    assert_eq!(rows(&deployment), [("stream", 1, 1, 7)]);
}

#[test]
fn template_instances_and_replicas_set_elsewhere_are_unknown() {
    let template = ("jobs@.service", "[Service]\nExecStart=sidekiq -c 3\n");
    let deployment = read_all(&[template, ("config/sidekiq.yml", ":concurrency: 3\n")]);
    assert_eq!(deployment.layout.workers[0].gaps, [Gap::Processes]);
    let compose =
        "services:\n  jobs:\n    build: .\n    command: sidekiq -c 3 -q a\n    scale: ${SCALE}\n";
    let deployment = read_all(&[("compose.yml", compose)]);
    assert_eq!(deployment.layout.workers[0].gaps, [Gap::Processes]);
    let deployment = read_all(&[("compose.yml", compose), (".env", "SCALE=4\n")]);
    assert_eq!(rows(&deployment), [("jobs", 4, 3, 3)]);
}

#[test]
fn line_that_starts_several_processes_counts_each() {
    let line = "all: bash -c 'cd /app && sidekiq -c 3 -q a & exec puma -t 2 -w 2'\n";
    let deployment = read_all(&[("Procfile", line)]);
    assert_eq!(rows(&deployment), [("all (web)", 2, 2, 2), ("all (sidekiq)", 1, 3, 3)]);
    let deployment = read_all(&[("Procfile", "all: bin/jobs & exec puma -t 2 -w 2\n")]);
    assert_eq!(outcome(&deployment), ClaimOutcome::Unknown);
}

#[test]
fn includes_and_extends_are_resolved_and_profiles_not_counted() {
    let base = "services:\n  base:\n    image: redis\n    environment: [A=1, RAILS_MAX_THREADS=4]\n    env_file: base.env\n";
    let main = "include:\n  - more/jobs.yml\nservices:\n  web:\n    extends: {service: base, file: common.yml}\n    \
        image: shop\n    command: puma\n    environment:\n      WEB_CONCURRENCY: 2\n    env_file: [web.env]\n  \
        console:\n    image: shop\n    command: bin/console\n    profiles: [debug]\n";
    let jobs = "services:\n  jobs:\n    build: .\n    command: sidekiq -c 6 -q a\n  more:\n    extends: jobs\n    scale: 2\n";
    let files = [
        ("compose.yml", main),
        ("common.yml", base),
        ("more/jobs.yml", jobs),
        ("base.env", "DB_POOL=9\n"),
        ("web.env", "B=1\n"),
    ];
    let deployment = read_all(&files);
    let expected = [("web", 2, 4, 9), ("jobs", 1, 6, 6), ("more", 2, 6, 6)];
    assert_eq!(rows(&deployment), expected);
    assert_eq!(outcome(&deployment), ClaimOutcome::Holds, "{:?}", deployment.not_judged);
    assert_eq!(deployment.not_counted, ["console: runs only with the profile debug"]);
    let active = [&files[..], &[(".env", "COMPOSE_PROFILES=x,debug\n")]].concat();
    assert_eq!(outcome(&read_all(&active)), ClaimOutcome::Unknown);
    for missing in ["common.yml", "more/jobs.yml"] {
        let rest: Vec<_> = files.iter().copied().filter(|(name, _)| *name != missing).collect();
        let deployment = read_all(&rest);
        assert_eq!(outcome(&deployment), ClaimOutcome::Unknown, "{missing}");
        assert!(deployment.not_judged[0].contains(missing), "{:?}", deployment.not_judged);
    }
    let own = "services:\n  a:\n    extends: b\n  b:\n    extends: a\n    command: sidekiq -c 1\n";
    assert_eq!(outcome(&read_all(&[("compose.yml", own)])), ClaimOutcome::Unknown);
}

#[test]
fn override_file_adds_to_the_list_of_variables() {
    let main = "services:\n  web:\n    build: .\n    command: puma\n    environment: [WEB_CONCURRENCY=2, MAX_THREADS=4]\n";
    let over = "services:\n  web:\n    environment: [MAX_THREADS=6]\n";
    let deployment = read_all(&[("compose.yml", main), ("compose.override.yml", over)]);
    assert_eq!(rows(&deployment), [("web", 2, 6, 6)]);
}

#[test]
fn entry_point_and_command_are_joined() {
    let text = "services:\n  a:\n    image: shop\n    entrypoint: [bundle, exec]\n    command: sidekiq -c 4 -q a\n  \
        b:\n    image: shop\n    entrypoint: sidekiq\n    command: [-c, '5', -q, a]\n";
    assert_eq!(rows(&read_all(&[("compose.yml", text)])), [("a", 1, 4, 4), ("b", 1, 5, 5)]);
}

#[test]
fn missing_settings_file_makes_values_unknown() {
    let deployment = read_all(&[("Procfile", "web: puma -C config/other.rb\n")]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Threads, Gap::Pool, Gap::Processes]);
    let deployment = read_all(&[
        ("Procfile", "web: puma -C config/other.rb\n"),
        ("config/other.rb", "workers 3\n"),
    ]);
    assert_eq!(rows(&deployment), [("web", 3, 5, 5)]);
    // The settings in an image are not available either.
    let compose = "services:\n  a:\n    image: shop\n    command: sidekiq -q a\n  b:\n    image: shop\n    command: puma\n";
    let deployment = read_all(&[("compose.yml", compose)]);
    assert_eq!(deployment.layout.workers[0].gaps, [Gap::Threads, Gap::Pool]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Threads, Gap::Pool, Gap::Processes]);
    let deployment =
        read_all(&[("Procfile", "web: puma -t 2\n"), (".env", "WEB_CONCURRENCY=auto\n")]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Processes]);
}

#[test]
fn unicorn_has_own_settings_and_one_thread() {
    let files = [
        ("Procfile", "web: bundle exec unicorn -c config/u.rb\n"),
        ("config/u.rb", "worker_processes Integer(ENV['UNICORN'] || 3)\n"),
        ("config/puma.rb", "workers 9\nthreads 9, 9\n"),
    ];
    assert_eq!(rows(&read_all(&files)), [("web", 3, 1, 1)]);
}

#[test]
fn unit_is_read_with_its_working_directory() {
    let application = folder(&[("config/puma.rb", "workers 3\nthreads 4, 4\n")]);
    let unit =
        format!("[Service]\nWorkingDirectory={}\nExecStart=puma\n", application.path().display());
    assert_eq!(rows(&read_all(&[("web.service", &unit)])), [("web", 3, 4, 4)]);
}

#[test]
fn pool_comes_from_the_url_or_sidekiq_or_rails() {
    let procfile = ("Procfile", "web: puma -t 4 -w 1\nworker: sidekiq -c 9 -q a\n");
    let chosen =
        "p:\n  pool: <%= Sidekiq.server? ? ENV.fetch('JOBS', 8) : ENV.fetch('WEBS', 4) %>\n";
    let asked = "p:\n  pool: <%= ENV['DB_POOL'] || (if Sidekiq.server? then x[:concurrency] else ENV['WEBS'] end) || 6 %>\n";
    for (rails, env, expected) in [
        (chosen, "", [4, 8]),
        (chosen, "JOBS=20\n", [4, 20]),
        (chosen, "WEBS=7\nDB_POOL=99\n", [7, 8]),
        (asked, "", [6, 9]),
        (asked, "WEBS=7\n", [7, 9]),
        (asked, "DB_POOL=30\n", [30, 30]),
        ("p:\n  max_connections: 12\n", "", [12, 12]),
        ("p:\n  adapter: postgresql\n", "DB_POOL=30\n", [5, 5]),
        ("p:\n  pool: 3\n", "DATABASE_URL=postgres://h/d?a=b&pool=50\n", [50, 50]),
    ] {
        let deployment = read_all(&[procfile, ("config/database.yml", rails), (".env", env)]);
        let pools: Vec<u32> = rows(&deployment).iter().map(|row| row.3).collect();
        assert_eq!(pools, expected, "{rails}{env}");
    }
}

use std::fs;

use tempfile::TempDir;
use weir_advisor::plan::{Gap, judge};

use super::*;

/// Of an application like those that are run so: anchors, lists, `env_file`, a container for Postgres.
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

fn given() -> Given {
    Given { max_connections: None, reserve: 15 }
}

fn read_all(files: &[(&str, &str)]) -> Deployment {
    let folder = folder(files);
    read(folder.path(), given()).expect("it can be read").expect("it starts something")
}

/// (name, processes, threads, pool) of all that is started.
fn rows(deployment: &Deployment) -> Vec<(&str, u32, u32, u32)> {
    let layout = &deployment.layout;
    let services =
        layout.services.iter().map(|it| (it.name.as_str(), it.processes, it.threads, it.pool));
    let workers =
        layout.workers.iter().map(|it| (it.name.as_str(), it.processes, it.concurrency, it.pool));
    services.chain(workers).collect()
}

#[test]
fn a_compose_file_is_summed_with_what_it_names() {
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
    let assumed = deployment.assumed.join("\n");
    assert!(assumed.contains("Procfile: the same in another way"), "{assumed}");
    let proofs = judge(&deployment.layout, &[]);
    assert!(proofs[0].figures.starts_with("43 of 45 connections"), "{proofs:?}");
}

#[test]
fn an_override_is_taken_as_compose_takes_it() {
    let over =
        "services:\n  jobs:\n    deploy:\n      replicas: 3\n    environment:\n      DB_POOL: 20\n";
    let deployment = read_all(&[
        ("docker-compose.yml", COMPOSE),
        ("docker-compose.override.yml", over),
        ("config/sidekiq.yml", SETTINGS),
    ]);
    assert!(rows(&deployment).contains(&("jobs", 3, 10, 20)), "{:?}", rows(&deployment));
    let assumed = deployment.assumed.join("\n");
    assert!(assumed.contains("jobs: .env.production is not here"), "{assumed}");
}

#[test]
fn a_container_that_starts_what_its_image_says_is_not_taken_for_nothing() {
    let text = "services:\n  base: &base\n    image: shop:1\n  web:\n    image: shop:1\n    ports: [80:80]\n  \
        db:\n    image: postgres:16\n    ports: [5432:5432]\n  jobs:\n    <<: *base\n    command: sidekiq -c 3\n";
    let deployment = read_all(&[("compose.yml", text)]);
    assert_eq!(rows(&deployment), [("web", 1, 0, 0), ("jobs", 1, 3, 3)]);
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Threads, Gap::Pool]);
    let proofs = judge(&deployment.layout, &[]);
    assert_eq!(proofs[0].outcome, weir_advisor::plan::Outcome::Unknown, "{proofs:?}");
    let assumed = deployment.assumed.join("\n");
    assert!(assumed.contains("base, db: no command is here"), "{assumed}");
}

#[test]
fn files_of_a_folder_that_are_not_looked_at_are_named() {
    let folder = folder(&[
        ("docker-compose.production.yaml", "services:\n"),
        ("Procfile.production", "web: puma\n"),
        ("README.md", ""),
    ]);
    let names = ["Procfile.production", "docker-compose.production.yaml"];
    assert_eq!(candidates(folder.path()), names);
}

#[test]
fn units_are_read_with_their_files_shells_and_drop_ins() {
    let worker = "[Service]\nWorkingDirectory=/srv/app\nEnvironment=\"RAILS_ENV=production\" DB_POOL=25\n\
        ExecStart=/opt/rbenv/shims/bundle exec sidekiq -c 25 \\\n  -q default -qpush\n";
    let web = "[Service]\nEnvironmentFile=-/srv/app/.env\nExecStart=\nExecStart=/bin/bash -lc 'bin/rails server -p $PORT'\n";
    let deployment = read_all(&[
        ("app-sidekiq.service", worker),
        ("app-web.service", web),
        ("app-web.service.d/weir.conf", "[Service]\nEnvironment=WEB_CONCURRENCY=3\n"),
        ("app-streaming@.service", "[Service]\nExecStart=/usr/bin/node ./streaming\n"),
        ("app-noop.service", "[Service]\nExecStart=/bin/true\n"),
        (".env", "RAILS_MAX_THREADS=7\n"),
        ("postgresql.conf", "max_connections = 200 # many\nsuperuser_reserved_connections = 5\n"),
    ]);
    let expected = [("app-streaming", 1, 1, 10), ("app-web", 3, 7, 7), ("app-sidekiq", 1, 25, 25)];
    assert_eq!(rows(&deployment), expected);
    assert_eq!(deployment.layout.workers[0].queues, ["default", "push"]);
    let limits = (deployment.layout.max_connections, deployment.layout.reserved_connections);
    assert_eq!(limits, (200, 5));
    let assumed = deployment.assumed.join("\n");
    assert!(assumed.contains("app-streaming: 1 instance of the template"), "{assumed}");
}

#[test]
fn a_procfile_is_read_with_pumas_settings_and_those_of_rails() {
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
fn what_is_filled_in_elsewhere_is_unknown() {
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
    assert_eq!(deployment.layout.services[0].gaps, [Gap::Pool]);
    assert!(deployment.assumed[0].contains("decides by code"), "{:?}", deployment.assumed);
    let decided = "production:\n  :concurrency: 5\n<% if ENV['X'] %>\n:queues: [a]\n<% end %>\n";
    let deployment =
        read_all(&[("Procfile", "worker: sidekiq\n"), ("config/sidekiq.yml", decided)]);
    assert!(deployment.layout.workers[0].gaps.contains(&Gap::Queues));
}

#[test]
fn blocks_of_an_environment_win_and_one_file_is_read_as_well() {
    let settings = ":concurrency: 5\n:queues: [default, push]\nproduction:\n  :concurrency: 15\n";
    let folder = folder(&[("config/sidekiq.yml", settings), ("Procfile", "worker: sidekiq\n")]);
    let file = folder.path().join("Procfile");
    let deployment = read(&file, Given { max_connections: Some(50), reserve: 0 });
    let deployment = deployment.expect("it can be read").expect("it starts something");
    assert_eq!(rows(&deployment), [("worker", 1, 15, 15)]);
    assert_eq!(deployment.layout.max_connections, 50);
    assert_eq!(deployment.layout.workers[0].queues, ["default", "push"]);
}

#[test]
fn a_folder_that_starts_nothing_is_none() {
    let empty = folder(&[("README.md", "services:\n")]);
    assert!(read(empty.path(), given()).expect("it can be read").is_none());
    let other = folder(&[("Procfile", "web: nginx\n")]);
    assert!(read(other.path(), given()).expect("it can be read").is_none());
    let broken = folder(&[("compose.yml", "services:\n  a: [1\n")]);
    assert!(read(broken.path(), given()).is_err());
}

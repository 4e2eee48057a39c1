//! One class of a real Sidekiq's jobs is limited: its waiting jobs move to a queue of their own, and back.

use std::collections::BTreeMap;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::{journal, json, status};
use crate::doctor::postgres_server::PostgresServer;
use crate::doctor::redis_server::RedisServer;
use crate::doctor::sidekiq::now;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, is_running};

/// Each job counts its runs by its ID, and by process and class. `Hog` holds the row that `Mail` waits for.
pub(super) const WORKER: &str = "require 'sidekiq'\nrequire 'pg'\n\
    module Counted\n  def self.included(it)\n    it.include Sidekiq::Worker\n  end\n\
    def count\n    Sidekiq.redis { |it| it.hincrby('ran', jid, 1); it.hincrby('by', \"#{Process.pid} #{self.class}\", 1) }\n\
    end\n\
    def db\n    Thread.current[:db] ||= PG.connect(ENV['DATABASE'])\n  end\nend\n\
    class Import\n  include Counted\n  def perform(*)\n    sleep 0.02\n    count\n  end\nend\n\
    class Hog\n  include Counted\n  def perform(*)\n    db.transaction do\n\
    db.exec('SELECT /*job:Hog*/ n FROM accounts WHERE id = 1 FOR UPDATE')\n\
    db.exec('SELECT /*job:Hog*/ pg_sleep(0.5)')\n    end\n    count\n  end\nend\n\
    class Mail\n  include Counted\n  def perform(*)\n\
    db.exec('UPDATE /*job:Mail*/ accounts SET n = n + 1 WHERE id = 1')\n    count\n  end\nend\n";

pub(super) struct Servers {
    pub(super) redis: RedisServer,
    postgres: PostgresServer,
}

/// None, with a message, if a program is not installed.
pub(super) fn servers() -> Option<Servers> {
    if std::process::Command::new("sidekiq").arg("--version").output().is_err() {
        return None;
    }
    let (redis, postgres) = (RedisServer::start()?, PostgresServer::start(&[])?);
    postgres.run("CREATE TABLE accounts (id int PRIMARY KEY, n int)");
    postgres.run("INSERT INTO accounts VALUES (1, 0)");
    Some(Servers { redis, postgres })
}

impl Servers {
    /// Settings with one Sidekiq process of 4 threads, and a budget of as many connections.
    pub(super) fn site(&self, autopilot: &str) -> Site {
        let site = Site::new("");
        std::fs::write(site.path().join("worker.rb"), WORKER).expect("written");
        let (port, url) = (self.redis.port, self.postgres.url("postgres"));
        let folder = site.path().display();
        site.write(&format!(
            "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n\
             [observe]\ninterval = \"1s\"\n[[observe.redis]]\nurl = \"redis://127.0.0.1:{port}/0\"\n\
             [observe.postgres]\nurl = \"{url}\"\n[budget]\ndatabase_connections = 5\nreserve = 1\n\
             [workers.sidekiq]\nfolder = \"{folder}\"\nconcurrency = 4\n\
             command = [\"sidekiq\", \"-r\", \"./worker.rb\", \"-c\", \"{{concurrency}}\", \"{{queues}}\"]\n\
             queues = [\"default\"]\nqueue_flag = \"-q\"\nready_line = \"Running in\"\n\
             environment = {{ REDIS_URL = \"redis://127.0.0.1:{port}/0\", DATABASE = \"{url}\" }}\n\
             [autopilot]\n{autopilot}\nmanage = [\"workers.sidekiq\"]\ninterval = \"1s\"\nhold_for = \"10s\"\n\
             default_target = \"1h\"\nchange_interval = \"1s\"\n\
             [autopilot.limits.advanced]\nlease = \"4s\"\nsample_interval = \"200ms\"\n"
        ));
        site
    }

    /// Pushes jobs of the classes in turn.
    pub(super) fn push(&self, classes: &[&str], count: usize) {
        let at = now(&self.redis);
        let job = |number: usize| {
            let class = classes[number % classes.len()];
            format!(
                r#"{{"class":"{class}","args":[1],"queue":"default","jid":"{number:024x}","retry":true,"created_at":{at},"enqueued_at":{at}}}"#
            )
        };
        let jobs: Vec<String> = (0..count).map(job).collect();
        let words = ["LPUSH", "queue:default"].into_iter().chain(jobs.iter().map(String::as_str));
        self.redis.run(&[&["SADD", "queues", "default"], &words.collect::<Vec<_>>()]);
    }

    pub(super) fn length(&self, queue: &str) -> u64 {
        let key = format!("queue:{queue}");
        redis::cmd("LLEN").arg(key).query(&mut self.redis.client()).expect("a length")
    }

    fn counts(&self, key: &str) -> BTreeMap<String, u64> {
        redis::cmd("HGETALL").arg(key).query(&mut self.redis.client()).expect("counts")
    }

    /// Returns the jobs of a class that have run.
    fn ran(&self, class: &str) -> u64 {
        let by = self.counts("by").into_iter();
        by.filter(|(key, _)| key.split(' ').nth(1) == Some(class)).map(|(_, count)| count).sum()
    }

    fn assert_each_ran_once(&self, count: usize) {
        let ran = self.counts("ran");
        assert_eq!(ran.len(), count);
        let repeated: Vec<_> = ran.iter().filter(|(_, runs)| **runs != 1).collect();
        assert!(repeated.is_empty(), "{repeated:?}");
    }
}

pub(super) const ON: &str = "mode = \"on\"\nmove_jobs = true";

/// Returns the process of the group for a limited class with its threads.
pub(super) fn serving(weir: &Weir) -> Option<(i64, u64)> {
    let groups = json(weir, &["workers", "list"]);
    let group = groups.as_array()?.iter().find(|group| group["name"] == "sidekiq-limited")?;
    let workers = group["workers"].as_array()?;
    let running = workers.iter().find(|worker| worker["state"] == "running")?;
    Some((running["pid"].as_i64()?, group["values"]["in_force"]["threads"].as_u64()?))
}

pub(super) fn is_limited(weir: &Weir, class: &str) -> bool {
    let status = status(weir);
    status["limits"].as_array().expect("a list").iter().any(|limit| limit["class"] == class)
}

pub(super) fn wait_for_sidekiq(weir: &Weir) {
    wait_until("it sees Sidekiq", || status(weir)["groups"][0]["threads"] == 4);
}

#[test]
fn a_value_by_hand_moves_a_class_and_a_killed_weir_leaves_no_job_behind() {
    const JOBS: usize = 4_000;
    const LIMITED: &str = "default_limited_Import";
    let Some(servers) = servers() else { return };
    let weir = servers.site(ON).start();
    wait_for_sidekiq(&weir);
    json(&weir, &["autopilot", "override", "1", "--class", "Import", "--for", "1h"]);
    wait_until("a process serves the class", || serving(&weir).is_some());
    let (pid, threads) = serving(&weir).expect("a process");
    assert_eq!(threads, 1);
    // Its connection was taken from the others: there are no more in all.
    let groups = json(&weir, &["workers", "list"]);
    let of = groups.as_array().expect("a list").iter().find(|group| group["name"] == "sidekiq");
    assert_eq!(of.expect("the group")["values"]["in_force"]["threads"], 3);
    servers.push(&["Import", "Mail"], JOBS);
    wait_until("the others have run", || servers.ran("Mail") == JOBS as u64 / 2);
    assert!(servers.length(LIMITED) > 0, "the class had to wait");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let moved = metrics
        .lines()
        .find_map(|line| line.strip_prefix("weir_autopilot_moved_jobs_total{direction=\"out\"} "));
    assert!(moved.is_some_and(|jobs| jobs.parse().is_ok_and(|jobs: u64| jobs > 0)), "{metrics}");
    wait_until("its process runs jobs", || {
        servers.counts("by").contains_key(&format!("{pid} Import"))
    });
    assert!(!servers.counts("by").contains_key(&format!("{pid} Mail")));
    // The next service process goes on.
    let service = weir.service();
    kill_process(service, Signal::KILL).expect("killed");
    wait_until("another service process limits the class", || {
        let arguments = ["autopilot", "status", "--data-dir", "data"];
        !is_running(service)
            && weir.site.run(&arguments).status.success()
            && is_limited(&weir, "Import")
    });
    assert_eq!(serving(&weir).map(|(pid, _)| pid), Some(pid));
    assert!(servers.length(LIMITED) > 0);
    // Nobody limits it any more.
    let site = weir.kill_parent();
    let settings = std::fs::read_to_string(site.path().join("weir.toml")).expect("read");
    let settings = settings.replace("mode = \"on\"", "mode = \"off\"");
    site.write(&settings.replace("move_jobs = true\n", ""));
    let weir = site.start();
    wait_until("all jobs have run", || servers.counts("ran").len() == JOBS);
    wait_until("there is no process for the class", || serving(&weir).is_none());
    servers.assert_each_ran_once(JOBS);
    assert_eq!(servers.length(LIMITED), 0);
    assert!(weir.stop().success());
}

#[test]
fn the_holder_of_a_lock_is_moved_and_brought_back() {
    const JOBS: usize = 160;
    const LIMITED: &str = "default_limited_Hog";
    let Some(servers) = servers() else { return };
    let weir = servers.site(ON).start();
    wait_for_sidekiq(&weir);
    servers.push(&["Hog", "Mail"], JOBS);
    wait_until("it is limited", || is_limited(&weir, "Hog"));
    let first = journal(&weir, "decision").remove(0);
    assert!(first.starts_with("limited Hog to 1 at once"), "{first}");
    let how = "; the waiting jobs of Hog move to default_limited_Hog, served by 1 thread";
    assert!(first.ends_with(how), "{first}");
    wait_until("the others have run", || servers.ran("Mail") == JOBS as u64 / 2);
    assert!(servers.length(LIMITED) > 0, "the holder had to wait");
    let url = format!("redis://127.0.0.1:{}/0", servers.redis.port);
    let shown = weir.site.ok(&["sidekiq", "limited", "--redis", &url]);
    assert!(shown.contains(" of Hog from default; limited now"), "{shown}");
    let other = ["autopilot", "override", "3", "--class", "Mail", "--data-dir", "data"];
    let error = String::from_utf8_lossy(&weir.site.run(&other).stderr).into_owned();
    assert!(error.contains("Hog is limited, and 1 job type at a time can be"), "{error}");
    json(&weir, &["autopilot", "off"]);
    wait_until("they are back", || servers.length(LIMITED) == 0);
    wait_until("all jobs have run", || servers.counts("ran").len() == JOBS);
    servers.assert_each_ran_once(JOBS);
    wait_until("there is no process for the class", || serving(&weir).is_none());
    assert!(weir.stop().success());
}

#[test]
fn without_permission_it_advises_and_names_the_rules() {
    let Some(servers) = servers() else { return };
    let site = servers.site("mode = \"on\"");
    let settings = std::fs::read_to_string(site.path().join("weir.toml")).expect("read");
    let weir = site.start();
    wait_for_sidekiq(&weir);
    let by_type = ["autopilot", "override", "3", "--class", "Import", "--data-dir", "data"];
    let error = String::from_utf8_lossy(&weir.site.run(&by_type).stderr).into_owned();
    assert!(error.contains("autopilot.move_jobs is off"), "{error}");
    let site = weir.end();
    // A user who may read, and take the lease.
    let rules = weir_sidekiq::READ_ONLY_ACL.split(' ');
    let user = [
        "ACL", "SETUSER", "eye", "on", ">secret", "~*", "+select", "+set", "+pexpire", "+del",
        "+eval",
    ];
    servers.redis.run(&[&user.into_iter().chain(rules).collect::<Vec<_>>()]);
    let secret = site.path().join("secret");
    std::fs::write(&secret, "secret").expect("written");
    let port = servers.redis.port;
    let observed = format!("[[observe.redis]]\nurl = \"redis://127.0.0.1:{port}/0\"\n");
    let as_user = format!(
        "[[observe.redis]]\nurl = \"redis://eye@127.0.0.1:{port}/0\"\npassword = {{ file = \"{}\" }}\n",
        secret.display()
    );
    site.write(&settings.replace(&observed, &as_user).replace("mode = \"on\"", ON));
    let weir = site.start();
    wait_for_sidekiq(&weir);
    wait_until("the missing rules are known", || {
        let error = String::from_utf8_lossy(&weir.site.run(&by_type).stderr).into_owned();
        error.contains("ACL SETUSER eye") && error.contains("+ltrim")
    });
    assert_eq!(status(&weir)["limits"].as_array().map(Vec::len), Some(0));
    assert_eq!(status(&weir)["system"], Value::from("sidekiq"));
    let names: Vec<String> =
        redis::cmd("KEYS").arg("weir:limited*").query(&mut servers.redis.client()).expect("keys");
    assert!(names.is_empty(), "{names:?}");
    assert!(weir.stop().success());
}

//! The way from a broken set-up to a healthy one with nothing but what doctor says, and
//! docs/doctor-walk.md, which shows it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::follow::change_of;
use super::page::{without_figures, without_machine_names};
use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, push};
use super::{code, json, run};
use crate::process::wait_until;

const HEAD: &str = "\
# A walk: from broken to healthy

This set-up has a Redis, a freshly installed Postgres and one Sidekiq, configured as in guides of some years ago:
`mailers` is misspelt, no process serves `fasp`, and the pools are larger than the database allows. A test starts it,
makes only the changes that `weir doctor` suggests, and writes this page
(`WEIR_WRITE_DOCS=1 cargo test -p weir --test it doctor::walk`). The [doctor page](doctor.md) explains the terms.
";

/// As many looks as a set-up may need; each does what the one before said.
const LOOKS_MAX: usize = 4;
/// Nothing stands between, whatever another test runs on this machine at the same time. Not shown.
const BESIDES: [&str; 2] = ["--pgbouncer", "0"];
/// What the application pushes to.
const PUSHES: &str = "default,push,ingress,mailers,pull,scheduler,fasp";

/// What a newcomer can change.
struct SetUp {
    redis: RedisServer,
    postgres: PostgresServer,
    sidekiq: Option<Sidekiq>,
    /// Lines added to `postgresql.conf`.
    conf: String,
    queues: Vec<String>,
    web_pool: String,
}

impl SetUp {
    fn start_broken_system() -> Option<Self> {
        let redis = RedisServer::start()?;
        make_healthy(&redis);
        let postgres = PostgresServer::start(&[])?;
        push(&redis, "mailers", "Nap", 300, 3_660.0);
        push(&redis, "fasp", "Nap", 300, 3_660.0);
        push(&redis, "push", "Nap", 3_000, 900.0);
        let queues = ["default", "push", "ingress", "mailer", "pull", "scheduler"];
        let queues = queues.map(str::to_owned).to_vec();
        let conf = String::new();
        let web_pool = "25".to_owned();
        let mut all = Self { redis, postgres, sidekiq: None, conf, queues, web_pool };
        all.start_sidekiq().then_some(all)
    }

    fn start_sidekiq(&mut self) -> bool {
        if let Some(before) = self.sidekiq.take() {
            before.stop();
        }
        let mut arguments = vec!["-c", "5"];
        self.queues.iter().for_each(|queue| arguments.extend(["-q", queue]));
        self.sidekiq = Sidekiq::start(&self.redis, &arguments);
        self.sidekiq.is_some()
    }

    fn arguments(&self) -> Vec<String> {
        let web = format!("web=4x{}", self.web_pool);
        let redis = format!("redis://127.0.0.1:{}/0", self.redis.port);
        let postgres = self.postgres.url("postgres");
        let sources = ["--redis", &redis, "--postgres", &postgres, "--postgres-memory", "4GiB"];
        let more = ["--pushes", PUSHES, "--pool", &web, "--pool", "streaming=1x10"];
        let more = [&more[..], &["--window", "2s"]].concat();
        sources.iter().chain(&more).map(|it| (*it).to_owned()).collect()
    }

    /// Applies the remedy of a finding, and describes the change.
    fn apply_remedy(&mut self, finding: &Value) -> Option<String> {
        let change = change_of(finding).as_object()?;
        let word = |name: &str| change[name].as_str().expect("words").to_owned();
        let (place, line) = (word("place"), word("line"));
        match place.as_str() {
            "postgresql.conf" => self.conf.push_str(&format!("{line}\n")),
            "the environment of web alone" => {
                self.web_pool = line.strip_prefix("DB_POOL=")?.to_owned()
            }
            _ if place.starts_with("all queues of ") => self.change_queues(&line),
            _ => return None,
        }
        Some(format!("{}: `{line}`", without_machine_names(&place)))
    }

    /// Replaces all queues by those in the line.
    fn change_queues(&mut self, line: &str) {
        let queues = line.split("-q ").map(str::trim).filter(|queue| !queue.is_empty());
        self.queues = queues.map(str::to_owned).collect();
    }

    /// Restarts everything that reads the changed settings.
    fn restart(&mut self) {
        self.postgres.restart_including(&self.conf);
        assert!(self.start_sidekiq());
        let waiting = |queue: &str| {
            let length: u64 = ::redis::cmd("LLEN")
                .arg(format!("queue:{queue}"))
                .query(&mut self.redis.client())
                .expect("a number");
            length
        };
        wait_until("all jobs are worked off", || PUSHES.split(',').all(|it| waiting(it) == 0));
    }
}

/// Appends the command and its output to the page.
fn show(page: &mut String, arguments: &[String], said: &str) {
    let servers = |argument: &String| match argument.split_once("://") {
        Some(("redis", _)) => "redis://127.0.0.1:6379/0".to_owned(),
        Some(_) => "postgres://weir@127.0.0.1/mastodon_production".to_owned(),
        None => argument.clone(),
    };
    let arguments: Vec<_> = arguments.iter().map(servers).collect();
    let pairs: Vec<_> = arguments.chunks(2).map(|pair| pair.join(" ")).collect();
    let command = format!("weir doctor {}", pairs.join(" \\\n    "));
    write!(page, "\n```sh\n{command}\n```\n").expect("written");
    match said {
        "" => page.push_str("\nDoctor prints nothing and exits with 0: the set-up is healthy.\n"),
        said => write!(page, "\n```text\n{said}```\n").expect("written"),
    }
}

/// Returns the page, and whether the system is healthy at its end.
fn walk(set_up: &mut SetUp) -> String {
    let mut page = HEAD.to_owned();
    for _ in 0..LOOKS_MAX {
        let arguments = set_up.arguments();
        let all: Vec<&str> = arguments.iter().map(String::as_str).chain(BESIDES).collect();
        let (advice, output) = (json(&all), run(&all));
        let said: Vec<_> =
            String::from_utf8_lossy(&output.stdout).lines().map(without_machine_names).collect();
        let said = said.iter().map(|line| format!("{line}\n")).collect::<String>();
        show(&mut page, &arguments, &said);
        if code(&output) == 0 {
            assert_eq!(said, "", "{page}");
            return page;
        }
        let findings = advice["findings"].as_array().expect("findings");
        let done: Vec<_> = findings.iter().filter_map(|it| set_up.apply_remedy(it)).collect();
        assert_ne!(done.len(), 0, "it says nothing that can be done:\n{page}");
        page.push_str("\nThe suggested changes were made, and the processes that read them were restarted:\n\n");
        done.iter().for_each(|line| page.push_str(&format!("- {line}\n")));
        set_up.restart();
    }
    panic!("still not healthy:\n{page}")
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor-walk.md")
}

#[test]
fn remedies_of_doctor_fix_a_broken_setup() {
    let Some(mut set_up) = SetUp::start_broken_system() else { return };
    let page = walk(&mut set_up);
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so by it")]
    if std::env::var("WEIR_WRITE_DOCS").is_ok() {
        std::fs::write(path(), page).expect("written");
        return;
    }
    let before = std::fs::read_to_string(path()).unwrap_or_default();
    let hint = "docs/doctor-walk.md is out of date (WEIR_WRITE_DOCS=1 writes it)";
    assert_eq!(without_figures(&before), without_figures(&page), "{hint}");
}

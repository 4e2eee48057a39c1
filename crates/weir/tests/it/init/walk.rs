//! A Mastodon-like application that systemd runs, with real Puma, Sidekiq, node, Postgres and Redis: the printed steps
//! to Weir, and the printed way back. A script stands for systemctl; it starts and stops what the units say.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use super::fixtures::{App, PUMA, SIDEKIQ_4_4};
use crate::doctor::postgres_server::PostgresServer;
use crate::doctor::redis_server::{RedisServer, free_port};
use crate::process::{output_of, wait_until};

const QUEUES: [&str; 7] = ["default", "push", "ingress", "mailers", "pull", "scheduler", "fasp"];
const JOBS_PER_QUEUE: usize = 5;

/// A class for each queue. Each job inserts a row.
const JOBS: &str = "require 'sidekiq'\nrequire 'pg'\n\
    redis = { url: \"redis://127.0.0.1:#{ENV.fetch('REDIS_PORT')}/0\" }\n\
    Sidekiq.configure_server { |it| it.redis = redis }\nSidekiq.configure_client { |it| it.redis = redis }\n\
    %w[default push ingress mailers pull scheduler fasp].each do |queue|\n  \
    Object.const_set(queue.capitalize, Class.new do\n    include Sidekiq::Worker\n    sidekiq_options queue: queue\n    \
    define_method(:perform) do |round|\n      \
    db = Thread.current[:db] ||= PG.connect(ENV.fetch('DATABASE'))\n      \
    db.exec_params('INSERT INTO done VALUES ($1, $2, $3)', [queue, round, Process.ppid])\n    end\n  end)\nend\n";

/// `/push/ROUND` pushes jobs to all queues; `/` names the process.
const RACKUP: &str = "require './jobs'\nrun lambda { |env|\n  path = env['PATH_INFO']\n  \
    if path.start_with?('/push/')\n    \
    %w[default push ingress mailers pull scheduler fasp].each { |it| 5.times { Object.const_get(it.capitalize).perform_async(path.split('/').last) } }\n  \
    end\n  [200, { 'Content-Type' => 'text/plain' }, [\"puma #{Process.pid} #{ENV['MAX_THREADS']} #{ENV['DB_POOL']}\\n\"]]\n}\n";

const STREAMING: &str = "require('http').createServer((request, response) => {\n  \
    response.end(`streaming ${request.url} ${process.env.DB_POOL}\\n`);\n\
    }).listen(+process.env.PORT, process.env.BIND || '127.0.0.1');\n";

/// Starts and stops units: `enable --now UNIT..`, `disable --now UNIT..`, `daemon-reload`, `reload UNIT`.
const SYSTEMCTL: &str = r#"#!/bin/sh
verb=$1
case $verb in daemon-reload|reload) exit 0;; esac
shift
[ "$1" = --now ] && shift
file() { case $1 in *@*) echo "$UNITS/${1%@*}@.service";; *) echo "$UNITS/$1.service";; esac; }
value() { sed -n "s/^$2=//p" "$(file "$1")" | sed "s/%i/${1#*@}/g"; }
running() { [ -e "/proc/$1/stat" ] && ! grep -q ') Z' "/proc/$1/stat"; }
start() {
  [ -e "$(file "$1")" ] || { echo "Unit $1.service could not be found." >&2; exit 5; }
  for wanted in $(value "$1" Wants); do
    case $wanted in *@*) start "${wanted%.service}";; esac
  done
  [ "$(value "$1" Type)" = oneshot ] && return
  variables=$(value "$1" Environment | tr '\n' ' ')
  command=$(value "$1" ExecStart)
  (cd "$(value "$1" WorkingDirectory)" && eval "exec env $variables setsid $command" >"$RUN/$1.log" 2>&1 & echo $! >"$RUN/$1.pid")
  [ "$(value "$1" Type)" = notify ] || return 0
  for _ in $(seq 600); do
    grep -q '^weir ready' "$RUN/$1.log" && return 0
    running "$(cat "$RUN/$1.pid")" || { cat "$RUN/$1.log" >&2; exit 1; }
    sleep 0.1
  done
  exit 1
}
stop() {
  for wanted in $(value "$1" Wants); do
    case $wanted in *@*) stop "${wanted%.service}";; esac
  done
  [ -e "$RUN/$1.pid" ] || return 0
  pid=$(cat "$RUN/$1.pid")
  kill -TERM "$pid" 2>/dev/null
  for _ in $(seq 600); do running "$pid" || break; sleep 0.1; done
  rm "$RUN/$1.pid"
}
for unit; do case $verb in enable) start "$unit";; disable) stop "$unit";; *) exit 2;; esac; done
"#;

/// The application with its servers. Dropping it ends all processes.
struct Walk {
    app: App,
    redis: RedisServer,
    postgres: PostgresServer,
    web_port: u16,
    streaming_port: u16,
    front_port: u16,
}

impl Walk {
    /// None, with a message, where a program is missing.
    fn start() -> Option<Self> {
        for (program, package) in [
            ("puma", "puma"),
            ("sidekiq", "ruby-sidekiq"),
            ("node", "nodejs"),
            ("redis-cli", "redis-tools"),
            ("psql", "postgresql-client"),
            ("curl", "curl"),
            ("setsid", "util-linux"),
        ] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!("skipped: there is no {program} (Debian: {package})");
                return None;
            }
        }
        if !Command::new("ruby")
            .args(["-e", "require 'pg'"])
            .output()
            .is_ok_and(|it| it.status.success())
        {
            eprintln!("skipped: Ruby has no pg (Debian: ruby-pg)");
            return None;
        }
        let redis = RedisServer::start_with(|folder, _| {
            let conf = folder.join("redis.conf");
            std::fs::write(&conf, "# settings\n").expect("written");
            vec![conf.display().to_string()]
        })?;
        let postgres = PostgresServer::start(&[])?;
        postgres.run("CREATE TABLE done (queue text, round text, parent int)");
        let [web_port, streaming_port, front_port] = [free_port(), free_port(), free_port()];
        let walk = Self { app: App::new(), redis, postgres, web_port, streaming_port, front_port };
        walk.write_app();
        Some(walk)
    }

    fn write_app(&self) {
        let Self { app, redis, web_port, .. } = self;
        app.write(
            "Gemfile.lock",
            "GEM\n  specs:\n    puma (5.6.5)\n    rails (7.0.8)\n    sidekiq (6.4.1)\n",
        );
        app.version(4, 4);
        app.write("config/sidekiq.yml", SIDEKIQ_4_4);
        app.write("config/puma.rb", PUMA);
        app.write("config.ru", RACKUP);
        app.write("jobs.rb", JOBS);
        app.write("streaming/index.js", STREAMING);
        let environment = format!(
            "REDIS_HOST=127.0.0.1\nREDIS_PORT={}\nDB_HOST=127.0.0.1\nDB_NAME=postgres\nDB_PASS=hunter2-of-this-app\n",
            redis.port
        );
        app.write(".env.production", &environment);
        // Bundler without a network: `bundle exec PROGRAM` is PROGRAM.
        app.write("bin/bundle", "#!/bin/sh\nshift\nexec \"$@\"\n");
        app.write("tools/systemctl", SYSTEMCTL);
        app.write("tools/nginx", "#!/bin/sh\nexit 0\n");
        for program in ["bin/bundle", "tools/systemctl", "tools/nginx"] {
            let path = app.path().join(program);
            assert!(Command::new("chmod").arg("755").arg(path).status().expect("chmod").success());
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), app.path().join("tools/weir"))
            .expect("linked");
        std::fs::create_dir_all(self.run_folder()).expect("made");
        let bundle = app.path().join("bin/bundle").display().to_string();
        let port = format!("Environment=\"PORT={web_port}\"\n");
        app.unit("mastodon-web", &format!("{bundle} exec puma -C config/puma.rb"), &port);
        let pool = "Environment=\"DB_POOL=25\"\n";
        app.unit("mastodon-sidekiq", &format!("{bundle} exec sidekiq -c 25 -r ./jobs.rb"), pool);
        app.unit("mastodon-streaming@", "/usr/bin/node ./streaming", "Environment=\"PORT=%i\"\n");
        let wanting = format!(
            "[Unit]\nWants=mastodon-streaming@{}.service\n[Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=yes\n",
            self.streaming_port
        );
        std::fs::write(app.units().join("mastodon-streaming.service"), wanting).expect("written");
    }

    /// Where the script for systemctl keeps the processes' numbers and output.
    fn run_folder(&self) -> PathBuf {
        self.app.site.path().join("run")
    }

    /// Runs a line of a shell as the administrator would.
    fn sh(&self, line: &str) -> Output {
        let tools = self.app.path().join("tools").display().to_string();
        let script = format!("export PATH=\"{tools}:$PATH\"\n{line}");
        output_of(
            Command::new("sh")
                .args(["-c", &script])
                .current_dir(self.app.site.path())
                .env("UNITS", self.app.units())
                .env("RUN", self.run_folder())
                .env("REDIS_PORT", self.redis.port.to_string())
                .env("DATABASE", self.postgres.url("postgres"))
                .env("WEIR_CONSOLE_LISTEN", "127.0.0.1:0"),
        )
    }

    fn run(&self, line: &str) -> String {
        let output = self.sh(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}\n{error}\n{}", self.logs());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs the commands of a part of weir-steps.txt, in order. Lines with `#` are for people.
    fn run_part(&self, text: &str) {
        let commands = text.lines().filter_map(|line| line.strip_prefix("     "));
        let commands: Vec<&str> = commands.filter(|line| !line.starts_with('#')).collect();
        assert!(commands.len() >= 5, "{text}");
        commands.iter().for_each(|line| drop(self.run(line)));
    }

    fn logs(&self) -> String {
        let files =
            std::fs::read_dir(self.run_folder()).into_iter().flatten().filter_map(Result::ok);
        let logs =
            files.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "log"));
        logs.map(|it| {
            format!("{}\n{}", it.display(), std::fs::read_to_string(&it).unwrap_or_default())
        })
        .collect()
    }

    /// Requests a path; None: nobody listens.
    fn get(port: u16, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: social.example\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.starts_with("HTTP/1.1 200").then_some(text)
    }

    fn wait_for(&self, port: u16, path: &str) -> String {
        let mut seen = None;
        wait_until(&format!("{path} is served at {port}"), || {
            seen = Self::get(port, path);
            seen.is_some()
        });
        seen.expect("it was seen")
    }

    /// Pushes jobs to all queues through a web process, and waits until all are done; returns the parents of the
    /// processes that ran them.
    fn run_jobs(&self, port: u16, round: &str) -> Vec<String> {
        self.wait_for(port, &format!("/push/{round}"));
        let query =
            format!("SELECT queue, count(*) FROM done WHERE round = '{round}' GROUP BY queue");
        wait_until("the jobs of all queues are done", || {
            let rows = self.query(&query);
            let counts: BTreeMap<&str, &str> =
                rows.iter().filter_map(|row| row.split_once('|')).collect();
            QUEUES
                .iter()
                .all(|queue| counts.get(queue) == Some(&JOBS_PER_QUEUE.to_string().as_str()))
        });
        self.query(&format!("SELECT DISTINCT parent FROM done WHERE round = '{round}'"))
    }

    fn query(&self, query: &str) -> Vec<String> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-A", "-t", "-c", query, &self.postgres.url("postgres")]);
        let output = output_of(&mut psql);
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    fn pid(&self, unit: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.run_folder().join(format!("{unit}.pid"))).ok()?;
        Some(text.trim().to_owned())
    }

    fn redis_setting(&self, name: &str) -> String {
        self.run(&format!("redis-cli -p {} CONFIG GET {name}", self.redis.port))
    }

    /// Returns how many living processes of Sidekiq list each queue.
    fn processes_by_queue(&self) -> BTreeMap<String, usize> {
        let mut redis = self.redis.client();
        let processes: Vec<String> =
            ::redis::cmd("SMEMBERS").arg("processes").query(&mut redis).expect("a set");
        let mut counts = BTreeMap::new();
        for process in processes {
            let info: Option<String> =
                ::redis::cmd("HGET").arg(&process).arg("info").query(&mut redis).expect("a field");
            let info: serde_json::Value =
                serde_json::from_str(&info.unwrap_or_default()).unwrap_or_default();
            for queue in
                info["queues"].as_array().into_iter().flatten().filter_map(|it| it.as_str())
            {
                *counts.entry(queue.to_owned()).or_default() += 1;
            }
        }
        counts
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let units =
            std::fs::read_dir(self.run_folder()).into_iter().flatten().filter_map(Result::ok);
        let names: Vec<String> = units
            .filter_map(|it| {
                it.file_name().into_string().ok()?.strip_suffix(".pid").map(str::to_owned)
            })
            .collect();
        self.sh(&format!("systemctl disable --now {}", names.join(" ")));
    }
}

#[test]
fn printed_steps_lead_to_weir_and_back() {
    let Some(mut walk) = Walk::start() else { return };
    walk.run("systemctl enable --now mastodon-web mastodon-streaming mastodon-sidekiq");
    walk.wait_for(walk.streaming_port, "/api/v1/streaming/health");
    walk.run_jobs(walk.web_port, "before");

    let listen = format!("127.0.0.1:{}", walk.front_port);
    let printed = walk.run(&format!(
        "weir init mastodon app --units {} --listen {listen} -- --cores 2 --memory 8GiB",
        walk.app.units().display()
    ));
    let steps = std::fs::read_to_string(walk.app.path().join("weir-steps.txt")).expect("written");
    assert!(printed.ends_with(&steps), "{printed}");
    let (there, back) = steps.split_once("WAY BACK").expect("a way back");
    let appendonly = walk.redis_setting("appendonly");

    // The step that people do by hand: Postgres starts with the planned settings.
    let planned =
        std::fs::read_to_string(walk.app.path().join("postgresql-weir.conf")).expect("written");
    walk.run("systemctl disable --now mastodon-sidekiq");
    walk.postgres.restart_including(&planned);
    assert_eq!(walk.query("SHOW max_connections"), ["200"]);
    walk.run_part(there);

    let response = walk.wait_for(walk.front_port, "/");
    assert!(response.contains("puma ") && response.ends_with(" 5 5\n"), "{response}");
    let response = walk.wait_for(walk.front_port, "/api/v1/streaming/health");
    assert!(response.ends_with("streaming /api/v1/streaming/health 10\n"), "{response}");
    assert_eq!(Walk::get(walk.web_port, "/"), None, "the old web processes have ended");
    let parents = walk.run_jobs(walk.front_port, "weir");
    assert_eq!(
        parents,
        [walk.pid("weir-mastodon").expect("it runs")],
        "Weir started all of Sidekiq"
    );
    let processes = walk.processes_by_queue();
    assert_eq!(processes.get("scheduler"), Some(&1), "{processes:?}");
    assert!(QUEUES.iter().all(|queue| processes.contains_key(*queue)), "{processes:?}");
    assert!(walk.redis_setting("appendonly").contains("yes"));
    assert!(
        walk.run("weir init mastodon app --check")
            .contains("serves the 7 queues of the application")
    );

    walk.run_part(back);
    assert_eq!(Walk::get(walk.front_port, "/"), None, "Weir has ended");
    walk.wait_for(walk.streaming_port, "/api/v1/streaming/health");
    let parents = walk.run_jobs(walk.web_port, "after");
    assert_eq!(parents.len(), 1, "{parents:?}");
    assert_eq!(walk.redis_setting("appendonly"), appendonly);
    assert!(!walk.app.units().join("weir-mastodon.service").exists());
}

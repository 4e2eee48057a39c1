//! Real processes of Sidekiq: of the version that the system has, or of another one whose program
//! `WEIR_SIDEKIQ` names.

use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::redis_server::RedisServer;
use crate::process::{wait_for, wait_until};

/// `Call` waits for a service that does not respond, `Lock` for a file that is locked, `Convert` for a program;
/// `Flaky` fails now and then, with various errors. `Wait` holds a thread, `Spin` a core; `Nap` and `Mark` say that they ran; of `Heavy` one in twenty takes
/// twenty times as long; `Swap` changes two of six rows, in any order, of the database whose address is in
/// Redis.
const WORKER: &str = "require 'sidekiq'\n$stdout.sync = true\n\
    class Wait\n  include Sidekiq::Worker\n  def perform(*)\n    sleep 600\n  end\nend\n\
    class Spin\n  include Sidekiq::Worker\n  def perform(*)\n    loop { }\n  end\nend\n\
    class Nap\n  include Sidekiq::Worker\n  def perform(*)\n    sleep 0.02\n\
    Sidekiq.redis { |it| it.incr('napped') }\n  end\nend\n\
    class Heavy\n  include Sidekiq::Worker\n  def perform(*)\n\
    sleep(rand(20).zero? ? 0.2 : 0.01)\n  end\nend\n\
    class Swap\n  include Sidekiq::Worker\n\
    def perform(*)\n    one, other = (1..6).to_a.sample(2)\n\
    url = Sidekiq.redis { |it| it.get('postgres') }\n\
    db = Thread.current[:db] ||= (require 'pg'; PG.connect(url))\n\
    begin\n      db.transaction do\n\
    db.exec(\"UPDATE rows SET n = n + 1 WHERE id = #{one}\")\n      sleep 0.02\n\
    db.exec(\"UPDATE rows SET n = n + 1 WHERE id = #{other}\")\n      end\n\
    rescue PG::TRDeadlockDetected\n      retry\n    end\n  end\nend\n\
    class Call\n  include Sidekiq::Worker\n  def perform(*)\n\
    require 'net/http'\n    port = Sidekiq.redis { |it| it.get('service') }.to_i\n\
    Net::HTTP.get('127.0.0.1', '/', port)\n  end\nend\n\
    class Lock\n  include Sidekiq::Worker\n  def perform(*)\n\
    path = Sidekiq.redis { |it| it.get('lock') }\n\
    File.open(path, 'w') { |file| file.flock(File::LOCK_EX) }\n  end\nend\n\
    class Convert\n  include Sidekiq::Worker\n  def perform(*)\n\
    system('sleep 120')\n  end\nend\n\
    class Flaky\n  include Sidekiq::Worker\n  def perform(*)\n\
    raise [ArgumentError, IOError, KeyError, EOFError].sample if rand(4) == 0\n  end\nend\n\
    class Mark\n  include Sidekiq::Worker\n  def perform(*)\n\
    Sidekiq.redis { |it| it.set('marked', '1') }\n  end\nend\n";

/// Times are seconds, or milliseconds since version 8.
const AGE: &str = "local function aged(text, field) \
    local all = cjson.decode(text) \
    local unit = all[field] > 1e11 and 1000 or 1 \
    all[field] = all[field] - ARGV[1] * unit \
    return cjson.encode(all) \
    end \
    redis.call('HSET', KEYS[1], 'beat', ARGV[2], 'info', aged(redis.call('HGET', KEYS[1], 'info'), 'started_at')) \
    for _, key in ipairs({KEYS[2], KEYS[3]}) do \
    local works = redis.call('HGETALL', key) \
    for at = 1, #works, 2 do redis.call('HSET', key, works[at], aged(works[at + 1], 'run_at')) end \
    end \
    for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end";

pub(super) struct Sidekiq {
    child: Child,
    folder: TempDir,
    pub(super) identity: String,
}

impl Sidekiq {
    /// Starts a process and waits for its heartbeat; None, with a message, if Sidekiq is not installed.
    pub(super) fn start(redis: &RedisServer, arguments: &[&str]) -> Option<Self> {
        Self::start_with(redis, arguments, &[])
    }

    /// Starts a process with environment variables.
    pub(super) fn start_with(
        redis: &RedisServer,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "other versions are tried by hand")]
        let program = std::env::var("WEIR_SIDEKIQ").unwrap_or_else(|_| "sidekiq".to_owned());
        let mut command = Command::new(program);
        command.args(["-r", "./worker.rb"]).args(arguments).envs(environment.iter().copied());
        Self::start_command(redis, command)
    }

    /// Starts a process with a line that doctor has printed, in a folder as an application has it.
    pub(super) fn start_line(redis: &RedisServer, line: &str) -> Option<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {line}")]);
        Self::start_command(redis, shell)
    }

    fn start_command(redis: &RedisServer, mut command: Command) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("config")).expect("created");
        for (file, text) in [
            ("worker.rb", WORKER),
            ("Gemfile", "gem 'sidekiq'\n"),
            ("config/sidekiq.yml", ":require: ./worker.rb\n"),
        ] {
            std::fs::write(folder.path().join(file), text).expect("written");
        }
        let log = std::fs::File::create(folder.path().join("log")).expect("created");
        command.current_dir(&folder);
        command.env("REDIS_URL", format!("redis://127.0.0.1:{}/0", redis.port));
        command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        let before = identities(redis);
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: there is no sidekiq (Debian: ruby-sidekiq)");
            return None;
        };
        let mut process = Self { child, folder, identity: String::new() };
        wait_until("Sidekiq beats", || {
            let new = identities(redis).into_iter().find(|it| !before.contains(it));
            process.identity = new.unwrap_or_default();
            !process.identity.is_empty()
        });
        Some(process)
    }

    /// Returns its log.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    /// Waits until its heartbeat says that it is quiet.
    pub(super) fn wait_until_quiet(&self, redis: &RedisServer) {
        self.wait_for(redis, "quiet", "true");
    }

    /// Waits until its heartbeat says that this many threads are busy.
    pub(super) fn wait_until_busy(&self, redis: &RedisServer, threads: u32) {
        self.wait_for(redis, "busy", &threads.to_string());
    }

    fn wait_for(&self, redis: &RedisServer, field: &str, value: &str) {
        wait_until("Sidekiq says what it does", || {
            let said: Option<String> = ::redis::cmd("HGET")
                .arg(&[&self.identity, field])
                .query(&mut redis.client())
                .expect("a field");
            said.as_deref() == Some(value)
        });
    }

    /// Changes its data as if it and its jobs had started this many seconds earlier. It sends no more heartbeats.
    pub(super) fn set_age(&self, redis: &RedisServer, seconds: f64) {
        self.signal("-STOP");
        let [of_6, of_7] = ["workers", "work"].map(|it| format!("{}:{it}", self.identity));
        let seconds = seconds.to_string();
        // A stopped process misses its heartbeats: this one lasts for the rest of the test.
        let beat = format!("{}", now(redis) + 3_600.0);
        redis.run(&[&["EVAL", AGE, "3", &self.identity, &of_6, &of_7, &seconds, &beat]]);
    }

    /// Changes its data as if the clock of its host were this many seconds behind. It sends no more heartbeats.
    pub(super) fn set_clock_back(&self, redis: &RedisServer, seconds: f64) {
        self.signal("-STOP");
        let beat = format!("{}", now(redis) - seconds);
        redis.run(&[&["HSET", &self.identity, "beat", &beat], &["EXPIRE", &self.identity, "60"]]);
    }

    /// Stops it together with its running jobs.
    pub(super) fn stop(mut self) {
        self.signal("-TERM");
        wait_for(&mut self.child);
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
    }
}

impl Drop for Sidekiq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the identities of processes with a heartbeat.
fn identities(redis: &RedisServer) -> Vec<String> {
    let mut client = redis.client();
    let all: Vec<String> =
        ::redis::cmd("SMEMBERS").arg("processes").query(&mut client).expect("a set");
    let beats = |identity: &String| {
        let exists: bool =
            ::redis::cmd("EXISTS").arg(identity).query(&mut client).expect("a number");
        exists
    };
    all.into_iter().filter(beats).collect()
}

/// Puts `count` jobs into a queue, as Sidekiq's client does, that were pushed `age` seconds ago.
pub(crate) fn push(redis: &RedisServer, queue: &str, class: &str, count: usize, age: f64) {
    let at = now(redis) - age;
    let job = |number: usize| {
        format!(
            r#"{{"class":"{class}","args":["https://far.example/inbox"],"queue":"{queue}","jid":"{number:024x}","retry":true,"created_at":{at},"enqueued_at":{at}}}"#
        )
    };
    let jobs: Vec<String> = (0..count).map(job).collect();
    let key = format!("queue:{queue}");
    let words: Vec<&str> =
        ["LPUSH", &key].into_iter().chain(jobs.iter().map(String::as_str)).collect();
    redis.run(&[&["SADD", "queues", queue], &words]);
}

/// What a healthy Redis has. Its slow log is off: a machine that is busy with other tests makes any
/// command slow, which is not what is looked for.
pub(super) fn make_healthy(redis: &RedisServer) {
    redis.run(&[
        &["CONFIG", "SET", "appendonly", "yes"],
        &["CONFIG", "SET", "slowlog-log-slower-than", "-1"],
    ]);
}

/// Returns the time of Redis in seconds.
pub(super) fn now(redis: &RedisServer) -> f64 {
    let (seconds, micros): (f64, f64) =
        ::redis::cmd("TIME").query(&mut redis.client()).expect("a time");
    seconds + micros / 1e6
}

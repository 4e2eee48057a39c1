//! A Sidekiq process, started for real.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_sidekiq::{RedisSnapshot, SampleLimits, SampleScope};

use crate::redis_server::RedisServer;

const WORKER: &str = "require 'sidekiq'\n\
    class SlowWorker\n  include Sidekiq::Worker\n  sidekiq_options queue: 'pull'\n\
    def perform(text)\n    sleep 600\n  end\nend\n";
const PUSH: &str = "require './worker'; 5.times { |n| SlowWorker.perform_async(\"secret #{n}\") }; \
    SlowWorker.perform_in(3600, 'later')";
/// Looks before a test gives up: at 100 ms, four heartbeats of Sidekiq 6 and a slow start.
const LOOKS_MAX: usize = 400;

struct Process(Child);

impl Process {
    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn until(
    redis: &RedisServer,
    what: &str,
    seen: impl Fn(&RedisSnapshot) -> bool,
) -> RedisSnapshot {
    for _ in 0..LOOKS_MAX {
        let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
        if seen(&snapshot) {
            return snapshot;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} was not seen in {LOOKS_MAX} looks");
}

#[tokio::test]
async fn a_real_process_is_seen_busy_quiet_and_as_a_ghost() {
    let installed =
        Command::new("sidekiq").arg("--version").output().is_ok_and(|it| it.status.success());
    if !installed {
        eprintln!("skipped: there is no sidekiq (Debian: ruby-sidekiq)");
        return;
    }
    let Some(redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("worker.rb"), WORKER).unwrap();
    let url = format!("redis://127.0.0.1:{}/0", redis.port);
    let mut push = Command::new("ruby");
    push.args(["-e", PUSH]).env("REDIS_URL", &url).current_dir(&folder);
    assert!(push.status().unwrap().success());
    let before = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!(before.queues.unwrap()[0].length, 5);
    assert_eq!(before.scheduled.unwrap().size, 1);

    let mut sidekiq = Command::new("sidekiq");
    sidekiq.args(["-r", "./worker.rb", "-c", "2", "-q", "push", "-q", "pull"]);
    sidekiq.env("REDIS_URL", &url).current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(sidekiq.spawn().unwrap());

    let busy =
        |it: &RedisSnapshot| it.processes.as_ref().unwrap().iter().any(|it| it.work.len() == 2);
    let snapshot = until(&redis, "a process with two jobs in hand", busy).await;
    let seen = &snapshot.processes.as_ref().unwrap()[0];
    assert_eq!((seen.pid, seen.capsules[0].concurrency, seen.quiet), (process.0.id(), 2, false));
    assert_eq!(seen.served().collect::<Vec<_>>(), ["push", "pull"]);
    assert_eq!(seen.work[0].queue, "pull");
    assert_eq!(seen.work[0].job.as_ref().unwrap().class, "SlowWorker");
    let queues = snapshot.queues.as_ref().unwrap();
    assert_eq!((queues[0].name.as_str(), queues[0].length, queues[0].pushed), ("pull", 3, true));
    assert_eq!((queues[1].name.as_str(), queues[1].pushed), ("push", false));
    assert!(!format!("{snapshot:?}").contains("secret"));

    process.signal("-TSTP");
    until(&redis, "a quiet process", |it| it.processes.as_ref().unwrap().iter().any(|it| it.quiet))
        .await;

    process.signal("-KILL");
    let identity = snapshot.processes.unwrap()[0].identity.clone();
    // Its heartbeat expires after a minute; the test takes the minute away, not the ghost.
    redis.run(&[&["PEXPIRE", &identity, "1"]]);
    until(&redis, "a ghost", |it| it.ghosts == [identity.clone()]).await;
}

//! Limits of jobs that run at once, held by workers that outlive the server. And rates, which begin with their burst
//! in each life of the server.
//!
//! A worker counts itself from the reply to its FETCH until it sends the ACK, over all lives of the server. A
//! worker whose FETCH got no reply ends: it has no job, but the server may have reserved one for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::client::{self, Client};
use super::number_from_environment;
use super::server::{Server, Victim};

/// What is limited: a queue, two tenants of another one, and a resource that jobs of two queues use. Their names begin
/// the jids.
const LIMITED: [(&str, u32); 4] = [("queue", 5), ("small", 1), ("large", 2), ("shared", 2)];
/// The place of the resource. Its jobs take longer than a restart of the server, so that workers have some meanwhile.
const SHARED: usize = 3;
const LONG_JOB_MS: u64 = 600;
const WORKERS: u32 = 12;
/// Jobs that end between two kills, so that each life of the server hands some out.
const JOBS_PER_LIFE: u64 = 4;
const JOBS: u64 = 300;
const RETRY: Duration = Duration::from_millis(5);
/// Bounds a failure: a worker that has ended keeps its slot for `heartbeat_timeout`.
const TRIES: u32 = 12_000;

const SETTINGS: &str = r#"heartbeat_timeout = "6s"
advanced.fetch_wait = "250ms"
[jobs.queues.limited]
concurrency = 5
[jobs.queues.tenants]
fair_by = "/args/0"
tenant_concurrency = 1
tenants.large.concurrency = 2
[jobs.queues.rated]
fair_by = "/args/0"
rate = "1/h burst 5"
tenant_rate = "1/h burst 3"
[jobs.resources.shared]
concurrency = 2
types = ["Shared"]
queues = ["pool-b"]
"#;

/// The tenants of the queue `rated`.
const RATED: [&str; 2] = ["rated-a", "rated-b"];
/// Jobs that start in one life of the server: of each of them, and of the queue.
const TENANT_BURST: u64 = 3;
const QUEUE_BURST: u64 = 5;

/// What the workers share.
#[derive(Debug, Default)]
struct Fleet {
    /// In the order of [`LIMITED`].
    running: [AtomicU32; 4],
    running_max: [AtomicU32; 4],
    /// Jobs that ended, without those with a rate: a burst of them must not end a life of the server.
    done: AtomicU64,
    /// In the order of [`RATED`].
    started: [AtomicU64; 2],
    /// Numbers of workers, which are never reused.
    next: AtomicU32,
    over: AtomicBool,
}

impl Fleet {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn run_job(&self, jid: &str, random: &mut fastrand::Rng) {
        if let Some(nth) = RATED.iter().position(|name| jid.starts_with(name)) {
            self.started[nth].fetch_add(1, Ordering::SeqCst);
            return;
        }
        let nth = LIMITED.iter().position(|(name, _)| jid.starts_with(name)).expect("a known jid");
        let running = self.running[nth].fetch_add(1, Ordering::SeqCst) + 1;
        self.running_max[nth].fetch_max(running, Ordering::SeqCst);
        let took_max = if nth == SHARED { LONG_JOB_MS } else { 25 };
        std::thread::sleep(Duration::from_millis(random.u64(0..took_max)));
        self.running[nth].fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the most that ran at once, in the order of [`LIMITED`].
    fn most(&self) -> [u32; 4] {
        self.running_max.each_ref().map(|most| most.load(Ordering::SeqCst))
    }

    fn wait_for_jobs(&self, more: u64) {
        let wanted = self.done.load(Ordering::SeqCst) + more;
        self.wait_until(|| self.done.load(Ordering::SeqCst) >= wanted);
    }

    fn wait_until(&self, is_reached: impl Fn() -> bool) {
        for _ in 0..TRIES {
            if is_reached() {
                return;
            }
            std::thread::sleep(RETRY);
        }
        panic!("too few jobs ran: {self:?}");
    }
}

/// Connects as `wid`, as soon as there is a server. `None`: the test is over.
fn connect(address: SocketAddr, wid: &str, fleet: &Fleet) -> Option<Client> {
    while !fleet.is_over() {
        if let Some(client) = Client::connect(address, wid) {
            return Some(client);
        }
        std::thread::sleep(RETRY);
    }
    None
}

/// Runs workers one after the other, each until a FETCH gets no reply.
fn work(address: SocketAddr, fleet: &Fleet, mut random: fastrand::Rng) -> Option<()> {
    while !fleet.is_over() {
        let wid = format!("limited-{}", fleet.next.fetch_add(1, Ordering::SeqCst));
        let mut client = connect(address, &wid, fleet)?;
        let beat = format!(r#"BEAT {{"wid":"{wid}"}}"#);
        while let Some(reply) = client
            .try_send_command(&beat)
            .and_then(|_| client.try_send_command("FETCH limited tenants rated pool-a pool-b"))
        {
            if fleet.is_over() {
                return None;
            }
            let Some(jid) = client::jid_in_reply(&reply) else { continue };
            fleet.run_job(&jid, &mut random);
            while client.ack(&jid).as_deref() != Some("OK") {
                client = connect(address, &wid, fleet)?;
            }
        }
    }
    None
}

#[test]
fn a_limit_of_jobs_at_once_holds_while_the_server_is_killed() {
    let kills = number_from_environment("WEIR_CRASH_KILLS", 8);
    let mut random = fastrand::Rng::with_seed(number_from_environment("WEIR_CRASH_SEED", 1));
    let mut server = Server::start_with(SETTINGS);
    let mut producer = Client::connect(server.address(), "producer").expect("it is up");
    let job = |number: u64, name: &str| {
        let (queue, jobtype) = match name {
            "queue" => ("limited", "L"),
            // By its type in one queue, and as any job of the other.
            "shared" if number.is_multiple_of(2) => ("pool-a", "Shared"),
            "shared" => ("pool-b", "L"),
            rated if RATED.contains(&rated) => ("rated", "L"),
            _ => ("tenants", "L"),
        };
        let jid = format!("{name}-{number:06}");
        format!(r#"{{"jid":"{jid}","jobtype":"{jobtype}","args":["{name}"],"queue":"{queue}"}}"#)
    };
    let numbers = 0..JOBS + kills * 50;
    let names = || LIMITED.map(|(name, _)| name).into_iter().chain(RATED);
    let jobs = numbers.flat_map(|number| names().map(move |name| job(number, name)));
    for jobs in jobs.collect::<Vec<_>>().chunks(500) {
        let push = format!("PUSHB [{}]", jobs.join(","));
        assert_eq!(producer.try_send_command(&push).as_deref(), Some("{}"));
    }
    let fleet = Arc::new(Fleet::default());
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (fleet, random, address) = (Arc::clone(&fleet), random.fork(), server.address());
            std::thread::spawn(move || work(address, &fleet, random))
        })
        .collect();
    for _ in 0..kills {
        fleet.wait_for_jobs(JOBS_PER_LIFE);
        // What makes the moment random; nothing waits for it.
        std::thread::sleep(Duration::from_millis(random.u64(0..40)));
        let victim = if random.bool() { Victim::Everything } else { Victim::Service };
        server.kill(victim);
        server.restart(victim);
    }
    // The kills may have left every life too short for as many jobs at once as a limit allows. A quarter of it has no
    // records, and is not used after a kill.
    let reached = |(most, (_, limit)): (u32, (&str, u32))| most >= limit - limit / 4;
    fleet.wait_until(|| fleet.most().into_iter().zip(LIMITED).all(reached));
    fleet.wait_until(|| fleet.started.iter().all(|started| started.load(Ordering::SeqCst) > 0));
    fleet.over.store(true, Ordering::SeqCst);
    for worker in workers {
        let _ = worker.join().expect("a worker");
    }
    let (most, done) = (fleet.most(), fleet.done.load(Ordering::SeqCst));
    println!("{kills} kills, {done} jobs, at most {most:?} at once");
    let started = fleet.started.each_ref().map(|started| started.load(Ordering::SeqCst));
    println!("{started:?} starts of tenants with a rate");
    let (lives, all) = (kills + 1, started.iter().sum::<u64>());
    assert!(started.iter().all(|started| *started <= TENANT_BURST * lives), "{started:?}");
    assert!(all <= QUEUE_BURST * lives, "{started:?}");
    let is_within = |(most, (_, limit)): (u32, (&str, u32))| most <= limit;
    assert!(most.into_iter().zip(LIMITED).all(is_within), "a limit was exceeded: {most:?}");
    server.stop();
}

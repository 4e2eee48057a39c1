//! What the tests share: the server's address, unique names, a worker that hands its jobs to the test.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use faktory::{Client, Job, Worker, WorkerId};
use tokio::sync::mpsc;

/// Longest wait for anything; the original moves due jobs every 5 s.
const DEADLINE: Duration = Duration::from_secs(30);
/// Jobs a worker may hand over before the test takes them.
const HANDED_OVER_MAX: usize = 1000;

pub fn url() -> String {
    env::var("WEIR_JOBS_URL").expect("WEIR_JOBS_URL is not set: start these tests with e2e/run")
}

/// A server with a password; the runner leaves the tests that need it out when there is none.
pub fn password_url() -> String {
    env::var("WEIR_JOBS_PASSWORD_URL")
        .expect("WEIR_JOBS_PASSWORD_URL is not set: `--skip password`")
}

/// Whether the server is the original Faktory: the tests then prove that they test the protocol.
pub fn is_original() -> bool {
    env::var("WEIR_E2E_ORIGINAL").is_ok_and(|value| value == "1")
}

/// A queue, job type or worker id that no other test uses.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{:016x}", rand::random::<u64>())
}

pub async fn client() -> Client {
    Client::connect_to(&url()).await.expect("the server is up")
}

/// A job of a type of its own in `queue`.
pub fn job(queue: &str, args: Vec<serde_json::Value>) -> Job {
    Job::new("echo", args).on_queue(queue)
}

/// A worker that hands over each job of type `echo` and fails those of type `boom`.
pub struct TestWorker {
    pub wid: String,
    worker: Option<Worker<io::Error>>,
    handed_over: mpsc::Receiver<Job>,
}

impl TestWorker {
    pub async fn connect() -> Self {
        let wid = unique("wid");
        let (sender, handed_over) = mpsc::channel(HANDED_OVER_MAX);
        let worker = Worker::builder::<io::Error>()
            .wid(WorkerId::new(&wid))
            .register_fn("echo", move |job: Job| {
                let sender = sender.clone();
                async move { sender.send(job).await.map_err(io::Error::other) }
            })
            .register_fn("boom", |_job| async {
                Err(io::Error::other("boom: ünïcödé"))
            })
            .connect_to(&url())
            .await
            .expect("the server is up");
        Self {
            wid,
            worker: Some(worker),
            handed_over,
        }
    }

    /// Runs one job of `queue`; false when there is none (the server waits about 2 s for one).
    pub async fn run_one(&mut self, queue: &str) -> bool {
        let worker = self
            .worker
            .as_mut()
            .expect("the worker is not running by itself");
        worker
            .run_one(0, &[queue])
            .await
            .expect("the server answers")
    }

    /// Runs one job of `queue`, which must be there and of type `echo`, and returns it.
    pub async fn run_echo(&mut self, queue: &str) -> Job {
        assert!(self.run_one(queue).await, "queue {queue} is empty");
        self.handed_over
            .try_recv()
            .expect("the job was of type echo")
    }

    /// Waits until a job comes into `queue`, and runs it.
    pub async fn wait_and_run_echo(&mut self, queue: &str) -> Job {
        let start = Instant::now();
        while !self.run_one(queue).await {
            assert!(
                start.elapsed() < DEADLINE,
                "waited {DEADLINE:?} for a job in {queue}"
            );
        }
        self.handed_over
            .try_recv()
            .expect("the job was of type echo")
    }

    /// Lets the worker run by itself, with its own heartbeats, until the server ends it.
    pub fn start(&mut self, queue: &str) -> tokio::task::JoinHandle<faktory::StopDetails> {
        let mut worker = self.worker.take().expect("the worker is not running yet");
        let queue = queue.to_owned();
        tokio::spawn(async move {
            worker
                .run(&[queue])
                .await
                .expect("no error until told to stop")
        })
    }

    /// The next job that the started worker ran.
    pub async fn next_job(&mut self) -> Job {
        let next = tokio::time::timeout(DEADLINE, self.handed_over.recv()).await;
        next.expect("a job in time").expect("the worker lives")
    }
}

/// Sends one command on a producer's connection of its own and returns the lines of the reply: for what the
/// crate has no call for.
pub fn raw_command(command: &str) -> String {
    raw("{\"v\":2}", command)
}

/// The same as worker `wid`.
pub fn raw_worker_command(wid: &str, command: &str) -> String {
    raw(
        &format!("{{\"v\":2,\"wid\":\"{wid}\",\"hostname\":\"e2e\",\"pid\":1,\"labels\":[]}}"),
        command,
    )
}

fn raw(hello: &str, command: &str) -> String {
    let mut stream = TcpStream::connect(url().replace("tcp://", "")).expect("the server is up");
    stream
        .set_read_timeout(Some(DEADLINE))
        .expect("a positive timeout");
    let script = format!("HELLO {hello}\n{command}\nEND\n");
    stream
        .write_all(script.as_bytes())
        .expect("the server reads");
    let lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("text"));
    // The greeting and the answer to HELLO come first.
    lines.skip(2).collect::<Vec<_>>().join("\n")
}

/// Checks what the original is known to do worse: there `holds` must be false, which shows that the
/// test can tell.
pub fn assert_unless_original(holds: bool, what: &str) {
    assert_eq!(holds, !is_original(), "{what}");
}

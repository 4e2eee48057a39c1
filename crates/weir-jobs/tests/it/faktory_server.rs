//! A whole server on port 0 and a client that speaks in lines: `> ` is sent, `< ` is expected.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_jobs::handle::Handle;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{
    JobServerOptions, JobServerOutcome, JobServerStop, RunningJobServer, start,
};
use weir_jobs::settings::{JobServerSettings, StoreKind};

/// Long enough for a busy machine; a test that gets so far has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The stores that every case of the protocol runs over.
pub(crate) const STORES: [StoreKind; 2] = [StoreKind::Memory, StoreKind::Embedded];

/// A running server. Dropping it ends it.
pub(crate) struct Server {
    running: Option<RunningJobServer>,
    stop: JobServerStop,
    pub(crate) address: SocketAddr,
    pub(crate) registry: Registry,
    runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Over `store`, with settings changed by `change`.
    pub(crate) fn start(store: StoreKind, change: impl FnOnce(&mut JobServerSettings)) -> Self {
        Self::start_with(store, None, Clock::system(), change)
    }

    pub(crate) fn start_with(
        store: StoreKind,
        tls: Option<std::sync::Arc<weir_net::Tls>>,
        clock: Clock,
        change: impl FnOnce(&mut JobServerSettings),
    ) -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let mut settings = JobServerSettings {
            store,
            directory: directory.path().join("jobs"),
            ..JobServerSettings::default()
        };
        settings.limits.fetch_wait = Duration::from_millis(50);
        change(&mut settings);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut registry = Registry::default();
        let metrics = JobsMetrics::register(&mut registry, &settings.limits);
        let stop = JobServerStop {
            graceful: CancellationToken::new(),
            at_once: CancellationToken::new(),
            deadline: PATIENCE,
        };
        let running = start(JobServerOptions {
            console: String::new(),
            external: None,
            listeners: vec![listener],
            settings,
            clock,
            tracer: Default::default(),
            metrics,
            tls,
            stop: stop.clone(),
        })
        .expect("the server starts");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self {
            running: Some(running),
            stop,
            address,
            registry,
            runtime: runtime.expect("a runtime"),
            _directory: directory,
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.running.as_ref().expect("it runs").handle()
    }

    /// Runs `future` to its end.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// A connection that has said nothing yet.
    pub(crate) fn dial(&self) -> Client {
        Client::new(TcpStream::connect(self.address).expect("a connection"))
    }

    /// A producer's connection after its HELLO.
    pub(crate) fn producer(&self) -> Client {
        let mut client = self.dial();
        client.talk("< +HI {\"v\":2}\n> HELLO {\"v\":2}\n< +OK");
        client
    }

    /// A worker's connection after its HELLO.
    pub(crate) fn worker(&self, wid: &str) -> Client {
        let mut client = self.dial();
        let hello = format!("HELLO {{\"v\":2,\"wid\":\"{wid}\",\"hostname\":\"h\",\"pid\":7}}");
        client.talk(&format!("< +HI {{\"v\":2}}\n> {hello}\n< +OK"));
        client
    }

    pub(crate) fn stop_gracefully(&self) {
        self.stop.graceful.cancel();
    }

    pub(crate) fn stop_at_once(&self) {
        self.stop.at_once.cancel();
    }

    /// Waits for the end.
    pub(crate) fn join(mut self) -> JobServerOutcome {
        let running = self.running.take().expect("it runs");
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, running.join()).await.expect("it ends in time")
        })
    }

    pub(crate) fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("it encodes");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.graceful.cancel();
        self.stop.at_once.cancel();
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.join());
        }
    }
}

/// One client connection.
pub(crate) struct Client<IO = TcpStream> {
    stream: BufReader<IO>,
}

impl Client {
    /// A connection that has said nothing yet.
    pub(crate) fn dial(address: &str) -> Self {
        Self::new(TcpStream::connect(address).expect("a connection"))
    }

    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

impl<IO: Read + Write> Client<IO> {
    pub(crate) fn over(io: IO) -> Self {
        Self { stream: BufReader::new(io) }
    }

    /// Plays a script. `> text` sends a line, `>> text` a line that ends in a bare `\n`,
    /// `< pattern` expects a reply (`*` stands for anything; a bulk is `$` and its text), `< closed`
    /// the end of the connection, `# ` is a comment.
    pub(crate) fn talk(&mut self, script: &str) {
        for line in
            script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            if let Some(text) = line.strip_prefix(">> ") {
                self.send(format!("{text}\n").as_bytes());
            } else if let Some(text) = line.strip_prefix('>') {
                self.send(format!("{}\r\n", text.strip_prefix(' ').unwrap_or(text)).as_bytes());
            } else {
                let wanted = line.strip_prefix("< ").expect("a line is > or <");
                let got = self.reply();
                assert!(matches(wanted, &got), "in\n{script}\nwanted {wanted}\ngot    {got}");
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server reads");
    }

    /// Sends as much as the server takes before it closes.
    pub(crate) fn send_what_is_taken(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(64 << 10) {
            if self.stream.get_mut().write_all(chunk).is_err() {
                return;
            }
        }
    }

    /// The next reply: `+..`, `-..`, `$-1`, `$` and the bulk's text, an array as `[` its replies `]`,
    /// or `closed`.
    pub(crate) fn reply(&mut self) -> String {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => return "closed".to_owned(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return "closed".to_owned(),
            Err(error) => panic!("no reply: {error}"),
        }
        let line = String::from_utf8(line).expect("a reply is text");
        let line = line.strip_suffix("\r\n").expect("a reply ends in CR LF").to_owned();
        if let Some(count) = line.strip_prefix('*') {
            let count: usize = count.parse().expect("a count");
            let replies: Vec<String> = (0..count).map(|_| self.reply()).collect();
            return format!("[{}]", replies.join(" "));
        }
        let Some(length) = line.strip_prefix('$').filter(|length| *length != "-1") else {
            return line;
        };
        let mut bulk = vec![0; length.parse::<usize>().expect("a length") + 2];
        self.stream.read_exact(&mut bulk).expect("a whole bulk");
        assert!(bulk.ends_with(b"\r\n"), "a bulk ends in CR LF");
        bulk.truncate(bulk.len() - 2);
        format!("${}", String::from_utf8_lossy(&bulk))
    }
}

/// Whether `text` is what `pattern` says; `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// Asks until `check` holds.
#[expect(clippy::disallowed_methods, reason = "patience of a test, not behaviour of the server")]
pub(crate) fn until(what: &str, mut check: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < end, "{what}: not in time");
        std::thread::yield_now();
    }
}

#[test]
fn patterns_match_as_the_cases_expect() {
    assert!(matches("+OK", "+OK"));
    assert!(!matches("+OK", "+OKAY"));
    assert!(matches("$*\"a\":1*", "${\"a\":1}"));
    assert!(matches("-ERR *x", "-ERR malformed x"));
    assert!(!matches("-ERR *x*y", "-ERR y x"));
}

//! A whole console: a job server over the memory store, a history in a temporary folder, and a
//! browser that keeps its cookies and reads forms.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use weir_access::metrics::AuditMetrics;
use weir_access::{AuditEntry, AuditLog, AuditQuery};
use weir_base::clock::{Clock, Timestamp};
use weir_base::history;
use weir_base::secret::Secret;
use weir_console::front::{AppControl, FrontSource};
use weir_console::gems::GemIndex;
use weir_console::live::Live;
use weir_console::observed::{ObservedSnapshots, ObservedSource};
use weir_console::settings::ConsoleSettings;
use weir_console::{
    Accounts, DemoControl, Deps, Histories, JobsSource, RealtimeSource, Routes, router,
};
use weir_jobs::handle::Handle;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{JobServerOptions, JobServerStop, RunningJobServer};
use weir_jobs::settings::{JobServerLimits, StoreKind};

pub(crate) const PASSWORD: &str = "correct horse battery staple";
pub(crate) const TOKEN: &str = "a-token-of-the-admin-api";

/// Long enough for a busy machine; a test that gets so far has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) deps: Deps,
    pub(crate) clock: Clock,
    pub(crate) jobs_address: SocketAddr,
    /// Of the job server.
    pub(crate) metrics: JobsMetrics,
    handle: Handle,
    router: Router,
    stop: JobServerStop,
    _running: RunningJobServer,
    _directory: tempfile::TempDir,
}

impl Site {
    pub(crate) fn open() -> Self {
        Self::with(|_| {})
    }

    /// With a password and an API token.
    pub(crate) fn guarded() -> Self {
        Self::with(|settings| {
            settings.password = Some(Secret::new(PASSWORD));
            settings.token = Some(Secret::new(TOKEN));
        })
    }

    pub(crate) fn with(change: impl FnOnce(&mut ConsoleSettings)) -> Self {
        Self::with_parts(change, |_, _| None)
    }

    /// With channels, too, on the clock and in the folder that `realtime` is given.
    pub(crate) fn with_parts(
        change: impl FnOnce(&mut ConsoleSettings),
        realtime: impl FnOnce(&Clock, &Path) -> Option<RealtimeSource>,
    ) -> Self {
        let mut settings = ConsoleSettings::default();
        change(&mut settings);
        let directory = tempfile::tempdir().expect("a folder");
        let stop = JobServerStop {
            graceful: CancellationToken::new(),
            at_once: CancellationToken::new(),
            deadline: TIMEOUT,
        };
        let (running, jobs_address, metrics) = job_server(&stop);
        let clock = Clock::manual(Clock::system().now());
        let folder = directory.path();
        let handle = running.handle();
        let deps = deps(handle.clone(), settings, clock.clone(), folder, jobs_address);
        let deps = Deps { realtime: realtime(&clock, folder), ..deps };
        Self {
            router: router(deps.clone()),
            deps,
            clock,
            jobs_address,
            metrics,
            handle,
            stop,
            _running: running,
            _directory: directory,
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// As where Weir was started without the job server.
    pub(crate) fn without_jobs(&mut self) {
        self.deps.jobs = None;
        self.router = router(self.deps.clone());
    }

    pub(crate) fn directory(&self) -> &Path {
        self._directory.path()
    }

    /// Returns all entries of the audit log, the newest first.
    pub(crate) fn audit(&self) -> Vec<AuditEntry> {
        self.deps.audit.read(&AuditQuery::default()).expect("read").entries
    }

    /// With an autopilot, too.
    pub(crate) fn set_autopilot(&mut self, autopilot: weir_autopilot::AutopilotHandle) {
        self.deps.autopilot = Some(autopilot);
        self.router = router(self.deps.clone());
    }

    /// With apps, too.
    pub(crate) fn with_apps(apps: Arc<dyn AppControl>) -> Self {
        let mut site = Self::open();
        let directory = site._directory.path().to_owned();
        let history = history::HistorySettings { directory, ..history::HistorySettings::default() };
        site.deps.front = Some(FrontSource::new(apps, &history));
        site.router = router(site.deps.clone());
        site
    }

    /// With looks at a Sidekiq, too.
    pub(crate) fn with_observed(watched: Arc<dyn ObservedSnapshots>) -> Self {
        let mut site = Self::open();
        let directory = site._directory.path().to_owned();
        let history = history::HistorySettings { directory, ..history::HistorySettings::default() };
        let minutes_kept = Duration::from_secs(86_400);
        let histories = Histories {
            settings: history.clone(),
            queues_max: site.deps.settings.limits.chart_queues_max,
            metrics: site.deps.live.metrics(),
        };
        site.deps.observed = Some(ObservedSource::new(watched, histories, minutes_kept));
        site.router = router(site.deps.clone());
        site
    }

    /// With an index of gems, too.
    pub(crate) fn with_gems(index: Arc<dyn GemIndex>) -> Self {
        let mut site = Self::open();
        site.deps.gems = Some(index);
        site.router = router(site.deps.clone());
        site
    }

    /// Pushes jobs; each must be taken.
    pub(crate) async fn push(&self, jobs: impl IntoIterator<Item = String>) {
        let jobs: Vec<Vec<u8>> = jobs.into_iter().map(String::into_bytes).collect();
        let wanted = jobs.len() as u64;
        let pushed = self.handle().push(jobs).await.expect("a push");
        assert_eq!(pushed.accepted, wanted, "{:?}", pushed.rejected);
    }

    /// What the console has counted.
    pub(crate) fn limit_hits(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.deps.live.metrics().register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text
    }

    /// A browser without cookies.
    pub(crate) fn browser(&self) -> Browser {
        Browser {
            router: self.router.clone(),
            cookies: BTreeMap::new(),
            host: "127.0.0.1:7420".to_owned(),
            client: "127.0.0.1:50000".parse().expect("an address"),
        }
    }

    /// A connection to the job server after its HELLO; `wid` makes it a worker's.
    pub(crate) fn faktory(&self, wid: &str) -> Faktory {
        let wid = if wid.is_empty() { String::new() } else { format!(",\"wid\":\"{wid}\"") };
        self.faktory_with(&wid)
    }

    /// The same with other members of HELLO.
    pub(crate) fn faktory_with(&self, members: &str) -> Faktory {
        let stream = TcpStream::connect(self.jobs_address).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut faktory = Faktory { lines: BufReader::new(stream) };
        assert!(faktory.line().starts_with("+HI"));
        faktory.ask(&format!("HELLO {{\"v\":2,\"hostname\":\"box\",\"pid\":42{members}}}"));
        faktory
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.at_once.cancel();
    }
}

fn job_server(stop: &JobServerStop) -> (RunningJobServer, SocketAddr, JobsMetrics) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut settings =
        weir_jobs::settings::JobServerSettings { store: StoreKind::Memory, ..Default::default() };
    settings.limits.fetch_wait = Duration::from_millis(50);
    let metrics = JobsMetrics::register(&mut Registry::default(), &settings.limits);
    let running = weir_jobs::server::start(JobServerOptions {
        console: String::new(),
        external: None,
        listeners: vec![listener],
        tracer: Default::default(),
        metrics: metrics.clone(),
        settings,
        clock: Clock::system(),
        tls: None,
        stop: stop.clone(),
    });
    (running.expect("the job server starts"), address, metrics)
}

fn deps(
    handle: Handle,
    settings: ConsoleSettings,
    clock: Clock,
    directory: &std::path::Path,
    jobs_address: SocketAddr,
) -> Deps {
    let history_settings = history::HistorySettings {
        directory: directory.to_owned(),
        ..history::HistorySettings::default()
    };
    let live = Live::new(&settings.limits);
    let histories = Histories {
        settings: history_settings.clone(),
        queues_max: settings.limits.chart_queues_max,
        metrics: live.metrics(),
    };
    let jobs = JobsSource::new(
        handle.clone(),
        JobServerLimits::default(),
        &format!("tcp://{jobs_address}"),
        histories,
    );
    let text = |text: &'static str| axum::routing::get(move || async move { text });
    let audit =
        AuditLog::open(&directory.join("audit"), 1 << 20, clock.clone(), AuditMetrics::default());
    let audit = audit.expect("a thread");
    Deps {
        accounts: Accounts::new(&settings),
        routes: Routes {
            api: weir_admin::jobs::router(handle.clone())
                .nest("/jobs", weir_admin::jobs::router(handle))
                .merge(weir_admin::audit::router(audit.clone())),
            metrics: Router::new().route("/metrics", text("weir_up 1\n")),
            open: Router::new().route("/health", text("ok\n")),
        },
        audit,
        jobs: Some(jobs),
        live,
        clock,
        settings,
        realtime: None,
        front: None,
        gems: None,
        observed: None,
        autopilot: None,
        demo: DemoControl {
            worker_label: "demo-label",
            flood_job: || {
                br#"{"jid":"flood-0001","jobtype":"Flood","queue":"floods","args":[]}"#.to_vec()
            },
        },
    }
}

/// The job server's wire protocol, as far as tests need it.
pub(crate) struct Faktory {
    lines: BufReader<TcpStream>,
}

impl Faktory {
    /// Sends a line and reads the reply: a simple one's text, or a bulk's content.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.lines.get_mut().write_all(format!("{line}\r\n").as_bytes()).expect("a write");
        let reply = self.line();
        match reply.strip_prefix('$') {
            Some("-1") => String::new(),
            Some(_) => self.line(),
            None => reply,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

/// What a browser sends and keeps.
#[derive(Clone)]
pub(crate) struct Browser {
    router: Router,
    pub(crate) cookies: BTreeMap<String, String>,
    pub(crate) host: String,
    pub(crate) client: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Browser {
    pub(crate) async fn get(&mut self, path: &str) -> Page {
        self.send(self.request(Method::GET, path), Body::empty()).await
    }

    /// Sends a form as it stands: no CSRF token is added.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = form(fields);
        self.send(self.request(Method::POST, path), Body::from(body)).await
    }

    /// Reads the CSRF token from `page` and sends the form with it.
    pub(crate) async fn submit(
        &mut self,
        page: &Page,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Page {
        let csrf = page.csrf();
        let fields: Vec<_> =
            [("csrf", csrf.as_str())].into_iter().chain(fields.iter().copied()).collect();
        self.post(path, &fields).await
    }

    pub(crate) async fn log_in(&mut self) -> Page {
        let page = self.get("/login").await;
        self.submit(&page, "/login", &[("password", PASSWORD), ("next", "/retries")]).await
    }

    pub(crate) async fn log_in_as(&mut self, user: &str, password: &str) -> Page {
        let page = self.get("/login").await;
        self.submit(&page, "/login", &[("user", user), ("password", password)]).await
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/x-www-form-urlencoded")
            .extension(ConnectInfo(self.client));
        if !self.host.is_empty() {
            request = request.header("host", &self.host);
        }
        if cookies.is_empty() { request } else { request.header("cookie", cookies.join("; ")) }
    }

    pub(crate) async fn send(&mut self, request: axum::http::request::Builder, body: Body) -> Page {
        let request = request.body(body).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        for cookie in parts.headers.get_all("set-cookie") {
            let cookie = cookie.to_str().expect("text");
            let (pair, rest) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (name, value) = pair.split_once('=').expect("a pair");
            if rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let bytes = body.collect().await.expect("a body").to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Page { status: parts.status, headers: parts.headers, text }
    }

    /// The answer's parts without reading its body to the end: for streams.
    pub(crate) async fn open(&self, path: &str) -> axum::response::Response {
        let request = self.request(Method::GET, path).body(Body::empty()).expect("a request");
        self.router.clone().oneshot(request).await.expect("an answer")
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

impl Page {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn csrf(&self) -> String {
        self.values("name=\"csrf\" value=\"").into_iter().next().expect("a form with a token")
    }

    /// The keys of the listed jobs.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.values("name=\"key\" value=\"")
    }

    /// The address of the next page.
    pub(crate) fn next(&self) -> Option<String> {
        self.values("rel=\"next\" href=\"").into_iter().next()
    }

    /// What stands between `start` and the next quote, wherever it is.
    pub(crate) fn values(&self, start: &str) -> Vec<String> {
        let rest = self.text.split(start).skip(1);
        rest.filter_map(|rest| rest.split('"').next()).map(unescape).collect()
    }

    #[track_caller]
    pub(crate) fn assert_shows(&self, text: &str) {
        assert!(self.text.contains(text), "{text:?} is missing in {} {}", self.status, self.text);
    }
}

fn unescape(text: &str) -> String {
    text.replace("&#38;", "&")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&#60;", "<")
        .replace("&#62;", ">")
}

/// Asks until the answer is there; a bounded wait for what another thread does.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let tries = TIMEOUT.as_millis() / 20;
    for _ in 0..tries {
        if let Some(response) = ask().await {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not happen");
}

/// A job's JSON.
pub(crate) fn job(jid: &str, jobtype: &str, queue: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"{jobtype}","queue":"{queue}","args":[1]}}"#)
}

/// The same, scheduled far ahead.
pub(crate) fn later(jid: &str, jobtype: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"{jobtype}","args":[1],"at":"2999-01-01T00:00:00Z"}}"#)
}

/// A moment as seconds.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.as_secs_f64()
}

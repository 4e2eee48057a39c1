//! The page of the front, over apps that are made up.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use http_body_util::BodyExt;
use weir_base::shutdown::ShutdownToken;
use weir_console::front::{AppCommand, AppCommandError, AppControl, FrontApp, FrontWorker};
use weir_console::sampler::Sampler;
use weir_front::Distribution;
use weir_front::view::{ReasonCount, TotalsView};

use crate::site::{Site, TIMEOUT, eventually};

/// Apps that only remember what they are told.
#[derive(Debug, Default)]
struct Apps {
    apps: Mutex<Vec<FrontApp>>,
    orders: Mutex<Vec<AppCommand>>,
    refusal: Mutex<Option<String>>,
}

impl AppControl for Apps {
    fn apps(&self) -> Vec<FrontApp> {
        self.apps.lock().expect("apps").clone()
    }

    fn execute(
        &self,
        command: AppCommand,
    ) -> Pin<Box<dyn Future<Output = Result<(), AppCommandError>> + Send>> {
        let refusal = self.refusal.lock().expect("a refusal").clone();
        if refusal.is_none() {
            self.orders.lock().expect("orders").push(command);
        }
        Box::pin(async move { refusal.map_or(Ok(()), |why| Err(AppCommandError(why))) })
    }
}

impl Apps {
    fn new(apps: Vec<FrontApp>) -> Arc<Self> {
        Arc::new(Self { apps: Mutex::new(apps), ..Self::default() })
    }

    fn change(&self, change: impl FnOnce(&mut FrontApp)) {
        change(&mut self.apps.lock().expect("apps")[0]);
    }
}

fn worker(number: u32, state: &str) -> FrontWorker {
    FrontWorker {
        number: Some(number),
        pid: Some(4_000 + i32::try_from(number).expect("few")),
        address: Some(format!("unix:/run/shop/{number}.sock")),
        state: state.to_owned(),
        age: Some(Duration::from_secs(75)),
        ..FrontWorker::default()
    }
}

fn shop() -> FrontApp {
    FrontApp {
        name: "shop".to_owned(),
        processes: Some(2),
        can_dump: true,
        workers: vec![worker(0, "serving"), worker(1, "serving")],
        ..FrontApp::default()
    }
}

#[tokio::test]
async fn without_the_front_there_is_no_front_page() {
    let site = Site::open();
    let mut browser = site.browser();
    for path in ["/front", "/live/front", "/front/chart?series=shop.waiting&seconds=9"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        assert!(page.text.contains("he front is not served by this Weir"), "{path}: {}", page.text);
        assert!(!page.text.contains("href=\"/front\""), "{path}");
    }
}

#[tokio::test]
async fn without_an_app_the_page_says_what_to_write() {
    let site = Site::with_apps(Apps::new(Vec::new()));
    let mut browser = site.browser();
    let page = browser.get("/front").await;
    page.assert_shows("[[front.apps]]");
    page.assert_shows("weir init front");
    assert!(!page.text.contains("data-chart") && !page.text.contains("/front/act"));
    let chart = browser.get("/front/chart?series=shop.waiting&seconds=9").await;
    assert_eq!(chart.status, StatusCode::NOT_FOUND);
    assert!(!browser.get("/").await.text.contains("<dt>App workers serving</dt>"));
}

#[tokio::test]
async fn an_app_is_shown_with_its_queue_and_its_workers() {
    let mut app = shop();
    app.requests_waiting = 7;
    app.is_paused = true;
    app.is_in_maintenance = true;
    app.shedding = vec!["ingress".to_owned()];
    app.shed_unknown = vec!["mailers".to_owned()];
    app.rolling = Some("running (1 done)".to_owned());
    app.evictions = 4;
    app.totals = TotalsView {
        responses: 12_345,
        server_errors: 6,
        rejections: vec![
            ReasonCount { reason: "queue_max", count: 3 },
            ReasonCount { reason: "overload", count: 0 },
        ],
        failures: vec![ReasonCount { reason: "broken", count: 2 }],
        ..TotalsView::default()
    };
    app.workers[1] = FrontWorker {
        requests: 1,
        streams: 2,
        assigned: 1_234,
        oldest_request: Some(Duration::from_millis(2_300)),
        pss_bytes: Some(300 << 20),
        recycled: Some("older than 12 h".to_owned()),
        restarts: 9,
        ..worker(1, "unreachable")
    };
    let problem = Some("no <such> app\u{202e}".to_owned());
    app.workers.push(FrontWorker {
        number: Some(2),
        state: "failed".into(),
        problem,
        ..FrontWorker::default()
    });
    let site = Site::with_apps(Apps::new(vec![app]));
    let page = site.browser().get("/front").await;
    for shown in [
        "<dt>Waiting</dt><dd>7</dd>",
        "shop <span class=\"tag warning\">paused</span>",
        "<span>Responses since start</span> 12,345</li>",
        "<span>of these 5xx</span> 6</li>",
        "<span>Rejected</span> queue full (queue_max) 3</li>",
        "<span>No response</span> connection closed by the worker (broken) 2</li>",
        "<span>Evicted</span> 4</li>",
        "<span>Latest rolling restart</span> running (1 done)</li>",
        "<span class=\"muted small\">pid 4000, for 1 min 15 s</span>",
        "<td data-label=\"State\">serving</td>",
        "<td data-label=\"State\"><span class=\"tag warning\">unreachable</span></td>",
        "data-label=\"In progress\">1 <span class=\"muted\">+ 2 streams</span></td>",
        "data-label=\"Oldest\">2.3 s</td>",
        "data-label=\"Memory\">300.0 MiB</td>",
        "data-label=\"Memory\">–</td>",
        "Worker 1 is being replaced: older than 12 h",
        "<span class=\"tag warning\">in maintenance</span>",
        "End maintenance<span class=\"hidden\"> of shop</span>",
        "<span>Shedding requests for queue</span> ingress</li>",
        "<span>Not shedding, latency unknown of queue</span> mailers</li>",
        "data-label=\"Assigned\">1,234</td>",
        "data-label=\"Restarts\">9</td>",
        "no &#60;such&#62; app\\u202e",
        "Resume<span class=\"hidden\"> shop</span>",
        "Restart<span class=\"hidden\"> worker 2 of shop</span>",
        "Dump<span class=\"hidden\"> worker 2 of shop</span>",
        "<dt>Jain index</dt><dd>–</dd>",
    ] {
        page.assert_shows(shown);
    }
}

#[tokio::test]
async fn job_workers_have_no_request_queue() {
    let running = FrontWorker { pss_bytes: Some(1 << 30), address: None, ..worker(0, "running") };
    let app = FrontApp { runs_jobs: true, workers: vec![running], ..shop() };
    let apps = Apps::new(vec![FrontApp { name: "mailers".into(), ..app }]);
    let page = Site::with_apps(apps).browser().get("/front").await;
    page.assert_shows("mailers <span class=\"tag\">job workers</span>");
    page.assert_shows("data-label=\"State\">running</td>");
    page.assert_shows("data-label=\"Memory\">1.0 GiB</td>");
    page.assert_shows("Restart all<span class=\"hidden\"> workers of mailers</span>");
    page.assert_shows("value=\"scale\"");
    for absent in ["Queue time", "<dt>Waiting</dt>", "value=\"pause\"", "data-chart"] {
        assert!(!page.text.contains(absent), "{absent}");
    }
}

#[tokio::test]
async fn externally_run_workers_have_no_buttons() {
    let address = Some("unix:/run/shop/0.sock".to_owned());
    let worker = FrontWorker { address, state: "serving".into(), ..FrontWorker::default() };
    let app = FrontApp { name: "shop".into(), workers: vec![worker], ..FrontApp::default() };
    let site = Site::with_apps(Apps::new(vec![app]));
    let page = site.browser().get("/front").await;
    page.assert_shows("unix:/run/shop/0.sock");
    page.assert_shows("Pause<span class=\"hidden\"> shop</span>");
    for absent in ["value=\"restart\"", "value=\"dump\"", "value=\"scale\""] {
        assert!(!page.text.contains(absent), "{absent}");
    }
}

#[tokio::test]
async fn apps_with_shared_sockets_cannot_be_paused() {
    let shared_sockets = Some("127.0.0.1:8081, selection join-idle".to_owned());
    let page = Site::with_apps(Apps::new(vec![FrontApp { shared_sockets, ..shop() }]));
    let page = page.browser().get("/front").await;
    page.assert_shows("<span>Shared sockets</span> 127.0.0.1:8081, selection join-idle</li>");
    page.assert_shows("Restart all<span class=\"hidden\"> workers of shop</span>");
    page.assert_shows("value=\"scale\"");
    let absents =
        ["value=\"pause\"", "value=\"maintenance\"", "Responses since start", "No response"];
    for absent in absents {
        assert!(!page.text.contains(absent), "{absent}");
    }
}

#[tokio::test]
async fn front_figures_cover_a_minute_and_are_charted() {
    let apps = Apps::new(vec![shop()]);
    let site = Site::with_apps(Arc::clone(&apps) as Arc<dyn AppControl>);
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let mut browser = site.browser();
    // What was before the first reading is no news.
    let is_first = async || {
        site.clock.advance(Duration::from_secs(1));
        let page = browser.get("/front").await;
        page.text.contains("data-live=\"front_waiting\">0<").then_some(())
    };
    eventually(is_first).await;
    apps.change(|app| {
        let lengths = |millis| Distribution::from_durations(&[Duration::from_millis(millis); 10]);
        app.totals = TotalsView {
            responses: 3_000,
            rejections: vec![ReasonCount { reason: "queue_max", count: 5 }],
            queue_times: lengths(80),
            service_times: lengths(400),
            ..TotalsView::default()
        };
        app.requests_waiting = 2;
        app.evictions = 1;
        (app.workers[0].assigned, app.workers[0].waited) = (30, Duration::from_secs(3));
    });
    let page = eventually(async || {
        site.clock.advance(Duration::from_secs(1));
        let page = browser.get("/live/front").await;
        page.text.contains("<dt>Jain index</dt><dd>0.50</dd>").then_some(page)
    })
    .await;
    page.assert_shows(
        "<div class=\"tile bad\"><dt>Rejected <span>(queue full)</span></dt><dd>5</dd>",
    );
    page.assert_shows("<div class=\"tile bad\"><dt>Evicted</dt><dd>1</dd>");
    // 80 ms, as nearly as they are kept.
    page.assert_shows("<dt>Queue time <span>p99</span></dt><dd>78 ms</dd>");
    page.assert_shows("data-label=\"Queue time\">100 ms</td>");
    page.assert_shows(
        "The app shop is overloaded: 2 requests wait, 5 requests rejected in a minute (queue full)",
    );
    assert!(!page.text.contains("<dt>Requests</dt><dd>0/s</dd>"), "{}", page.text);
    let page = browser.get("/").await;
    page.assert_shows("<dt>Requests waiting</dt><dd>2</dd>");
    let mut events = browser.open("/events").await.into_body();
    let tick = events.frame().await.expect("a tick").expect("a frame").into_data().expect("data");
    assert!(String::from_utf8_lossy(&tick).contains("\"front_waiting\":2"));
    let path = "/front/chart?series=shop.waiting,shop.jain_index&seconds=60";
    eventually(async || browser.get(path).await.text.contains("2.0").then_some(())).await;
    let page = browser.get("/front/chart?series=cart.waiting&seconds=60").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn a_worker_without_a_dump_signal_has_no_dump_button() {
    let site = Site::with_apps(Apps::new(vec![FrontApp { can_dump: false, ..shop() }]));
    let page = site.browser().get("/front").await;
    assert!(!page.text.contains("value=\"dump\"") && page.text.contains("value=\"restart\""));
}

#[tokio::test]
async fn app_commands_need_the_csrf_token() {
    let apps = Apps::new(vec![shop()]);
    let site = Site::with_apps(Arc::clone(&apps) as Arc<dyn AppControl>);
    let mut browser = site.browser();
    let page = browser.get("/front").await;
    let app = || "shop".to_owned();
    let cases = [
        (&[("do", "restart")][..], AppCommand::Restart { app: app(), worker: None }),
        (
            &[("do", "restart"), ("worker", "1")],
            AppCommand::Restart { app: app(), worker: Some(1) },
        ),
        (&[("do", "dump"), ("worker", "1")], AppCommand::Dump { app: app(), worker: 1 }),
        (&[("do", "scale"), ("processes", "5")], AppCommand::Scale { app: app(), processes: 5 }),
        (&[("do", "pause")], AppCommand::Pause { app: app() }),
        (&[("do", "resume")], AppCommand::Resume { app: app() }),
        (&[("do", "maintenance")], AppCommand::Maintenance { app: app(), is_on: true }),
        (&[("do", "serve")], AppCommand::Maintenance { app: app(), is_on: false }),
    ];
    for (fields, order) in cases {
        let fields = [&[("app", "shop")][..], fields].concat();
        let forged = browser.post("/front/act", &fields).await;
        assert_eq!(forged.status, StatusCode::FORBIDDEN);
        let response = browser.submit(&page, "/front/act", &fields).await;
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{order:?}");
        assert_eq!(apps.orders.lock().expect("orders").drain(..).collect::<Vec<_>>(), [order]);
        browser.get(response.header("location")).await.assert_shows("class=\"flash\"");
    }
    for wrong in [
        &[("app", "shop"), ("do", "dump")][..],
        &[("app", "shop"), ("do", "restart"), ("worker", "two")],
        &[("app", "shop"), ("do", "scale"), ("processes", "many")],
        &[("app", "shop"), ("do", "anything")],
        &[("do", "pause")],
    ] {
        let response = browser.submit(&page, "/front/act", wrong).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{wrong:?}");
    }
    let response = browser.submit(&page, "/front/act", &[("app", "cart"), ("do", "pause")]).await;
    assert_eq!(response.status, StatusCode::NOT_FOUND);
    *apps.refusal.lock().expect("a refusal") = Some("too many orders wait".to_owned());
    let response = browser.submit(&page, "/front/act", &[("app", "shop"), ("do", "pause")]).await;
    assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
    response.assert_shows("Too many orders wait");
    assert_eq!(apps.orders.lock().expect("orders").len(), 0);
}

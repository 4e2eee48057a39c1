//! The pages of realtime, over channels with real sockets.

mod channels;
mod escaping;
mod tail;

use axum::http::StatusCode;
use http_body_util::BodyExt;
use serde_json::json;
use weir_base::shutdown::ShutdownToken;
use weir_console::sampler::Sampler;
use weir_realtime::settings::SlowClients;

use self::channels::{Channels, SECRET};
use crate::site::{Page, Site, TIMEOUT, eventually};

const PAGES: [&str; 6] =
    ["/connections", "/channels", "/channel?app=1&name=a", "/apps", "/switches", "/live/channels"];

/// The channels that a page lists, in order.
fn listed(page: &Page) -> Vec<String> {
    page.values("href=\"/channel?app=1&#38;name=")
}

#[tokio::test]
async fn without_realtime_there_are_no_realtime_pages() {
    let site = Site::open();
    let mut browser = site.browser();
    for path in PAGES {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        page.assert_shows("Realtime is not served by this Weir");
        assert!(!page.text.contains("href=\"/connections\""), "{path}");
    }
}

#[tokio::test]
async fn without_jobs_realtime_is_shown_alone() {
    let mut channels = Channels::open();
    channels.site.without_jobs();
    let _client = channels.subscriber("a");
    let site = &channels.site;
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let mut browser = site.browser();
    let page = browser.get("/").await;
    page.assert_shows("Realtime is well: 1 connection");
    page.assert_shows("<dt>Subscriptions</dt><dd><a href=\"/channels\">1</a></dd>");
    for absent in ["href=\"/queues\"", "FAKTORY_URL", "Waiting", "data-chart"] {
        assert!(!page.text.contains(absent), "{absent}");
    }
    for path in [
        "/queues",
        "/queue?name=a",
        "/retries",
        "/workers",
        "/job?jid=a",
        "/chart?series=dead&seconds=9",
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        assert!(page.text.contains("obs are not served by this Weir"), "{path}: {}", page.text);
    }
    eventually(async || {
        let page = browser.get("/connections").await;
        page.text.contains("data-live=\"connections\">1<").then_some(())
    })
    .await;
    let mut events = browser.open("/events").await.into_body();
    let tick = events.frame().await.expect("a tick").expect("a frame").into_data().expect("data");
    let tick = String::from_utf8_lossy(&tick).into_owned();
    assert!(tick.contains("\"connections\":1") && !tick.contains("enqueued"), "{tick}");
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn a_console_without_parts_says_so() {
    let mut site = Site::open();
    site.without_jobs();
    let page = site.browser().get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("Only the console is served here");
}

#[tokio::test]
async fn connections_are_shown_by_app_and_by_core() {
    let channels = Channels::with(|_| {}, |_, app| app.connections_max = 8);
    let clients = [channels.subscriber("a"), channels.subscriber("b"), channels.client()];
    let mut browser = channels.site.browser();
    let page = browser.get("/connections").await;
    page.assert_shows("<dt>Open</dt><dd>3</dd>");
    page.assert_shows("data-label=\"Connections\">3 <span class=\"muted\">/ 8</span>");
    page.assert_shows("data-label=\"Share of limit\">38 %");
    page.assert_shows("<dt>Subscriptions</dt><dd>2</dd>");
    page.assert_shows("data-source=\"/realtime/chart\"");
    drop(clients);
    eventually(async || {
        let page = browser.get("/live/connections").await;
        let is_counted = page.text.contains(
            "by the client, or the network</td><td class=\"number\" data-label=\"Connections\">3<",
        );
        is_counted.then_some(())
    })
    .await;
}

#[tokio::test]
async fn connections_are_charted_and_a_full_app_is_critical() {
    let channels = Channels::with(|_| {}, |_, app| app.connections_max = 1);
    let site = &channels.site;
    let _client = channels.subscriber("a");
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let mut browser = site.browser();
    eventually(async || {
        site.clock.advance(std::time::Duration::from_secs(1));
        let page = browser.get("/realtime/chart?series=connections,subscriptions&seconds=60").await;
        page.text.contains("1.0").then_some(())
    })
    .await;
    let page = browser.get("/realtime/chart?series=nothing&seconds=60").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    for path in ["/", "/connections"] {
        eventually(async || {
            let page = browser.get(path).await;
            page.text.contains("App 1 has had all its 1 connections for").then_some(())
        })
        .await;
    }
    // The badge of the navigation is the live stream's.
    let page = browser.get("/workers").await;
    page.assert_shows("data-live=\"connections\">1</span>");
    page.assert_shows("<a class=\"alarm critical\"");
    shutdown.request();
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn slow_clients_are_shown_with_their_channel() {
    let channels = Channels::with(
        |_| {},
        |_, app| {
            app.slow_clients = SlowClients::DropOldest;
            app.client_queue_bytes_max = 50_000;
        },
    );
    let deaf = channels.subscriber("flood");
    let _other = channels.subscriber("quiet");
    let mut browser = channels.site.browser();
    let data = "x".repeat(10_000);
    // The kernel's buffers take some megabytes first.
    eventually(async || {
        (0..100).for_each(|_| channels.publish("flood", "e", &data));
        (channels.hub.channel_view("1", "flood")?.slowed > 0).then_some(())
    })
    .await;
    assert_eq!(channels.hub.channel_view("1", "quiet").expect("there").slowed, 0);
    // Figures of the whole are told at the end of a core's turn.
    for path in ["/connections", "/"] {
        eventually(async || {
            let page = browser.get(path).await;
            page.text.contains("<dt>Slow clients</dt><dd>1</dd>").then_some(())
        })
        .await;
    }
    let page = browser.get("/channels?prefix=flood").await;
    page.assert_shows("<td class=\"number late\" data-label=\"Slow clients\">");
    drop(deaf);
    eventually(async || {
        let page = browser.get("/connections").await;
        page.text.contains("<dt>Slow clients</dt><dd>0</dd>").then_some(())
    })
    .await;
}

#[tokio::test]
async fn channels_are_listed_by_subscribers_and_searched_by_prefix() {
    let channels = Channels::with(|settings| settings.limits.page_channels = 2, |_, _| {});
    let names = ["news", "news", "news-late", "chat", "chat", "chat"];
    let _clients: Vec<_> = names.map(|name| channels.subscriber(name)).into();
    let mut browser = channels.site.browser();
    let page = browser.get("/channels").await;
    assert_eq!(listed(&page), ["chat", "news"]);
    page.assert_shows("3 channels; the 2 with the most subscribers are shown");
    let page = browser.get("/channels?app=1&prefix=news").await;
    assert_eq!(listed(&page), ["news", "news-late"]);
    page.assert_shows("<p class=\"muted\">2 channels</p>");
    let live = page.values("data-fragment=\"").remove(0);
    assert_eq!(listed(&browser.get(&live).await), ["news", "news-late"]);
    browser.get("/channels?prefix=none").await.assert_shows("No channel name has this prefix.");
    let page = browser.get("/channels?app=2").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_channel_page_has_figures_history_and_members() {
    let channels = Channels::with(|settings| settings.limits.page_members = 2, |_, _| {});
    let info = json!({ "name": "Ada" });
    let _clients: Vec<_> = ["ada", "grace", "alan", "ada"]
        .map(|user| channels.member("presence-room", user, &info))
        .into();
    for number in 1..=3 {
        channels.publish("presence-room", "said", &format!("number {number}"));
    }
    let mut browser = channels.site.browser();
    let page = browser.get("/channel?app=1&name=presence-room").await;
    page.assert_shows("<dt>Subscribers</dt><dd>4</dd>");
    page.assert_shows("<dt>Users</dt><dd>3</dd>");
    page.assert_shows("<dt>Published</dt><dd>3</dd>");
    page.assert_shows("<dt>Events</dt><dd>0.30/s</dd>");
    let at = |text: &str| page.text.find(text).expect(text);
    assert!(at("number 3") < at("number 1"), "the newest first");
    page.assert_shows("3 users");
    page.assert_shows("<td>alan</td>");
    page.assert_shows("{&#34;name&#34;:&#34;Ada&#34;}");
    assert!(!page.text.contains("<td>grace</td>"));
    let next = browser.get(&page.next().expect("another page")).await;
    next.assert_shows("<td>grace</td>");
    assert!(next.next().is_none());

    let page = browser.get("/channel?app=1&name=nobody-knows").await;
    page.assert_shows("The channel has no subscribers and no history");
    let page = browser.get("/channel?app=1&name=a%20b").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    let page = browser.get("/channel?app=9&name=a").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_test_event_needs_the_csrf_token() {
    let channels = Channels::open();
    let mut client = channels.subscriber("news");
    let mut browser = channels.site.browser();
    let form = browser.get("/channel/publish?app=1&name=news").await;
    form.assert_shows("1 subscriber");
    let fields = [("app", "1"), ("name", "news"), ("event", "hello"), ("data", "{\r\n}")];
    let refused = browser.post("/channel/publish", &fields).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(channels.hub.channel_view("1", "news").expect("there").published, 0);
    let done = browser.submit(&form, "/channel/publish", &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER);
    assert_eq!(client.read("hello")["data"], "{\n}");
    let page = browser.get(done.header("location")).await;
    page.assert_shows("The event was sent to 1 subscriber.");

    let reserved = [("app", "1"), ("name", "news"), ("event", "pusher:error"), ("data", "1")];
    let refused = browser.submit(&form, "/channel/publish", &reserved).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    refused.assert_shows("names beginning with pusher:");
}

#[tokio::test]
async fn event_switches_need_the_csrf_token() {
    let channels = Channels::open();
    let mut browser = channels.site.browser();
    let page = browser.get("/switches").await;
    page.assert_shows("Nothing is switched off.");
    let off = [("pattern", "typing*"), ("for", "1h"), ("action", "off")];
    assert_eq!(browser.post("/switches/act", &off).await.status, StatusCode::FORBIDDEN);
    let now = channels.site.clock.now();
    assert!(!channels.hub.switches().is_off("typing-start", now));
    let done = browser.submit(&page, "/switches/act", &off).await;
    assert!(channels.hub.switches().is_off("typing-start", now));
    let hour = std::time::Duration::from_secs(3_600);
    assert!(!channels.hub.switches().is_off("typing-start", now + hour));
    let page = browser.get(done.header("location")).await;
    page.assert_shows("Events named typing* are switched off.");
    page.assert_shows("data-label=\"Until\">in 1 h<");

    let publish = [("app", "1"), ("name", "news"), ("event", "typing-start"), ("data", "1")];
    let sent = browser.submit(&page, "/channel/publish", &publish).await;
    let sent = browser.get(sent.header("location")).await;
    sent.assert_shows("The event was not sent: its name is switched off.");

    let on = [("pattern", "typing*"), ("action", "on")];
    let done = browser.submit(&page, "/switches/act", &on).await;
    let page = browser.get(done.header("location")).await;
    page.assert_shows("Events named typing* are switched on.");
    page.assert_shows("Nothing is switched off.");
    for wrong in [
        &[("action", "off")][..],
        &[("pattern", "a")],
        &[("pattern", "a"), ("for", "9y"), ("action", "off")],
    ] {
        let refused = browser.submit(&page, "/switches/act", wrong).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{wrong:?}");
    }
}

#[tokio::test]
async fn apps_are_shown_with_their_settings_and_without_secrets() {
    let channels = Channels::with(
        |_| {},
        |settings, app| {
            settings.limits.channels_max = 1;
            app.history.events_max = 77_000;
        },
    );
    channels.publish("a", "e", "1");
    let mut browser = channels.site.browser();
    let page = browser.get("/apps").await;
    page.assert_shows("<dt>history.events_<wbr>max<wbr></dt><dd class=\"breakable\">77,000</dd>");
    page.assert_shows(
        "<dt>realtime.limits.channels_<wbr>max<wbr></dt><dd class=\"breakable\">1</dd>",
    );
    page.assert_shows("No limit has been reached since start.");
    assert!(!page.text.contains(SECRET));

    let fields = [("app", "1"), ("name", "b"), ("event", "e"), ("data", "1")];
    let form = browser.get("/channel/publish?app=1&name=b").await;
    let refused = browser.submit(&form, "/channel/publish", &fields).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    refused.assert_shows("realtime.limits.channels_max");
    let page = browser.get("/live/apps").await;
    page.assert_shows("realtime.limits.channels_max</th>");
    page.assert_shows("data-label=\"Since start\">1<");
}

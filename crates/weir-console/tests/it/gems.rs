//! The pages of gems, over an index that holds some.

use std::sync::Arc;

use axum::http::StatusCode;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::{Off, Switches};
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::settings::{MirrorSettings, UpstreamSettings};
use weir_gems::mirror::{Mirror, MirrorParts, Scope as Look};
use weir_gems::operations::KeyWanted;
use weir_gems::release::{Checksum, Dependencies, Identity, Release};
use weir_gems::store::mirror::{MirroredGem, Noted, Refusal};
use weir_gems::store::{ImportedGem, Scope, SqliteSettings, SqliteStore};
use weir_gems::{Files, Gems, GemsMetrics, GemsParts, MirrorMetrics};

use crate::site::Site;

fn release(number: &str, dependencies: &str) -> Release {
    Release {
        identity: Identity {
            number: number.parse().expect("a version"),
            platform: "ruby".parse().expect("a platform"),
        },
        dependencies: dependencies.parse::<Dependencies>().expect("dependencies"),
        checksum: Checksum([0xab; 32]),
        ruby: Some(">= 2.7".parse().expect("a requirement")),
        rubygems: None,
        created_at: Clock::system().now(),
    }
}

/// An index with these gems, a key, and something that is off.
async fn index(folder: &std::path::Path, names: Vec<String>) -> Arc<Gems> {
    let clock = Clock::system();
    let now = clock.now();
    let store = SqliteStore::open(&SqliteSettings::new(folder.join("index.db")), now);
    let switches = Arc::new(Switches::default());
    let off = Off { pattern: "speci*".parse().expect("a pattern"), since_us: 0, until_us: None };
    switches.turn_off(off, now).expect("off");
    let index = Gems::new(GemsParts {
        store: store.expect("a store").into(),
        files: Files::open(folder.join("files")).expect("a folder"),
        settings: Arc::default(),
        clock,
        metrics: GemsMetrics::register(&mut Registry::default()),
        switches,
    });
    let gems = names.into_iter().map(|name| ImportedGem {
        name: name.parse().expect("a name"),
        releases: vec![release("1.0", ""), release("2.0", "rack:>= 2&< 3,rake:>= 0")],
    });
    let gems: Vec<_> = gems.collect();
    index.store().import(Box::new(gems.into_iter()), &Clock::manual(now)).await.expect("imported");
    let wanted = KeyWanted {
        name: "<ci>".to_owned(),
        scopes: vec![Scope::PushRubygem],
        gems: vec!["shop-*".parse().expect("a pattern")],
        expires_after: None,
    };
    index.create_key(wanted).await.expect("a key");
    index
}

#[tokio::test]
async fn gems_are_listed_in_pages_and_show_their_requirements() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = (0..250).map(|number| format!("shop-{number:03}")).chain(["rack".to_owned()]);
    let site = Site::with_gems(index(folder.path(), names.collect()).await);
    let mut browser = site.browser();
    let page = browser.get("/gems").await;
    for text in ["251 gems in the index", "200 of 251 gems", ">rack</a>", "<code>speci*</code>"] {
        page.assert_shows(text);
    }
    // A key is shown, and its name escaped.
    for text in ["&#60;ci&#62;", "push_rubygem", "shop-*", "never"] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("weir_"), "no key's text is known");
    let page = browser.get(&page.next().expect("more")).await;
    page.assert_shows(">shop-249</a>");
    assert_eq!(page.next(), None, "it is the last one");

    let page = browser.get("/gems?search=RACK").await;
    page.assert_shows("1 gem<");
    let page = browser.get("/gem?name=rack").await;
    for text in
        ["2 releases", "Ruby &#62;= 2.7", "href=\"/gem?name=rake\"", "not stored", "abababababab…"]
    {
        page.assert_shows(text);
    }
    let newest = page.text.find(">2.0<").expect("a release");
    assert!(newest < page.text.find(">1.0<").expect("a release"), "the newest is first");
    let absent = browser.get("/gem?name=%3Cx%3E").await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
    absent.assert_shows("&#60;x&#62;");
}

#[tokio::test]
async fn without_gems_there_are_no_gem_pages() {
    let site = Site::open();
    let mut browser = site.browser();
    assert!(!browser.get("/").await.text.contains("href=\"/gems\""));
    let page = browser.get("/gems").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    page.assert_shows("Gems are not served by this Weir");
}

/// A mirror of an upstream that is away, where somebody has published a name of ours.
async fn mirror(folder: &std::path::Path, index: &Gems) -> Arc<Mirror> {
    let clock = Clock::system();
    let upstream = UpstreamSettings {
        name: "one".parse().expect("a name"),
        url: "http://127.0.0.1:1".parse().expect("an address"),
        credentials: None,
        redirect_hosts: Vec::new(),
        hook_secret: None,
    };
    let ours: weir_gems::name::GemName = "shop".parse().expect("a name");
    let alike: weir_gems::name::GemName = "Shop".parse().expect("a name");
    let noted = [&ours, &alike].map(|name| Noted { name: name.clone(), md5: Some([1; 16]) });
    index.store().note("one", noted.to_vec(), None).await.expect("noted");
    // A file that somebody has replaced.
    for sum in [1, 2] {
        let mut theirs = release("1.0", "");
        theirs.checksum = Checksum([sum; 32]);
        let noted = Noted { name: "tool".parse().expect("a name"), md5: Some([sum; 16]) };
        let (releases, earlier) = (vec![theirs], Arc::default());
        let gem = MirroredGem { noted, releases, is_invited: false, earlier };
        index.store().apply("one", vec![gem], clock.now()).await.expect("applied");
    }
    let refused = vec![(ours, Refusal::Local), (alike, Refusal::Lookalike)];
    index.store().refuse("one", refused).await.expect("refused");
    let mirror = Mirror::new(MirrorParts {
        store: index.shared_store(),
        files: Files::open(folder.join("files")).expect("a folder"),
        settings: MirrorSettings::new(vec![upstream]),
        policy: "none".parse().expect("a policy"),
        package: weir_gems::package::PackageLimits::default(),
        clock,
        metrics: MirrorMetrics::register(&mut Registry::default()),
    });
    mirror.expect("a mirror")
}

#[tokio::test]
async fn upstreams_and_webhooks_are_shown_and_can_be_polled() {
    let folder = tempfile::tempdir().expect("a folder");
    let index = index(folder.path(), vec!["shop".to_owned()]).await;
    let site = Site::with_gems(Arc::clone(&index) as _);
    let mut browser = site.browser();
    let page = browser.get("/gems").await;
    assert!(!page.text.contains("Upstreams") && !page.text.contains("Webhooks"));
    let refused = browser.submit(&page, "/gems/look", &[]).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);

    let mirror = mirror(folder.path(), &index).await;
    assert!(index.attach_mirror(Arc::clone(&mirror) as _));
    let endpoints = vec!["ci".to_owned()];
    index.store().set_webhook_endpoints(endpoints, 100).await.expect("an endpoint");
    let page = browser.get("/gems").await;
    for text in [
        "never",
        "one; pushed or imported here",
        "too similar to a name that",
        "1 version blocked",
        "tool 1.0 (ruby)",
        "<code>020202020202…</code>",
        "0 webhooks from upstreams",
        ">ci<",
    ] {
        page.assert_shows(text);
    }
    let failed = mirror.sync_once(Look::Changes, Progress::NONE).await;
    assert!(failed[0].is_err());
    browser.get("/gems").await.assert_shows("one: cannot connect");

    assert_eq!(browser.post("/gems/look", &[]).await.status, StatusCode::FORBIDDEN);
    let asked = browser.submit(&page, "/gems/look", &[]).await;
    assert_eq!(asked.status, StatusCode::SEE_OTHER);
    browser.get("/gems?done=look").await.assert_shows("Weir is polling the upstreams");
}

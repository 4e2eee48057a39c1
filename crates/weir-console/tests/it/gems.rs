//! The pages of gems, over an index that holds some.

use std::sync::Arc;

use axum::http::StatusCode;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::{Off, Switches};
use weir_gems::operations::KeyWanted;
use weir_gems::release::{Checksum, Dependencies, Identity, Release};
use weir_gems::store::{ImportedGem, Scope, SqliteSettings, SqliteStore, Store};
use weir_gems::{Files, Gems, GemsMetrics, GemsParts};

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
async fn index(folder: &std::path::Path, names: Vec<String>) -> Arc<Gems<SqliteStore>> {
    let clock = Clock::system();
    let now = clock.now();
    let store = SqliteStore::open(&SqliteSettings::new(folder.join("index.db")), now);
    let switches = Arc::new(Switches::default());
    let off = Off { pattern: "speci*".parse().expect("a pattern"), since_us: 0, until_us: None };
    switches.turn_off(off, now).expect("off");
    let index = Gems::new(GemsParts {
        store: store.expect("a store"),
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
    index.store().import(gems.into_iter(), now).await.expect("imported");
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
async fn gems_are_found_page_by_page_and_shown_with_what_they_need() {
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
        ["2 releases", "Ruby &#62;= 2.7", "href=\"/gem?name=rake\"", "elsewhere", "abababababab…"]
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
async fn without_gems_there_are_no_pages_of_them() {
    let site = Site::open();
    let mut browser = site.browser();
    assert!(!browser.get("/").await.text.contains("href=\"/gems\""));
    let page = browser.get("/gems").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    page.assert_shows("Gems are not served by this Weir");
}

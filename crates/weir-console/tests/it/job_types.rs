//! The page of job types, and that of one type.

use axum::http::StatusCode;
use weir_jobs::job_types::StartedJob;

use crate::site::{Site, job};

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}'\"&";

/// Runs one job of the type and fails another one.
async fn run(site: &Site, jobtype: &str, errtype: &str) {
    let text = |jid: &str| {
        let job = serde_json::json!({"jid": jid, "jobtype": jobtype, "queue": "alpha", "args": [], "retry": 3});
        job.to_string()
    };
    site.push([text("done-0001"), text("fail-0001")]).await;
    let mut worker = site.faktory("worker-one");
    assert!(worker.ask("FETCH alpha").contains("done-0001"));
    assert_eq!(worker.ask(r#"ACK {"jid":"done-0001"}"#), "+OK");
    assert!(worker.ask("FETCH alpha").contains("fail-0001"));
    let report = serde_json::json!({"jid": "fail-0001", "errtype": errtype, "message": errtype});
    assert_eq!(worker.ask(&format!("FAIL {report}")), "+OK");
}

#[tokio::test]
async fn types_are_listed_with_their_failures_and_linked() {
    let site = Site::open();
    let mut browser = site.browser();
    browser.get("/types").await.assert_shows("No job has started since");
    run(&site, "Mail", "Net::Timeout").await;
    let page = browser.get("/types").await;
    for text in [
        "<a href=\"/type?name=Mail\">Mail</a>",
        "data-label=\"Started\">2<",
        "data-label=\"Failed\">1 (50 %)<",
        "Net::Timeout",
        "href=\"/types\"",
    ] {
        page.assert_shows(text);
    }
    let of_other = browser.get("/types?queue=beta").await;
    of_other.assert_shows("No job from this queue has started since");
    assert!(!of_other.text.contains("name=Mail"));
    let section = browser.get("/live/types?sort=failed&queue=alpha&range=10m").await;
    section.assert_shows("/type?name=Mail");
    assert!(!section.text.contains("<html"));

    let page = browser.get("/type?name=Mail").await;
    for text in [
        "<h1 class=\"breakable\">Mail</h1>",
        "Net::Timeout",
        "<a href=\"/job?jid=fail-0001\">",
        "<a href=\"/queue?name=alpha\">alpha</a>",
        "data-label=\"Share\">100 %<",
        "href=\"/dead?jobtype=Mail\"",
    ] {
        page.assert_shows(text);
    }
    browser.get("/live/type?name=Mail&range=30m").await.assert_shows("Net::Timeout");
    site.push([job("wait-0001", "Mail", "alpha")]).await;
    for path in ["/retries", "/queue?name=alpha", "/job?jid=fail-0001"] {
        browser.get(path).await.assert_shows("href=\"/type?name=Mail\"");
    }
    browser.get("/queue?name=alpha").await.assert_shows("href=\"/types?queue=alpha\"");
}

/// A job of ActiveJob, as its adapter for Faktory pushes it.
#[tokio::test]
async fn a_wrapped_job_is_listed_and_linked_by_the_type_that_it_wraps() {
    let site = Site::open();
    let text = |jid: &str| {
        let custom = serde_json::json!({"wrapped": "CleanJob"});
        serde_json::json!({"jid": jid, "jobtype": "Wrapper", "queue": "alpha", "args": [], "custom": custom})
            .to_string()
    };
    site.push([text("fail-0001"), text("wait-0001")]).await;
    let mut worker = site.faktory("worker-one");
    assert!(worker.ask("FETCH alpha").contains("fail-0001"));
    let mut browser = site.browser();
    browser.get("/workers").await.assert_shows("CleanJob");
    assert_eq!(worker.ask(r#"FAIL {"jid":"fail-0001","errtype":"E","message":"m"}"#), "+OK");
    for path in ["/types", "/retries?jobtype=CleanJob", "/queue?name=alpha", "/job?jid=fail-0001"] {
        browser.get(path).await.assert_shows("href=\"/type?name=CleanJob\"");
    }
    browser.get("/type?name=CleanJob").await.assert_shows("href=\"/retries?jobtype=CleanJob\"");
    browser.get("/type?name=Wrapper").await.assert_shows("No job of this type has started");
}

#[tokio::test]
async fn a_type_without_jobs_says_so() {
    let site = Site::open();
    let page = site.browser().get("/type?name=Nobody").await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("No job of this type has started");
}

#[tokio::test]
async fn a_type_has_charts_of_its_slices() {
    let site = Site::open();
    run(&site, "Mail", "Oops").await;
    let mut browser = site.browser();
    let chart = "/type/chart?name=Mail&series=started,failed,wait_p95&seconds=3600";
    let points = browser.get(chart).await;
    let points: serde_json::Value = serde_json::from_str(&points.text).unwrap();
    let sum = |column: usize| -> f64 {
        let (_now, slices) = points["means"][column].as_array().unwrap().split_last().unwrap();
        slices.iter().filter_map(serde_json::Value::as_f64).sum()
    };
    assert_eq!((sum(0), sum(1)), (2.0, 1.0), "{points}");
    assert_eq!(
        points["times"].as_array().map(Vec::len),
        points["means"][2].as_array().map(Vec::len)
    );
    for wrong in ["series=nothing&seconds=60", "series=started&seconds=999999"] {
        let response = browser.get(&format!("/type/chart?name=Mail&{wrong}")).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn names_and_errors_are_escaped() {
    let site = Site::open();
    run(&site, HOSTILE, HOSTILE).await;
    let mut browser = site.browser();
    let name = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%E2%80%AE%27%22%26";
    let paths = ["/types".to_owned(), format!("/type?name={name}"), "/retries".to_owned()];
    for path in paths {
        let page = browser.get(&path).await;
        page.assert_shows("&#60;script&#62;alert(1)&#60;/script&#62;\\u202e");
        let is_raw = page.text.contains("<script>alert") || page.text.contains('\u{202e}');
        assert!(!is_raw, "{path}");
    }
    let list = browser.get("/types").await;
    list.assert_shows(&format!("href=\"/type?name={name}\""));
    let queue = browser.get("/types?queue=%3Cscript%3Ealert(1)%3C/script%3E").await;
    assert!(!queue.text.contains("<script>alert"));
}

#[tokio::test]
async fn types_beyond_the_limit_are_shown_as_one() {
    let site = Site::open();
    let types = site.metrics.types();
    let now = site.clock.now();
    let max = weir_jobs::settings::JobServerLimits::default().job_types_max;
    for number in 0..max + 3 {
        let run = types.run_of(&format!("Type{number}"), now);
        run.start(&StartedJob { jid: "j", queue: "q", ready_at: None }, now);
        run.succeeded(now);
    }
    let page = site.browser().get("/types?sort=name").await;
    page.assert_shows("all other types");
    page.assert_shows("has all types beyond the first 200 (jobs.limits.advanced.job_types_max)");
}

//! Hostile jobs are shown, never run.

use axum::http::StatusCode;

use crate::site::Site;

const HOSTILE: &str =
    "<script>alert(1)</script><img src=x onerror=alert(2)>\\\"'--><svg/onload=alert(3)>";

#[track_caller]
fn assert_harmless(path: &str, text: &str) {
    for raw in ["<script>alert", "<img src=x", "<svg/onload"] {
        assert!(!text.contains(raw), "{path} shows {raw} as it is");
    }
}

#[tokio::test]
async fn job_texts_are_escaped_on_every_page() {
    let site = Site::open();
    let job = format!(
        r#"{{"jid":"{HOSTILE}","jobtype":"{HOSTILE}","queue":"hostile","retry":3,"args":["{HOSTILE}"],"custom":{{"{HOSTILE}":1}}}}"#
    );
    site.push([job]).await;
    let mut worker = site.faktory("worker-one");
    let mut browser = site.browser();
    for path in ["/queue?name=hostile", "/", "/queues"] {
        assert_harmless(path, &browser.get(path).await.text);
    }
    assert!(worker.ask("FETCH hostile").contains("alert"));
    let page = browser.get("/workers").await;
    assert_harmless("/workers", &page.text);
    page.assert_shows("&#60;script&#62;alert(1)");

    let fail = format!(
        r#"FAIL {{"jid":"{HOSTILE}","errtype":"{HOSTILE}","message":"{HOSTILE}","backtrace":["{HOSTILE}"]}}"#
    );
    assert_eq!(worker.ask(&fail), "+OK");
    let page = browser.get("/retries").await;
    assert_harmless("/retries", &page.text);
    page.assert_shows("&#60;script&#62;alert(1)");
    let address = page.values("<a href=\"/job?").into_iter().next().expect("a link");
    let page = browser.get(&format!("/job?{address}")).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_harmless("/job", &page.text);
    page.assert_shows("&#60;img src=x onerror=alert(2)&#62;");

    let csrf = page.csrf();
    let key = page.keys().remove(0);
    let fields =
        [("csrf", csrf.as_str()), ("place", "retries"), ("action", "discard"), ("key", &key)];
    let confirm = browser.post("/jobs/act", &fields).await;
    assert_harmless("/jobs/act", &confirm.text);
    assert_eq!(confirm.keys(), [key], "the key comes back unchanged");
}

#[tokio::test]
async fn text_from_the_address_is_escaped() {
    let site = Site::open();
    let mut browser = site.browser();
    let hostile = "%3Cscript%3Ealert(1)%3C/script%3E";
    for path in [
        format!("/retries?search={hostile}&jobtype={hostile}&order={hostile}"),
        format!("/queue?name={hostile}"),
        format!("/job?jid={hostile}"),
        format!("/queues?done=pause&name={hostile}"),
        format!("/retries?done={hostile}&count=1"),
        format!("/jobs/confirm?place=dead&action=discard&search={hostile}"),
        format!("/login?next={hostile}"),
        format!("/chart?series={hostile}&seconds=1"),
    ] {
        assert_harmless(&path, &browser.get(&path).await.text);
    }
}

#[tokio::test]
async fn a_payload_is_served_as_a_download() {
    let site = Site::open();
    let job = r#"{"jid":"download-1","jobtype":"<b>","args":["<script>alert(1)</script>"]}"#;
    site.push([job.to_owned()]).await;
    let mut browser = site.browser();
    let file = browser.get("/job/payload?jid=download-1").await;
    assert_eq!(file.header("content-type"), "application/json");
    assert!(file.header("content-disposition").starts_with("attachment"));
    assert!(file.text.contains(r#""args":["<script>alert(1)</script>"]"#));
}

#[tokio::test]
async fn bidirectional_text_is_made_visible() {
    const TURNED: &str = "report\u{202e}gpj.exe";
    let site = Site::open();
    let job = format!(
        r#"{{"jid":"{TURNED}","jobtype":"{TURNED}","queue":"turned","args":["{TURNED}"],"retry":3}}"#
    );
    site.push([job]).await;
    let mut worker = site.faktory(TURNED);
    let mut browser = site.browser();
    let list = browser.get("/queue?name=turned").await;
    worker.ask("FETCH turned");
    let workers = browser.get("/workers").await;
    let fail = format!(
        r#"FAIL {{"jid":"{TURNED}","errtype":"{TURNED}","message":"{TURNED}","backtrace":["{TURNED}"]}}"#
    );
    assert_eq!(worker.ask(&fail), "+OK");
    let retries = browser.get("/retries").await;
    let address = retries.values("<a href=\"/job?").into_iter().next().expect("a link");
    let page = browser.get(&format!("/job?{address}")).await;
    for (path, page) in
        [("/queue", &list), ("/workers", &workers), ("/retries", &retries), ("/job", &page)]
    {
        page.assert_shows("report\\u202egpj.exe");
        // What a form sends back is not for reading.
        let mut read = page.text.clone();
        for sent in page.keys().iter().chain(&page.values("name=\"wid\" value=\"")) {
            read = read.replace(&format!("value=\"{sent}\""), "");
        }
        assert!(!read.contains('\u{202e}'), "{path} {read}");
    }
    let key = page.keys().remove(0);
    let fields = [("place", "retries"), ("action", "requeue"), ("key", key.as_str())];
    let done = browser.submit(&page, "/jobs/act", &fields).await;
    browser.get(done.header("location")).await.assert_shows("1 job was moved to its queue.");
}

#[tokio::test]
async fn large_and_deep_payloads_make_a_bounded_page() {
    let site = Site::open();
    let large = "x".repeat(1 << 20);
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    site.push([
        format!(r#"{{"jid":"large-0001","jobtype":"Work","queue":"big","args":["{large}"]}}"#),
        format!(r#"{{"jid":"deep-00001","jobtype":"Work","queue":"big","args":[{deep}]}}"#),
    ])
    .await;
    let mut browser = site.browser();
    let list = browser.get("/queue?name=big").await;
    assert!(list.text.len() < 40_000, "{}", list.text.len());
    let shown_max = site.deps.settings.limits.payload_display_bytes_max;
    for jid in ["large-0001", "deep-00001"] {
        let page = browser.get(&format!("/job?jid={jid}")).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.text.len() < shown_max + 20_000, "{jid} {}", page.text.len());
    }
}

//! What clients and servers send is shown, never run.

use http_body_util::BodyExt;
use serde_json::json;

use super::channels::Channels;

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'--><svg/onload=a>";
const TURNED: &str = "report\u{202e}gpj.exe";

#[track_caller]
fn assert_harmless(path: &str, text: &str) {
    for raw in ["<script>alert", "<img src=x", "<svg/onload"] {
        assert!(!text.contains(raw), "{path} shows {raw} as it is");
    }
    assert!(!text.contains('\u{202e}'), "{path} turns around what follows");
}

#[tokio::test]
async fn names_users_and_data_are_escaped_on_every_page() {
    let channels = Channels::open();
    let (room, own) = ("presence-room", "#server-to-user-<script>alert(1)</script>");
    let _clients = [
        channels.member(room, HOSTILE, &json!({ HOSTILE: TURNED })),
        channels.member(room, TURNED, &json!(HOSTILE)),
    ];
    for channel in [room, own, "#server-to-user-report\u{202e}gpj.exe"] {
        channels.publish(channel, HOSTILE, HOSTILE);
        channels.publish(channel, TURNED, TURNED);
    }
    let mut browser = channels.site.browser();
    let list = browser.get("/channels").await;
    assert_harmless("/channels", &list.text);
    list.assert_shows("#server-to-user-&#60;script&#62;");
    list.assert_shows("report\\u202egpj.exe");
    let addresses = list.values("<th scope=\"row\"><a href=\"");
    assert_eq!(addresses.len(), 3);
    for address in addresses {
        let page = browser.get(&address).await;
        assert_harmless(&address, &page.text);
        page.assert_shows("&#60;img src=x onerror=alert(2)&#62;");
        page.assert_shows("report\\u202egpj.exe");
        let publish = page.values("href=\"/channel/publish").remove(0);
        let page = browser.get(&format!("/channel/publish{publish}")).await;
        // What the form sends back is not for reading.
        let sent = page.values("name=\"name\" value=\"").remove(0);
        assert_harmless(&publish, &page.text.replace(&format!("value=\"{sent}\""), ""));
    }
}

#[tokio::test]
async fn the_live_view_gets_displayable_texts() {
    let channels = Channels::open();
    let mut body = channels.site.browser().open("/channel/tail?app=1&name=a").await.into_body();
    channels.publish("a", TURNED, &"x".repeat(9_000));
    let frame = body.frame().await.expect("a message").expect("a frame");
    let text = String::from_utf8_lossy(frame.data_ref().expect("data")).into_owned();
    assert!(text.contains(r"report\\u202egpj.exe") && !text.contains('\u{202e}'), "{text}");
    assert!(text.len() < 2_000, "data is cut: {}", text.len());
}

#[tokio::test]
async fn text_from_the_address_is_escaped() {
    let channels = Channels::open();
    let mut browser = channels.site.browser();
    let hostile = "%3Cscript%3Ealert(1)%3C/script%3E%E2%80%AE";
    for path in [
        format!("/channels?app={hostile}&prefix={hostile}"),
        "/channels?app=1&prefix=%3Cscript%3Ealert(1)".to_owned(),
        format!("/channel?app={hostile}&name={hostile}"),
        format!("/channel?app=1&name={hostile}"),
        format!("/channel?app=1&name=a&after=%3Cscript%3Ealert(1)&done={hostile}"),
        format!("/channel/publish?app=1&name={hostile}"),
        format!("/channel/tail?app={hostile}&name={hostile}"),
        format!("/switches?done=off&pattern={hostile}"),
        format!("/connections?range={hostile}"),
    ] {
        assert_harmless(&path, &browser.get(&path).await.text);
    }
}

#[tokio::test]
async fn a_switch_is_displayed_escaped_and_submitted_unchanged() {
    let channels = Channels::open();
    let mut browser = channels.site.browser();
    let page = browser.get("/switches").await;
    for pattern in [HOSTILE, TURNED] {
        let off = [("pattern", pattern), ("action", "off")];
        browser.submit(&page, "/switches/act", &off).await;
    }
    let page = browser.get("/switches").await;
    let patterns = page.values("type=\"hidden\" name=\"pattern\" value=\"");
    assert_eq!(patterns, [HOSTILE, TURNED]);
    page.assert_shows("&#60;script&#62;alert(1)");
    let read = page.text.replace(&format!("value=\"{TURNED}\""), "");
    assert_harmless("/switches", &read);
    for pattern in patterns {
        browser.submit(&page, "/switches/act", &[("pattern", &pattern), ("action", "on")]).await;
    }
    browser.get("/switches").await.assert_shows("Nothing is switched off.");
}

//! `weir realtime ..` and `weir switch ..` against a running Weir.

mod subscriber;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use self::subscriber::{SECRET, Subscriber};
use crate::process::{TEST_TIMEOUT, output_with_input};
use crate::weir::{Site, Weir, program};

const TOKEN: &str = "0123456789abcdef0123";

fn site() -> Site {
    let site = Site::new("");
    for (file, text) in [("secret", SECRET), ("token", TOKEN)] {
        std::fs::write(site.path().join(file), text).expect("written");
    }
    site.write(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
         [console]\nlisten = \"127.0.0.1:0\"\ntoken = { file = \"token\" }\n\
         [front]\nlisten = \"127.0.0.1:0\"\ncores = 2\n\
         [[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\nsecret = { file = \"secret\" }\n",
    );
    site
}

fn json(weir: &Weir, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&weir.site.ok(arguments)).expect("JSON")
}

#[test]
fn published_event_reaches_subscribers() {
    let weir = site().start();
    let mut client = Subscriber::connect(weir.front());
    client.subscribe("news", "");
    let published = weir.site.ok(&["realtime", "publish", "1", "news", "hello", "{\"a\": 1}"]);
    assert_eq!(published, "published to 1 subscriber\n");
    assert_eq!(client.read("hello")["data"], "{\"a\": 1}");

    let mut command = program();
    command.current_dir(weir.site.path()).args(["realtime", "publish", "1", "news", "long", "-"]);
    command.arg("--json");
    let output = output_with_input(&mut command, "from standard input".as_bytes());
    let published: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&published["subscribers"], &published["offset"]), (&1.into(), &2.into()));
    assert_eq!(client.read("long")["data"], "from standard input");
    assert!(weir.stop().success());
}

#[test]
fn rejected_publishes_give_a_reason() {
    let weir = site().start();
    insta::assert_snapshot!(weir.site.shown(&["realtime", "publish", "2", "news", "e", "1"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: there is no app "2"; apps: 1
    "#);
    insta::assert_snapshot!(weir.site.shown(&["realtime", "publish", "1", "a b", "e", "1"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: channel 'a b' has ' ' at byte 1; a name may have A-Z a-z 0-9 _ - = @ , . ;
    ");
    insta::assert_snapshot!(weir.site.shown(&["realtime", "publish", "1", "a", "pusher:e", "1"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: event 'pusher:e' can't be published: names beginning with pusher: or pusher_internal: are the protocol's own
    ");
    assert!(weir.stop().success());
}

#[test]
fn channels_and_users_are_listed() {
    let weir = site().start();
    let mut clients: Vec<Subscriber> = (0..3).map(|_| Subscriber::connect(weir.front())).collect();
    for (client, user) in clients.iter_mut().zip(["ada", "grace", "ada"]) {
        client.subscribe("presence-room", user);
    }
    clients[0].subscribe("news", "");
    weir.site.ok(&["realtime", "publish", "1", "news", "e", "1"]);
    let channels = json(&weir, &["realtime", "channels", "--json"]);
    let names: Vec<_> =
        channels.as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["presence-room", "news"]);
    assert_eq!((&channels[0]["users"], &channels[0]["subscribers"]), (&2.into(), &3.into()));
    assert_eq!((&channels[1]["published"], &channels[1]["app"]), (&1.into(), &"1".into()));
    let found = json(&weir, &["realtime", "channels", "--prefix", "ne", "--app", "1", "--json"]);
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let table = weir.site.shown(&["realtime", "channels", "--limit", "1"]);
    assert!(table.contains("1    presence-room  3"), "{table}");
    assert!(table.ends_with("-- stderr\n1 of 2\n"), "{table}");

    let users = json(&weir, &["realtime", "users", "1", "presence-room", "--json"]);
    assert_eq!((&users[0]["user_id"], &users[1]["user_id"]), (&"ada".into(), &"grace".into()));
    insta::assert_snapshot!(weir.site.shown(&["realtime", "users", "1", "news"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: channel "news" has no users (only presence channels have users, and only while they have subscribers)
    "#);
    assert!(weir.stop().success());
}

#[test]
fn users_and_connections_are_disconnected() {
    let weir = site().start();
    let mut ada = Subscriber::connect(weir.front());
    ada.sign_in("ada");
    let mut other = Subscriber::connect(weir.front());
    let closed = weir.site.ok(&["realtime", "disconnect", "1", "ada"]);
    assert_eq!(closed, "1 connection closed\n");
    assert_eq!(ada.close_code(), 4009);
    let closed = weir.site.ok(&["realtime", "disconnect", "1", "--socket", &other.id]);
    assert_eq!(closed, "1 connection closed\n");
    assert_eq!(other.close_code(), 4009);
    insta::assert_snapshot!(weir.site.shown(&["realtime", "disconnect", "1", "--socket", "9999.1"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: app "1" has no connection 9999.1 (it may be closed already)
    "#);
    insta::assert_snapshot!(weir.site.shown(&["realtime", "disconnect", "1", "grace"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: no connection is signed in as user "grace" (users sign in with pusher:signin; close other connections by socket_id)
    "#);
    assert!(weir.stop().success());
}

#[test]
fn switches_survive_a_restart() {
    let weir = site().start();
    let shown = weir.site.ok(&["switch", "list"]);
    assert_eq!(shown, "nothing is switched off\n");
    assert_eq!(weir.site.ok(&["switch", "off", "typing*"]), "typing* is switched off\n");
    assert_eq!(
        weir.site.ok(&["switch", "off", "cursor", "--for", "10m"]),
        "cursor is switched off\n"
    );
    let site = weir.end();
    let weir = site.start();
    let list = json(&weir, &["switch", "list", "--json"]);
    assert_eq!(
        (&list[0]["pattern"], &list[0]["until"]),
        (&"typing*".into(), &serde_json::Value::Null)
    );
    let time =
        list[1]["until"].as_f64().expect("an end") - list[1]["since"].as_f64().expect("since");
    assert_eq!((&list[1]["pattern"], time.round()), (&"cursor".into(), 600.0));

    let mut client = Subscriber::connect(weir.front());
    client.subscribe("news", "");
    insta::assert_snapshot!(weir.site.shown(&["realtime", "publish", "1", "news", "typing-start", "1"]), @r"
    exit: 2
    -- stdout
    not sent: typing-start is switched off (weir switch list)
    -- stderr
    ");
    assert_eq!(weir.site.ok(&["switch", "on", "typing*"]), "typing* is switched on\n");
    weir.site.ok(&["realtime", "publish", "1", "news", "typing-start", "2"]);
    assert_eq!(client.read("typing-start")["data"], "2", "the one before was not sent");
    insta::assert_snapshot!(weir.site.shown(&["switch", "on", "typing*"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: "typing*" is not switched off (GET switches lists what is off)
    "#);
    assert!(weir.stop().success());
}

#[test]
fn missing_realtime_is_reported() {
    let weir = Weir::start();
    for arguments in [&["realtime", "channels"][..], &["switch", "list"]] {
        let shown = weir.site.shown(arguments);
        assert!(shown.starts_with("exit: 2\n"), "{shown}");
        assert!(shown.contains("this Weir does not serve realtime ("), "{shown}");
    }
    assert!(weir.stop().success());
}

#[test]
fn admin_api_streams_channel_events() {
    let weir = site().start();
    let mut stream = TcpStream::connect(weir.console()).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let request = format!(
        "GET /v1/realtime/tail?app=1&channel=news HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {TOKEN}\r\n\r\n",
        weir.console()
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    let status = lines.next().expect("a status");
    assert!(status.contains("200"), "{status}");
    // The answer's head comes once the channel is watched.
    weir.site.ok(&["realtime", "publish", "1", "news", "hello", "first"]);
    let line = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    let tail: serde_json::Value = serde_json::from_str(&line.expect("an event")).expect("JSON");
    assert_eq!((&tail["left_out"], &tail["events"][0]["event"]), (&0.into(), &"hello".into()));
    assert_eq!(tail["events"][0]["data"], "first");
    assert!(weir.stop().success(), "a stream that is open doesn't hold up the end");
}

use weir_realtime::pusher::limits::PusherLimits;
use weir_realtime::pusher::presence_data::PresenceData;
use weir_realtime::pusher::user_data::UserData;

fn presence(text: &str) -> Result<(String, Option<String>), String> {
    PresenceData::parse(text, &PusherLimits::default())
        .map(|data| (data.user_id.into_owned(), data.user_info.map(|info| info.get().to_owned())))
        .map_err(|error| error.to_string())
}

fn user(text: &str) -> Result<(String, Vec<String>, usize), String> {
    UserData::parse(text, &PusherLimits::default())
        .map(|data| {
            let users = data.watchlist.accepted.iter().map(|user| user.to_string()).collect();
            (data.id.into_owned(), users, data.watchlist.dropped)
        })
        .map_err(|error| error.to_string())
}

#[test]
fn numeric_and_text_user_ids_are_the_same_member() {
    for (text, id, info) in [
        (r#"{"user_id":10}"#, "10", None),
        (r#"{"user_id":-10,"user_info":null}"#, "-10", None),
        (r#"{"user_id":18446744073709551616}"#, "18446744073709551616", None),
        (
            r#"{"user_id":"\u00e9","user_info":{ "name" : 1.0 },"more":1}"#,
            "é",
            Some(r#"{ "name" : 1.0 }"#),
        ),
        (r#"{"user_info":"text","user_id":"a"}"#, "a", Some(r#""text""#)),
    ] {
        assert_eq!(presence(text), Ok((id.to_owned(), info.map(str::to_owned))), "{text}");
    }
}

#[test]
fn channel_data_is_limited_and_the_error_names_the_field() {
    let info = |bytes: usize| format!(r#"{{"user_id":1,"user_info":"{}"}}"#, "x".repeat(bytes - 2));
    let id = |characters: usize| format!(r#"{{"user_id":"{}"}}"#, "é".repeat(characters));
    let deep = format!(r#"{{"user_id":1,"user_info":{}{}}}"#, "[".repeat(65), "]".repeat(65));
    assert!(presence(&info(1_024)).is_ok());
    assert!(presence(&id(128)).is_ok());
    for (text, message) in [
        (info(1_025), "channel_data: user_info has 1025 bytes; at most 1024 are allowed"),
        (id(129), "channel_data: user_id is longer than 128 characters"),
        (id(0), "channel_data: user_id is empty"),
        (deep, "channel_data: user_info is nested deeper than 64 levels"),
        (
            r#"{"user_id":1.5}"#.to_owned(),
            "channel_data: user_id must be a string or a whole number",
        ),
        (
            r#"{"user_id":null}"#.to_owned(),
            "channel_data: user_id must be a string or a whole number",
        ),
        (
            r#"{"user_id":"\ud800"}"#.to_owned(),
            "channel_data: user_id must be a string or a whole number",
        ),
    ] {
        assert_eq!(presence(&text), Err(message.to_owned()));
    }
    for text in ["", "[]", "{}", "1", r#"{"user_id":1,"user_id":2}"#, r#"{"user_id":1} x"#] {
        let error = presence(text).unwrap_err();
        assert!(
            error.starts_with(r#"channel_data must be {"user_id": .., "user_info": {..}}: "#),
            "{error}"
        );
    }
}

#[test]
fn the_sign_in_response_has_an_id_for_pusher_js() {
    let own = |text: &str| text.to_owned();
    assert_eq!(user(r#"{"id":"a"}"#), Ok((own("a"), vec![], 0)));
    assert_eq!(
        user(r#"{"id":"a","name":"x","user_info":{},"watchlist":["b",7]}"#),
        Ok((own("a"), vec![own("b"), own("7")], 0))
    );
    assert_eq!(user(r#"{"id":7}"#), Err(own("user_data: id must be a string")));
    assert_eq!(user(r#"{"id":""}"#), Err(own("user_data: id is empty")));
    assert_eq!(
        user(r#"{"id":"a","watchlist":[""]}"#),
        Err(own("user_data: a user on the watchlist is empty"))
    );
    assert!(user(r#"{"id":"a","watchlist":{}}"#).unwrap_err().starts_with("user_data must be"));
    let large = format!(r#"{{"id":"a","user_info":"{}"}}"#, "x".repeat(1_023));
    assert_eq!(
        user(&large),
        Err(own("user_data: user_info has 1025 bytes; at most 1024 are allowed"))
    );
}

#[test]
fn a_watchlist_over_the_limit_is_truncated() {
    let ids: Vec<_> = (0..103).map(|id| format!("\"u{id}\"")).collect();
    let (_, users, dropped) =
        user(&format!(r#"{{"id":"a","watchlist":[{}]}}"#, ids.join(","))).unwrap();
    assert_eq!((users.len(), users[99].as_str(), dropped), (100, "u99", 3));
}

#[test]
fn a_duplicate_user_on_a_watchlist_is_watched_once() {
    let named = r#"{"id":"a","watchlist":["b","b","7",7,"c","b"]}"#;
    let (_, users, dropped) = user(named).unwrap();
    assert_eq!((users, dropped), (vec!["b".to_owned(), "7".into(), "c".into()], 0));
}

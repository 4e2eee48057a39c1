//! Jobs of both worlds, hostile ones among them, on their way there and back.

use proptest::prelude::*;
use weir_jobs::job::JobBatch;
use weir_jobs::settings::JobServerLimits;

use super::super::stored::MalformedPayload;
use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_000_001);
const BYTES_MAX: usize = 16 << 20;

fn stored(json: &str) -> StoredText<'_> {
    StoredText::parse(json.as_bytes(), BYTES_MAX).unwrap()
}

fn pushed(json: &str) -> String {
    let mut batch = JobBatch::new();
    let job = batch.parse_one(json.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
    let enqueued_at = job.at.is_none().then_some(NOW);
    String::from_utf8(to_sidekiq(&job, enqueued_at)).unwrap()
}

fn delivered(json: &str, queue: &str) -> String {
    String::from_utf8(to_faktory(&stored(json), queue, None)).unwrap()
}

#[test]
fn a_pushed_job_is_what_sidekiq_writes() {
    let check = |json: &str, expected: &str| assert_eq!(pushed(json), expected);
    check(
        r#"{"jid":"12345678", "jobtype" : "Mail","args":[ 1e400 ],"zz":{"b":1,"a":2}}"#,
        r#"{"jid":"12345678", "class" : "Mail","args":[ 1e400 ],"zz":{"b":1,"a":2},"created_at":1795202902.000001,"queue":"default","retry":true,"enqueued_at":1795202902.000001}"#,
    );
    check(
        r#"{"at":"2030-01-01T00:00:00Z","jid":"12345678","jobtype":"A","args":[],"queue":"q","retry":0,"created_at":"2026-01-01T00:00:00Z"}"#,
        r#"{"jid":"12345678","class":"A","args":[],"queue":"q","retry":false,"created_at":1767225600.000000}"#,
    );
    check(
        r#"{"jid":"12345678","jobtype":"A","args":[],"queue":"q","retry":-3,"class":"mine","failed_at":"mine","created_at":"yesterday"}"#,
        r#"{"jid":"12345678","class":"A","args":[],"queue":"q","retry":0,"faktory:class":"mine","faktory:failed_at":"mine","created_at":"yesterday","enqueued_at":1795202902.000001}"#,
    );
}

#[test]
fn a_job_that_moves_has_another_queue_and_stays_as_it_is_otherwise() {
    let check = |json: &str, expected: &str| {
        assert_eq!(String::from_utf8(in_queue(&stored(json), "b.c", NOW)).unwrap(), expected);
    };
    check(
        r#"{"class":"A","queue":"a", "args":[ 1e400 ],"retry_count":3,"enqueued_at":1.5,"x":{"queue":"a"},"at":7}"#,
        r#"{"class":"A", "args":[ 1e400 ],"retry_count":3,"x":{"queue":"a"},"queue":"b.c","enqueued_at":1795202902.000001}"#,
    );
    check(
        r#"{"class":"A","args":[]}"#,
        r#"{"class":"A","args":[],"queue":"b.c","enqueued_at":1795202902.000001}"#,
    );
}

#[test]
fn a_worker_gets_a_faktory_job() {
    let check = |json: &str, expected: &str| assert_eq!(delivered(json, "q"), expected);
    check(
        r#"{"class":"A","wrapped":"B","args":[ 1 ],"retry":true,"queue":"q","jid":"0123456789abcdef01234567","created_at":1795202902.5,"enqueued_at":1795202902500}"#,
        r#"{"jobtype":"A","wrapped":"B","args":[ 1 ],"retry":25,"queue":"q","jid":"0123456789abcdef01234567","created_at":"2026-11-20T19:28:22.500000Z","enqueued_at":"2026-11-20T19:28:22.500000Z"}"#,
    );
    check(
        r#"{"class":"A","jobtype":7,"failure":8,"retry":0,"backtrace":true,"queue":"other","jid":7}"#,
        r#"{"jobtype":"A","sidekiq:jobtype":7,"sidekiq:failure":8,"retry":-1,"backtrace":50,"queue":"q","jid":"nojid-JID","args":[]}"#
            .replace("JID", &stored(r#"{"class":"A","jobtype":7,"failure":8,"retry":0,"backtrace":true,"queue":"other","jid":7}"#).jid[6..]).as_str(),
    );
    check(
        r#"{"class":"A","args":[],"queue":"q","jid":"x","retry":3,"retry_count":1,"error_class":"E","error_message":"m","failed_at":1,"retried_at":2.5}"#,
        r#"{"jobtype":"A","args":[],"queue":"q","jid":"x","retry":3,"failure":{"retry_count":1,"remaining":2,"failed_at":"1970-01-01T00:00:02.500000Z","message":"m","errtype":"E"}}"#,
    );
}

#[test]
fn a_failure_is_written_as_sidekiq_writes_it() {
    let failure = |retry_count| FailureState {
        retry_count,
        failed_at: NOW,
        errtype: "E".to_owned(),
        message: "a \"quoted\" one".to_owned(),
        ..FailureState::default()
    };
    let json = r#"{"class":"A","queue":"q","retry_queue":"slow","args":[]}"#;
    let first = String::from_utf8(failed(&stored(json), &failure(0))).unwrap();
    assert_eq!(
        first,
        r#"{"class":"A","queue":"slow","retry_queue":"slow","args":[],"retry_count":0,"failed_at":1795202902.000001,"error_class":"E","error_message":"a \"quoted\" one"}"#
    );
    let first = first.replace("902.000001", "900.5");
    let second = String::from_utf8(failed(&stored(&first), &failure(1))).unwrap();
    assert!(second.contains(r#""retry_count":1,"failed_at":1795202900.5,"#), "{second}");
    assert!(second.ends_with(r#""retried_at":1795202902.000001}"#), "{second}");
    let again = String::from_utf8(enqueued(&stored(&second), NOW)).unwrap();
    assert_eq!(stored(&again).enqueued_at(), NOW);
    assert_eq!(stored(&again).failure(None).unwrap().retry_count, 1);
}

#[test]
fn a_failure_survives_with_its_backtrace() {
    let failure = FailureState {
        retry_count: 3,
        remaining: 22,
        failed_at: NOW,
        next_at: None,
        message: "é\n".to_owned(),
        errtype: "E".to_owned(),
        backtrace: vec!["line 1".to_owned(), String::new()],
    };
    let json = r#"{"class":"A","args":[]}"#;
    let text = failed(&stored(json), &failure);
    let job = StoredText::parse(&text, BYTES_MAX).unwrap();
    assert_eq!(job.failure(None), Some(failure));
}

#[test]
fn what_no_worker_could_run_is_malformed() {
    for odd in ["", "[]", "7", "{}", r#"{"class":7}"#, r#"{"class":""}"#, "{\"class\":\"A\"", "\0"]
    {
        assert!(StoredText::parse(odd.as_bytes(), BYTES_MAX).is_err(), "{odd:?}");
    }
    assert_eq!(StoredText::parse(b"{\xff}", 9).unwrap_err(), MalformedPayload::Encoding);
    let large = r#"{"class":"A"}"#;
    assert!(StoredText::parse(large.as_bytes(), large.len()).is_ok());
    assert!(StoredText::parse(large.as_bytes(), large.len() - 1).is_err());
}

#[test]
fn ten_megabytes_of_arguments_pass() {
    let args = format!("[\"{}\"]", "x".repeat(10 << 20));
    let json = format!(r#"{{"class":"A","args":{args},"queue":"q","jid":"x"}}"#);
    assert!(delivered(&json, "q").contains(&args));
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("JSON has no others", |it| it.is_finite())
            .prop_map(|it| it.to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        Just("[ 1 , {\"a\" : 12345678901234567890} ]".to_owned()),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    let known: Vec<_> = [
        "class",
        "jobtype",
        "jid",
        "args",
        "queue",
        "retry",
        "at",
        "created_at",
        "enqueued_at",
        "failed_at",
        "retried_at",
        "retry_count",
        "error_class",
        "error_message",
        "error_backtrace",
        "backtrace",
        "failure",
        "dead",
        "reserve_for",
        "retry_queue",
    ]
    .map(str::to_owned)
    .to_vec();
    prop_oneof![prop::sample::select(known), "[a-z:]{0,8}"]
}

proptest! {
    #[test]
    fn no_payload_panics_and_workers_always_get_a_job(
        members in prop::collection::vec((any_name(), any_value()), 0..12),
        bytes: Vec<u8>,
    ) {
        let _ = StoredText::parse(&bytes, BYTES_MAX);
        let members: Vec<_> =
            members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let json = format!("{{{},\"class\":\"A\"}}", members.join(","));
        let json = json.replacen("{,", "{", 1);
        let job = stored(&json);
        let text = to_faktory(&job, "q", Some(NOW));
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(&value["jobtype"], "A");
        prop_assert_eq!(&value["queue"], "q");
        prop_assert!(value["jid"].is_string() && value["retry"].as_i64().is_none_or(|it| it != 0 || job.retry() == 0));
        for text in [enqueued(&job, NOW), failed(&job, &FailureState::default())] {
            let again = StoredText::parse(&text, BYTES_MAX).unwrap();
            prop_assert_eq!(&again.jobtype, "A");
            prop_assert_eq!(again.value("args"), job.value("args"));
        }
    }

    #[test]
    fn a_faktory_job_comes_back_with_all_its_members(
        own in prop::collection::btree_map("[a-z_:]{1,12}", any_value(), 0..6),
        retry in prop::option::of(-3..30_i32),
    ) {
        let server = ["jid", "jobtype", "args", "queue", "at", "retry", "backtrace", "created_at",
            "enqueued_at", "failure", "custom", "reserve_for"];
        let own: Vec<_> = own.iter().filter(|(name, _)| !server.contains(&name.as_str())).collect();
        let mut json = r#"{"jid":"12345678","jobtype":"A","args":[ 1.0 ],"queue":"q""#.to_owned();
        for (name, value) in &own {
            json.push_str(&format!(",\"{name}\" : {value}"));
        }
        json.push_str(&retry.map(|retry| format!(",\"retry\":{}", retry.max(-1))).unwrap_or_default());
        let json = json + "}";
        let back = delivered(&pushed(&json), "q");
        prop_assert!(back.starts_with(&json[..json.len() - 1]), "{back}\n{json}");
    }
}

/// JSON of any shape, as somebody wrote it: spaces, escapes, numbers that no float holds.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any_value(),
        Just("1e999".to_owned()),
        Just("-0.0".to_owned()),
        Just("123456789012345678901234567890.123456789".to_owned()),
        Just(r#""\ud83e\udd80 \u0000 \/""#.to_owned()),
        Just("\"\"".to_owned()),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|it| format!("[ {} ]", it.join(" ,"))),
            prop::collection::vec((any_name(), inner), 0..5).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
                format!("{{{}\t}}", members.join(","))
            }),
        ]
    })
}

fn unknown(payload: &[u8]) -> Vec<(String, String)> {
    super::super::parsing::unknown_members(payload).unwrap()
}

proptest! {
    #[test]
    fn unknown_members_survive_every_step_byte_for_byte(
        members in prop::collection::vec((any_name(), any_json()), 0..10),
        retry_count in 0..30_u32,
        spaces in "[ \t\r\n]{0,3}",
    ) {
        let members: Vec<_> = members
            .iter()
            .filter(|(name, _)| name != "class")
            .map(|(name, value)| format!("\"{name}\"{spaces}:{value}{spaces},"))
            .collect();
        let json = format!("{spaces}{{{}\"class\":\"A\"}}{spaces}", members.concat());
        let expected = unknown(json.as_bytes());
        let failure = FailureState { retry_count, failed_at: NOW, ..FailureState::default() };
        let mut text = json.into_bytes();
        for step in 0..4 {
            let job = StoredText::parse(&text, BYTES_MAX).unwrap();
            let delivered = to_faktory(&job, "q", None);
            let delivered = members::split(std::str::from_utf8(&delivered).unwrap()).unwrap();
            let jobtype = delivered.iter().rfind(|member| member.name == "jobtype").unwrap();
            prop_assert_eq!(jobtype.value, "\"A\"");
            text = if step % 2 == 0 { failed(&job, &failure) } else { enqueued(&job, NOW) };
            prop_assert_eq!(&unknown(&text), &expected);
        }
    }

    #[test]
    fn no_bytes_from_redis_panic(bytes: Vec<u8>, text in "\\PC{0,60}") {
        for bytes in [&*bytes, text.as_bytes()] {
            let _ = super::super::parsing::payload(bytes);
            let _ = super::super::parsing::reply(bytes);
            let _ = super::super::parsing::reservation(&text, bytes);
            let shown = super::super::parsing::shown(bytes);
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&shown).is_ok());
        }
    }
}

//! Property tests of pushed jobs: the result is valid JSON that equals the input, without the
//! members that the server owns and with those that it adds, in the same order.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_123_456);
const NOW_TEXT: &str = "2026-11-20T19:28:22.123456Z";

/// An object's members as text, each with the name that a parser will see.
type MemberTexts = Vec<(String, String)>;

/// Generates any JSON value in any notation.
fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        "-?[1-9][0-9]{0,40}(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?",
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        number,
        text(),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let list = prop::collection::vec((space(), inner.clone(), space()), 0..6);
        let object = prop::collection::vec((space(), text(), space(), inner), 0..6);
        prop_oneof![
            list.prop_map(|items| {
                let items =
                    items.iter().map(|(before, item, behind)| format!("{before}{item}{behind}"));
                format!("[{}]", items.collect::<Vec<_>>().join(","))
            }),
            object.prop_map(|members| {
                let member = |(a, name, b, item): &(String, String, String, String)| {
                    format!("{a}{name}{b}:{a}{item}{b}")
                };
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

/// Generates a JSON string, with characters that must or may be escaped.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z{}\\[\\],:éß\u{1F600} ]",
        1 => Just("\\\"".to_owned()),
        1 => Just("\\\\".to_owned()),
        1 => Just("\\/\\b\\f\\n\\r\\t".to_owned()),
        1 => Just("\\u0041\\u00e9\\uD83D\\uDE00".to_owned()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,2}"
}

/// Generates the same name with some of its characters escaped.
fn escaped(name: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::bool::weighted(0.1), name.len()).prop_map(move |escapes| {
        let letters = name.chars().zip(escapes);
        let letter = |(letter, escape): (char, bool)| {
            if escape { format!("\\u{:04x}", u32::from(letter)) } else { letter.to_string() }
        };
        format!("\"{}\"", letters.map(letter).collect::<String>())
    })
}

/// Generates a member that the server reads, present or absent, with a valid value.
fn known_member(
    name: &'static str,
    values: &'static [&'static str],
) -> impl Strategy<Value = Option<(String, String)>> {
    let value = proptest::sample::select(values).prop_map(str::to_owned);
    prop::option::of((escaped(name), value))
}

fn job() -> impl Strategy<Value = MemberTexts> {
    let required = (escaped("jid"), escaped("jobtype"), escaped("args"), text(), value());
    let required = required.prop_map(|(jid, jobtype, args, kind, payload)| {
        vec![
            Some((jid, "\"jid-\\u00e9-0001\"".to_owned())),
            Some((jobtype, format!("\"T{}", &kind[1..]))),
            Some((args, format!("[{payload}]"))),
        ]
    });
    let known = (
        known_member("queue", &["null", "\"\"", "\"mail\"", "\"m\\u0061il\""]),
        known_member("created_at", &["null", "\"\"", "\"long ago\""]),
        known_member("enqueued_at", &["null", "\"x\"", "[{\"a\":\"]}\"}]"]),
        known_member("failure", &["null", "{\"retry_count\":1,\"message\":\"}\"}"]),
        known_member(
            "at",
            &["null", "\"\"", "\"1999-01-01T00:00:00Z\"", "\"2999-01-01T00:00:00+02:00\""],
        ),
        known_member("retry", &["null", "0", "-1", "25"]),
        known_member("reserve_for", &["null", "600"]),
        known_member("custom", &["null", "{}", "{\"track\":1}"]),
    );
    let known = known.prop_map(|(a, b, c, d, e, f, g, h)| vec![a, b, c, d, e, f, g, h]);
    let others = prop::collection::vec((text(), value()), 0..5);
    (required, known, others).prop_flat_map(|(required, known, others)| {
        let others = others.into_iter().map(|(name, value)| (format!("\"x{}", &name[1..]), value));
        let members: MemberTexts =
            required.into_iter().chain(known).flatten().chain(others).collect();
        Just(members).prop_shuffle()
    })
}

/// Writes an object with white space wherever it is allowed.
fn to_json(members: &MemberTexts, spaces: &[String]) -> String {
    let mut spaces = spaces.iter().cycle();
    let mut space = || spaces.next().map_or("", String::as_str);
    let mut text = format!("{}{{", space());
    for (place, (name, value)) in members.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let (a, b, c, d) = (space(), space(), space(), space());
        text.push_str(&format!("{comma}{a}{name}{b}:{c}{value}{d}"));
    }
    text + "}" + space()
}

fn parsed(text: &str) -> Map<String, Value> {
    match serde_json::from_str(&without_numbers(text)).unwrap() {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

/// Replaces numbers outside strings by strings, because a `Value` can't represent them all.
fn without_numbers(text: &str) -> String {
    let (mut result, mut in_string, mut escaped, mut in_number) =
        (String::new(), false, false, false);
    for letter in text.chars() {
        let is_number = !in_string && (letter.is_ascii_digit() || "+-.".contains(letter))
            || in_number && "eE".contains(letter);
        if is_number != in_number {
            result.push('"');
            in_number = is_number;
        }
        in_string ^= letter == '"' && !escaped;
        escaped = in_string && letter == '\\' && !escaped;
        result.push(letter);
    }
    result
}

proptest! {
    #[test]
    fn stored_job_equals_the_pushed_one_plus_added_members(
        members in job(),
        spaces in prop::collection::vec(space(), 1..9),
    ) {
        let pushed = to_json(&members, &spaces);
        let mut batch = JobBatch::new();
        let job = batch.parse_one(pushed.as_bytes(), NOW, &JobServerLimits::default());
        let job = job.map_err(|error| TestCaseError::fail(format!("{error}: {pushed}")))?;
        let text = std::str::from_utf8(job.json).unwrap();

        let mut expected = parsed(&pushed);
        expected.remove("failure");
        expected.remove("enqueued_at");
        expected.retain(|name, value| {
            let is_empty = value.is_null() || *value == json!("");
            let is_null = value.is_null();
            !(is_empty && matches!(name.as_str(), "queue" | "created_at" | "at")
                || is_null && matches!(name.as_str(), "retry" | "reserve_for" | "custom"))
        });
        expected.entry("queue").or_insert(json!("default"));
        expected.entry("created_at").or_insert(json!(NOW_TEXT));
        // Numbers are compared as texts.
        expected.entry("retry").or_insert(json!("25"));
        if job.at.is_none() {
            expected.insert("enqueued_at".to_owned(), json!(NOW_TEXT));
        }
        prop_assert_eq!(&parsed(text), &expected, "{}", text);
        prop_assert_eq!(job.queue, expected["queue"].as_str().unwrap());
        prop_assert_eq!(job.jobtype, expected["jobtype"].as_str().unwrap());
        prop_assert_eq!(job.jid, "jid-é-0001");

        // Members are never duplicated, which a `Value` would hide, and the base alone is a job
        // too.
        prop_assert!(JobMembers::read(text).unwrap().duplicate.is_none(), "{}", text);
        let base = format!("{}}}", &text[..job.base_bytes]);
        let mut without_tail = expected;
        without_tail.remove("enqueued_at");
        prop_assert_eq!(parsed(&base), without_tail);
    }

    #[test]
    fn kept_members_are_unchanged(
        members in job(),
        spaces in prop::collection::vec(space(), 1..9),
    ) {
        let pushed = to_json(&members, &spaces);
        let mut batch = JobBatch::new();
        let job = batch.parse_one(pushed.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
        let text = std::str::from_utf8(job.json).unwrap();
        // Every member that the server does not own is unchanged and in order.
        let mut from = 0;
        for (name, value) in &members {
            let known: String = serde_json::from_str(name).unwrap();
            let owned = ["failure", "enqueued_at", "queue", "created_at", "at"];
            let cut = value == "null" && ["retry", "reserve_for", "custom"].contains(&known.as_str());
            if !cut && !owned.contains(&known.as_str()) {
                let at = text[from..].find(name.as_str());
                let at = at.ok_or_else(|| TestCaseError::fail(format!("{name} in {text}")))?;
                let behind = &text[from + at + name.len()..];
                let found = behind.trim_start().strip_prefix(':').unwrap().trim_start();
                prop_assert!(found.starts_with(value.as_str()), "{} in {}", value, text);
                // Continue after the value, because it may contain a name too.
                from = text.len() - found.len() + value.len();
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let mut batch = JobBatch::new();
        prop_assert!(batch.parse_one(&bytes, NOW, &JobServerLimits::default()).is_err());
        let _ = batch.parse_array(&bytes, NOW, &JobServerLimits::default());
    }

    #[test]
    fn corrupted_job_is_rejected_or_valid(
        members in job(),
        spaces in prop::collection::vec(space(), 1..9),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut pushed = to_json(&members, &spaces).into_bytes();
        let at = at.index(pushed.len());
        pushed[at] = byte;
        if let Ok(job) = JobBatch::new().parse_one(&pushed, NOW, &JobServerLimits::default()) {
            let text = std::str::from_utf8(job.json).unwrap();
            prop_assert!(serde_json::from_str::<Box<RawValue>>(text).is_ok(), "{}", text);
            prop_assert!(JobMembers::read(text).unwrap().duplicate.is_none(), "{}", text);
        }
    }

    #[test]
    fn batch_equals_its_single_jobs(
        jobs in prop::collection::vec((job(), any::<bool>()), 0..6),
    ) {
        let text = |(members, is_good): &(MemberTexts, bool)| {
            if *is_good { to_json(members, &[String::new()]) } else { "{\"jid\":\"bad-job-1\"}".to_owned() }
        };
        let texts: Vec<String> = jobs.iter().map(text).collect();
        let array = format!("[{}]", texts.join(" ,\n"));
        let mut batch = JobBatch::new();
        let rejected = batch.parse_array(array.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
        let bad: Vec<usize> = (0..jobs.len()).filter(|place| !jobs[*place].1).collect();
        prop_assert_eq!(rejected.iter().map(|r| r.index).collect::<Vec<_>>(), bad);
        prop_assert!(rejected.iter().all(|r| r.jid == "bad-job-1"));
        let mut single = JobBatch::new();
        let good = texts.iter().zip(&jobs).filter(|(_, (_, is_good))| *is_good);
        let found = batch.jobs();
        prop_assert_eq!(found.len(), good.clone().count());
        for ((text, _), found) in good.zip(found) {
            let alone = single.parse_one(text.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
            prop_assert_eq!(alone, found);
        }
    }
}

use super::*;
use serde_json::Value;

const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_123_456);
const NOW_TEXT: &str = "2026-11-20T19:28:22.123456Z";

/// Returns what the server adds to a job that has only the required members.
fn all_added() -> String {
    format!(
        r#","created_at":"{NOW_TEXT}","queue":"default","retry":25,"enqueued_at":"{NOW_TEXT}"}}"#
    )
}

fn parse<R>(json: &str, check: impl FnOnce(Result<NewJob<'_>, JobError>) -> R) -> R {
    check(JobBatch::new().parse_one(json.as_bytes(), NOW, &JobServerLimits::default()))
}

fn stored_text(json: &str) -> String {
    parse(json, |job| String::from_utf8(job.unwrap().json.to_vec()).unwrap())
}

fn error_of(json: &str) -> String {
    parse(json, |job| job.unwrap_err().to_string())
}

fn job_with(members: &str) -> String {
    format!(r#"{{"jid":"12345678","jobtype":"T","args":[],{members}}}"#)
}

#[test]
fn minimal_job_gets_the_defaults() {
    let json = r#"{"jid":"12345678","jobtype":"T","args":[]}"#;
    parse(json, |job| {
        let job = job.unwrap();
        assert_eq!((job.jid, job.jobtype, job.queue), ("12345678", "T", "default"));
        assert_eq!((job.reserve_for_seconds, job.retry, job.backtrace), (1_800, 25, 50));
        assert_eq!(job.at, None);
    });
    assert_eq!(stored_text(json), format!("{}{}", &json[..json.len() - 1], all_added()));
}

#[test]
fn pushed_text_is_kept_byte_for_byte() {
    let odd = "{ \"args\" : [109326485893512345, 1e400, -0.0,\"\\u00e9é\\/\"]\t,\"zzz\": {\"b\":1,\"a\":2} ,\
               \"jid\":\"12345678\",\"jobtype\":\"T\", \"custom\":{ }, \"zzz\":1 }";
    let kept = &odd[..odd.len() - 1];
    assert_eq!(stored_text(&format!(" {odd}\t")), format!("{kept}{}", all_added()));
}

#[test]
fn given_members_are_not_added() {
    let json = job_with(r#""created_at":"yesterday","queue":"q.1_-","retry":3"#);
    let kept = &json[..json.len() - 1];
    assert_eq!(stored_text(&json), format!(r#"{kept},"enqueued_at":"{NOW_TEXT}"}}"#));
}

#[test]
fn server_members_are_removed() {
    let check = |json: &str, kept: &str| {
        assert_eq!(stored_text(json), format!("{kept}{}", all_added()), "{json}");
    };
    let end = r#""jid":"12345678","jobtype":"T","args":[]"#;
    let owned = r#""enqueued_at":"x""#;
    check(&format!("{{{owned},{end}}}"), &format!("{{{end}"));
    check(&format!("{{ {owned} , {end}}}"), &format!("{{ {end}"));
    check(&format!(r#"{{{owned},"failure":{{"a":[1,"}}"]}} , {end}}}"#), &format!("{{ {end}"));
    check(&format!(r#"{{{owned},{end},"failure":null }}"#), &format!("{{{end} "));
    check(&format!("{{{end} , {owned}}}"), &format!("{{{end}"));
    check(
        &format!(r#"{{"a":1,"queue":null ,"created_at":"", "at":"","failure":1,{end},{owned}}}"#),
        &format!(r#"{{"a":1,{end}"#),
    );
    check(&format!(r#"{{"enqueued\u005fat":1,{end}}}"#), &format!("{{{end}"));
}

#[test]
fn scheduled_job_has_no_enqueued_at() {
    let json = job_with(r#""at":"2026-11-20T20:28:23.5+01:00""#);
    parse(&json, |job| {
        let job = job.unwrap();
        assert_eq!(job.at, Some(Timestamp::from_micros(1_795_202_903_500_000)));
        assert!(!String::from_utf8_lossy(job.json).contains("enqueued_at"));
        assert_eq!(job.base_bytes + 1, job.json.len());
    });
}

#[test]
fn past_time_means_now() {
    for past in [NOW_TEXT, "1960-01-01T00:00:00Z", "0000-01-01T00:00:00Z"] {
        parse(&job_with(&format!(r#""at":"{past}""#)), |job| assert_eq!(job.unwrap().at, None));
    }
}

#[test]
fn numbers_follow_the_protocol() {
    let check = |members: &str, reserve_for: u32, retry: i32, backtrace: u32| {
        parse(&job_with(members), |job| {
            let job = job.unwrap();
            let found = (job.reserve_for_seconds, job.retry, job.backtrace);
            assert_eq!(found, (reserve_for, retry, backtrace), "{members}");
        });
    };
    check(r#""reserve_for":null,"retry":null,"backtrace":null"#, 1_800, 25, 50);
    check(r#""reserve_for":0,"retry":0,"backtrace":0"#, 1_800, 0, 50);
    check(r#""reserve_for":1,"retry":-1,"backtrace":5"#, 60, -1, 5);
    check(r#""reserve_for":86400,"retry":-7,"backtrace":51"#, 86_400, -7, 50);
    check(r#""reserve_for":61,"retry":2147483647,"backtrace":-1"#, 61, i32::MAX, 50);
    check(r#""retry":9223372036854775807,"backtrace":99999999999"#, 1_800, i32::MAX, 50);
    check(r#""retry":-9223372036854775808"#, 1_800, i32::MIN, 50);
}

#[test]
fn errors_describe_the_problem() {
    let check = |json: &str, expected: &str| assert_eq!(error_of(json), expected, "{json}");
    let jid = "jobs must have a reasonable jid parameter: a string of at least 8 bytes";
    check("{}", jid);
    check(r#"{"jid":"1234567","jobtype":"T","args":[]}"#, jid);
    check(r#"{"jid":null,"jobtype":"T","args":[]}"#, jid);
    let jobtype = "jobs must have a jobtype parameter";
    check(r#"{"jid":"12345678","args":[]}"#, jobtype);
    check(r#"{"jid":"12345678","jobtype":"","args":[]}"#, jobtype);
    let args = "jobs must have an args parameter";
    check(r#"{"jid":"12345678","jobtype":"T"}"#, args);
    check(r#"{"jid":"12345678","jobtype":"T","args":null}"#, args);
    check(r#"{"jid":"12345678","jobtype":"T","args":{}}"#, "malformed job: args must be an array");
    check(r#"{"jid":12345678,"jobtype":"T","args":[]}"#, "malformed job: jid must be a string");
    check(
        &job_with(r#""queue":"a b""#),
        "malformed job: queue name has a character outside [a-zA-Z0-9._-]",
    );
    check(&job_with(r#""queue":5"#), "malformed job: queue must be a string");
    check(&job_with(r#""created_at":5"#), "malformed job: created_at must be a string");
    check(&job_with(r#""custom":[]"#), "malformed job: custom must be an object");
    check(
        &job_with(r#""at":"2999-01-01""#),
        "malformed job: at is not an RFC 3339 time: \
         it must look like 2026-11-20T19:28:22Z or 2026-11-20T19:28:22.5+01:00",
    );
    let reserve_for = "jobs cannot be reserved for more than one day";
    check(&job_with(r#""reserve_for":86401"#), reserve_for);
    check(&job_with(r#""reserve_for":9223372036854775807"#), reserve_for);
    check(&job_with(r#""reserve_for":-1"#), "malformed job: reserve_for must not be negative");
    let retry = "malformed job: retry must be a whole number below 2^63";
    check(&job_with(r#""retry":1e400"#), retry);
    check(&job_with(r#""retry":9223372036854775808"#), retry);
    check(&job_with(r#""retry":true"#), retry);
    check(&job_with(r#""retry":"5""#), retry);
    check(&job_with(r#""jid":"12345678""#), "malformed job: jid is there twice");
    check(&job_with(r#""failure":1,"failure":1"#), "malformed job: failure is there twice");
    check(&job_with(r#""x":"\ud800""#), "malformed job: an escape is half of a surrogate pair");
}

#[test]
fn invalid_jobs_are_rejected() {
    let deep = format!("{}1{}", "[".repeat(128), "]".repeat(128));
    assert_eq!(
        error_of(&job_with(&format!(r#""x":{deep}"#))),
        "malformed job: nests deeper than 128 (jobs.limits.advanced.json_depth_max)"
    );
    let endless = "[".repeat(1_000_000);
    let giant_text = format!("\"{}\"", "x".repeat(1_000_000));
    let cases = ["", " ", "null", "5", "[]", "\u{feff}{}", "{", r#"{"jid""#, r#"{"jid":}"#];
    for json in cases.into_iter().chain([endless.as_str(), &giant_text]) {
        let error = error_of(json);
        assert!(error.starts_with("malformed job: "), "{error}");
        assert!(error.len() < 300, "{error}");
    }
    assert!(error_of(&format!("{} x", job_with(r#""a":1"#))).contains("trailing characters"));
    assert!(error_of(&job_with(r#""a":01"#)).starts_with("malformed job: "));
    assert!(error_of(&job_with("\"a\":\"\n\"")).starts_with("malformed job: "));
}

#[test]
fn invalid_utf8_is_rejected() {
    for json in [&b"\xff"[..], b"{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":[\"\xc3\x28\"]}"]
    {
        let mut batch = JobBatch::new();
        let error = batch.parse_one(json, NOW, &JobServerLimits::default()).unwrap_err();
        assert!(error.to_string().starts_with("malformed job: invalid utf-8"), "{error}");
    }
}

#[test]
fn huge_number_is_kept_in_args_and_rejected_in_retry() {
    let digits = "9".repeat(1_000_000);
    assert!(stored_text(&job_with(&format!(r#""x":{digits}"#))).contains(&digits));
    assert!(error_of(&job_with(&format!(r#""retry":{digits}"#))).contains("below 2^63"));
}

#[test]
fn errors_name_the_limit() {
    let long = "x".repeat(256);
    let check = |json: &str, limit: &str| {
        parse(json, |job| {
            let error = job.unwrap_err();
            assert_eq!(error.limit(), Some(limit));
            assert!(error.to_string().contains(limit), "{error}");
        });
    };
    check(&format!(r#"{{"jid":"{long}","jobtype":"T","args":[]}}"#), "id_bytes_max");
    check(&format!(r#"{{"jid":"12345678","jobtype":"{long}","args":[]}}"#), "id_bytes_max");
    check(&job_with(&format!(r#""queue":"{long}""#)), "queue_name_bytes_max");
}

#[test]
fn batch_accepts_valid_jobs() {
    let array = r#" [ {"jid":"job-0001","jobtype":"A","args":[]} , {"jid":"job-0002","args":[]},
        7, {"jid":"job-0004","jobtype":"D","args":[2],"queue":"q"}] "#;
    let mut batch = JobBatch::new();
    let rejected = batch.parse_array(array.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
    let found: Vec<_> = batch.jobs().iter().map(|job| (job.jid, job.queue)).collect();
    assert_eq!(found, [("job-0001", "default"), ("job-0004", "q")]);
    let errors: Vec<_> = rejected.iter().map(|r| (r.index, r.jid.as_str())).collect();
    assert_eq!(errors, [(1, "job-0002"), (2, "")]);
    for job in batch.jobs() {
        serde_json::from_slice::<Value>(job.json).unwrap();
    }
}

#[test]
fn incomplete_array_leaves_nothing() {
    let whole = r#"[{"jid":"job-0001","jobtype":"A","args":[]}]"#;
    let mut batch = JobBatch::new();
    for broken in [&whole[..whole.len() - 1], "{}", "", &format!("{whole} 1")] {
        let result = batch.parse_array(broken.as_bytes(), NOW, &JobServerLimits::default());
        assert!(matches!(result, Err(JobError::Malformed(_))), "{broken}");
        assert!(batch.is_empty());
    }
    assert_eq!(batch.parse_array(b"[]", NOW, &JobServerLimits::default()), Ok(vec![]));
}

#[test]
fn batch_above_the_limit_is_rejected() {
    let limits = JobServerLimits { pushb_jobs_max: 2, ..JobServerLimits::default() };
    let job = r#"{"jid":"job-0001","jobtype":"A","args":[]}"#;
    let mut batch = JobBatch::new();
    let mut count = |json: String| batch.parse_array(json.as_bytes(), NOW, &limits);
    assert_eq!(count(format!("[{job},{job}]")), Ok(vec![]));
    assert_eq!(count(format!("[{job},{job},{job}]")), Err(JobError::TooMany { max: 2 }));
    assert_eq!(count(format!("[{job},{job},{job},{job}]")), Err(JobError::TooMany { max: 2 }));
}

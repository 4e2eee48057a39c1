//! Who is answered, and how much one may ask for.

use super::{GEMS, client, import, line, site};
use crate::http::get;

#[test]
fn half_closed_client_is_answered_and_its_push_is_atomic() {
    let weir = site(GEMS).start();
    let key = client::key(&weir);
    for number in 0..10 {
        let answer = client::push_and_shut_down(&weir, &key, &format!("whole-{number}"), 0);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let answer = client::push_and_shut_down(&weir, &key, &format!("half-{number}"), 1);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let expected: String = (0..10).map(|number| format!("whole-{number}\n")).collect();
    assert_eq!(get(weir.gems(), "/names", "").1, format!("---\n{expected}"));
    assert!(weir.stop().success());
}

#[test]
fn one_client_cannot_use_all_response_memory() {
    let more = format!(
        "[front]\ntrusted_proxies = [\"127.0.0.1\"]\n{GEMS}\
         [gems.limits]\nadvanced.dependency_answer_bytes_max = \"1KiB\"\n\
         dependency_memory_bytes_max = \"64KiB\"\nclient_memory_percent_max = 1\n"
    );
    let weir = site(&more).start();
    // Some answer has less than 1 KiB, and more together with what it is made from.
    let numbers: Vec<String> = (1..20).map(|number| format!("{number}.0")).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let lines = (1..20).map(|count| line(&format!("g{count}"), &numbers[..count]));
    import(&weir.site, &lines.collect::<String>());
    let ask = |count: usize, header: &str| {
        let path = format!("/api/v1/dependencies.json?gems=g{count}");
        get(weir.gems(), &path, header)
    };
    let refused = (1..20).map(|count| (count, ask(count, "X-Forwarded-For: 192.0.2.7\r\n")));
    let refused = refused.filter(|(_, (status, _))| status.contains(" 503 "));
    let (count, (_, text)) = refused.min_by_key(|(count, _)| *count).expect("a refusal");
    assert!(text.contains("gems.limits.client_memory_percent_max"), "{text}");
    // A proxy on this machine speaks for nobody in particular.
    assert_eq!(ask(count, "").0, "HTTP/1.1 200 OK");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let hit = "weir_gems_limit_hits_total{limit=\"client_memory_percent_max\"}";
    assert!(metrics.contains(hit) && !metrics.contains(&format!("{hit} 0\n")), "{metrics}");
    assert!(weir.stop().success());
}

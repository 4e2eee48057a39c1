//! What the console's port answers for machines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::faktory::Client;
use crate::process::{TEST_TIMEOUT, output_of};
use crate::weir::{Site, Weir};

/// Sends a GET request; returns the status line and the body.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> (String, String) {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
    send_request(address, &request)
}

/// Posts a form; returns the status line.
pub(crate) fn post(address: SocketAddr, path: &str, form: &str) -> String {
    let length = form.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n{form}"
    );
    send_request(address, &request).0
}

/// Sends a complete request; returns the status line and the body.
pub(crate) fn send_request(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[test]
fn metrics_use_the_accepted_format() {
    let weir = Weir::start();
    let (_, openmetrics) = get(weir.console(), "/metrics", "");
    assert!(openmetrics.ends_with("# EOF\n"), "{openmetrics}");
    let (_, text) = get(weir.console(), "/metrics", "Accept: text/plain\r\n");
    assert!(text.contains("\n# TYPE weir_jobs_pushed_total counter\n"), "{text}");
    assert!(!text.contains("# EOF"), "{text}");
    assert!(weir.stop().success());
}

#[test]
fn health_ready_and_metrics_respond() {
    let weir = Weir::start();
    let console = weir.console();
    assert_eq!(get(console, "/health", ""), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(get(console, "/ready", ""), ("HTTP/1.1 200 OK".into(), "ready\n".into()));
    let mut client = Client::connect(weir.jobs());
    client.run_command(r#"PUSH {"jid":"it-job-0001","jobtype":"Hello","args":[]}"#);
    let (status, metrics) = get(console, "/metrics", "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for name in ["weir_jobs_", "process_cpu_seconds_total", "process_resident_memory_bytes"] {
        assert!(metrics.contains(name), "{name} is missing:\n{metrics}");
    }
    assert!(weir.stop().success());
}

#[test]
fn admin_api_over_tcp_requires_the_token() {
    let site = Site::new("");
    std::fs::write(site.path().join("token"), "0123456789abcdef0123").expect("written");
    site.write(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n[console]\n\
         listen = \"127.0.0.1:0\"\ntoken = { file = \"token\" }\npassword = { file = \"token\" }\n",
    );
    let weir = site.start();
    let (refused, _) = get(weir.console(), "/v1/status", "");
    assert!(!refused.contains("200"), "{refused}");
    let url = format!("http://{}", weir.console());
    let run = |token: &str| {
        let mut command = crate::weir::program();
        command.env("WEIR_TEST_TOKEN", token);
        command.args(["status", "--url", &url, "--token-env", "WEIR_TEST_TOKEN"]);
        output_of(&mut command)
    };
    let status = run("0123456789abcdef0123");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let wrong = run("wrong");
    assert_eq!(wrong.status.code(), Some(2));
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(error.contains("Weir rejected the token"), "{error}");
    let without = weir.site.run(&["status", "--url", &url]);
    assert_eq!(without.status.code(), Some(2));
    let error = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(error.contains("only with a token") && error.contains("--token-env"), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn console_without_a_password_is_read_without_a_token() {
    let weir = Site::new("").start();
    let url = format!("http://{}", weir.console());
    let status = weir.site.run(&["status", "--url", &url]);
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    // Another site's page could send a change, but does not know the token.
    let change = weir.site.run(&["jobs", "push", "Greet", "[]", "--url", &url]);
    assert_eq!(change.status.code(), Some(2));
    let error = String::from_utf8_lossy(&change.stderr).into_owned();
    assert!(error.contains("only with a token"), "{error}");
    assert!(weir.stop().success());
}

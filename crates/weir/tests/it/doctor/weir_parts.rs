//! `weir doctor --weir`: what a running Weir measures of its own parts.

use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use weir_advisor::observation::{Fact, Observation, RequestPath};

use super::follow::{find, find_in_time};
use super::page::show;
use super::{code, json, run};
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, program};

/// Answers after a third of a second and says that it took 20 ms: as one behind a queue of its own.
const SLOW_APP: &str = r#"
import http.server, os, socket, sys, time
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(0.3)
        self.send_response(200)
        self.send_header("X-Runtime", "0.020000")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def address_string(self):
        return "unix"
    def log_message(self, *arguments):
        pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_UNIX
    def server_bind(self):
        self.socket.bind(self.server_address)
    def get_request(self):
        request, _ = self.socket.accept()
        return request, ("unix", 0)
Server(sys.argv[1], App).serve_forever()
"#;

fn socket(weir: &Weir) -> String {
    format!("unix:{}", weir.data_dir().join("weir.sock").display())
}

#[test]
fn queue_without_worker_is_found_and_a_worker_ends_it() {
    let weir = Site::new("").start();
    // Not as a worker: one that ended counts as connected for a minute.
    let mut client = Client::connect_without_command(weir.jobs());
    assert_eq!(client.run_command("HELLO {\"v\":2}"), "+OK");
    client.run_command(r#"PUSH {"jid":"it-job-0001","jobtype":"Hello","args":[],"queue":"pull"}"#);
    let source = socket(&weir);
    let arguments = ["--weir", &source, "--window", "500ms"];
    let cause = "`--weir`, with a job in `pull`, and no worker";
    let found = find_in_time(&arguments, "weir-verdict", cause, "No worker is connected");
    let output = found.run_in(weir.site.path(), &[]);
    assert!(output.contains("worker"), "{output}");
    // The text says to start a worker that fetches the queue.
    let mut worker = Client::connect(weir.jobs());
    assert!(worker.run_command("FETCH pull").contains("it-job-0001"));
    worker.run_command(r#"ACK {"jid":"it-job-0001"}"#);
    show(&[found.healed_in_time(&arguments)]);
    assert!(weir.stop().success());
}

/// Returns the finding about the stages of requests. Of Weir's parts there may be others, for example while an app starts.
fn stages(advice: &Value) -> Option<&Value> {
    advice["findings"].as_array()?.iter().find(|finding| finding["rule"] == "time-outside-app")
}

#[test]
fn request_stages_are_reported() {
    let site = Site::new(
        "[[front.apps]]\nname = \"shop\"\nworkers = 1\nconcurrency = 8\n\
         command = [\"python3\", \"app.py\", \"{socket}\"]\n[front]\nlisten = \"127.0.0.1:0\"\n",
    );
    std::fs::write(site.path().join("app.py"), SLOW_APP).expect("written");
    let weir = site.start();
    let (front, source) = (weir.front(), socket(&weir));
    wait_until("the app serves", || get(front, "/", "").0 == "HTTP/1.1 200 OK");
    let arguments = ["--weir", &source, "--window", "1ms"];
    // Enough for a percentile, after Weir has measured what was before.
    let mut advice = Value::Null;
    wait_until("it is found", || {
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| get(front, "/", ""))).collect();
            asked.into_iter().for_each(|asked| drop(asked.join().expect("an answer")));
        });
        advice = json(&arguments);
        stages(&advice).is_some()
    });
    let finding = stages(&advice).expect("it was found");
    assert_eq!(finding["subject"], "app shop");
    let evidence = finding["evidence"].as_str().expect("evidence");
    assert!(
        evidence.starts_with("the app says 2") || evidence.starts_with("the app says 1"),
        "{evidence}"
    );
    assert!(evidence.contains("for a free worker") && evidence.contains("elsewhere"), "{evidence}");
    let cause = "`--weir`, with an app that takes a third of a second and says that it takes 20 ms";
    let found = find(&advice, "time-outside-app", cause, "for a free worker");
    show(&[found.not_followed("the app hides a queue of its own")]);
    let output = run(&arguments);
    assert_eq!(code(&output), 1);
    assert!(weir.stop().success());
}

/// A day can't be waited for: the row has what doctor says of the figures of one.
#[test]
fn workers_that_were_idle_for_a_day_are_reported() {
    let path = RequestPath {
        app: "shop".to_owned(),
        inside: Duration::from_millis(60),
        waiting: Duration::from_millis(1),
        outside: Duration::from_millis(65),
        workers: 16,
        slots: 16,
        busy_peak: 1,
        busy_peak_of_day: Some(2),
    };
    let requests = Fact::Known(vec![path]);
    let advice = weir_advisor::advise(&Observation { requests, ..Observation::default() });
    let advice = serde_json::to_value(advice).expect("JSON");
    let cause = "an app with 16 workers, of which 2 were busy at once at most within a day";
    let found = find(&advice, "idle-workers", cause, "app shop");
    assert_eq!(found.line(), "workers = 4");
    show(&[found.not_followed("the figures are made up: a test can't wait for a day")]);
}

#[test]
fn unreachable_or_rejecting_weir_is_reported() {
    let missing = |output: &Output| {
        assert_eq!(code(output), 1, "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let away = missing(&run(&["--weir", "http://127.0.0.1:1", "--window", "1ms"]));
    assert!(away.contains("CRITICAL  Weir http://127.0.0.1:1  [unreachable]"), "{away}");
    assert_eq!(away.matches("  [").count(), 1, "said once: {away}");
    for url in ["127.0.0.1:7420", "ftp://127.0.0.1:7420", "unix:"] {
        let output = run(&["--weir", url]);
        assert_eq!(code(&output), 64);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("--weir"), "{error}");
    }

    let site = Site::new("");
    std::fs::write(site.path().join("token"), "0123456789abcdef0123").expect("written");
    site.write(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n[console]\n\
         listen = \"127.0.0.1:0\"\ntoken = { file = \"token\" }\npassword = { file = \"token\" }\n",
    );
    let weir = site.start();
    let url = format!("http://{}", weir.console());
    let refused = missing(&run(&["--weir", &url, "--window", "1ms"]));
    assert!(refused.contains("it requires a token"), "{refused}");
    assert!(refused.contains("--weir-token-env"), "{refused}");
    assert!(!refused.contains("--token-env"), "an option of other commands: {refused}");
    let file = weir.site.path().join("token").display().to_string();
    let mut command = program();
    command.args(["doctor", "--weir", &url, "--weir-token-file", &file, "--window", "1ms"]);
    let output = crate::process::output_of(&mut command);
    assert_eq!((code(&output), String::from_utf8_lossy(&output.stdout).as_ref()), (0, ""));
    assert!(weir.stop().success());
}

//! Users and tokens with roles, and the audit log, in the whole product.

use std::net::SocketAddr;
use std::sync::LazyLock;

use rustix::process::Signal;
use serde_json::Value;
use weir_access::Role;
use weir_access::rules::RULES;

use crate::http::{get, send_request};
use crate::process::{output_of, output_with_input, wait_until};
use crate::weir::{Site, Weir, program};

const PASSWORD: &str = "correct horse battery staple";

/// The hash of the password, made by the command for it.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut command = program();
    command.args(["console", "hash-password"]);
    let output = output_with_input(&mut command, format!("{PASSWORD}\n").as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
});

fn user(name: &str, role: &str) -> String {
    format!("[console.users.{name}]\npassword_hash = \"{}\"\nrole = \"{role}\"\n", *HASH)
}

fn token_of(role: Role) -> String {
    format!("a-token-with-the-role-{role}")
}

const PORTS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n";

/// A site with these users, and a token for each role.
fn site(users: &str) -> Site {
    let site = Site::new("");
    let mut tokens = String::new();
    for role in Role::ALL {
        site.write_file(&format!("token-{role}"), token_of(role).as_bytes());
        tokens += &format!(
            "[console.tokens.ci-{role}]\ntoken = {{ file = \"token-{role}\" }}\nrole = \"{role}\"\n"
        );
    }
    site.write(&format!("{PORTS}{users}{tokens}"));
    site
}

/// Posts JSON with a token; returns the status and the body.
fn post_json(address: SocketAddr, path: &str, token: &str, body: &str) -> (String, String) {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nConnection: close\r\n\r\n{body}"
    );
    send_request(address, &request)
}

/// Logs in; returns the session's cookie, or the status.
fn log_in(address: SocketAddr, user: &str, password: &str) -> Result<String, String> {
    let (_, page) = get(address, "/login", "");
    let csrf = page.split_once("name=\"csrf\" value=\"").expect("a form").1;
    let csrf = csrf.split('"').next().expect("a value");
    let form = format!("csrf={csrf}&user={user}&password={}", password.replace(' ', "+"));
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n{form}",
        form.len()
    );
    let mut stream = std::net::TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(crate::process::TEST_TIMEOUT)).expect("a timeout");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("written");
    let mut response = String::new();
    std::io::Read::read_to_string(&mut stream, &mut response).expect("read");
    let cookie = response.split_once("weir_session=").map(|(_, rest)| rest);
    match cookie.and_then(|rest| rest.split(';').next()) {
        Some(session) => Ok(format!("Cookie: weir_session={session}\r\n")),
        None => Err(response.lines().next().unwrap_or_default().to_owned()),
    }
}

fn audit(weir: &Weir) -> Vec<Value> {
    let page: Value = serde_json::from_str(&weir.site.ok(&["audit", "--json"])).expect("JSON");
    page["entries"].as_array().expect("a list").clone()
}

/// The name of the Unix user that runs this test.
fn unix_user() -> String {
    let output = output_of(std::process::Command::new("id").arg("-un"));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

#[test]
fn each_token_may_send_what_its_role_allows() {
    let weir = site("").start();
    let console = weir.console();
    let rules = RULES.iter().filter(|rule| rule.is_of_api());
    for rule in rules {
        let path = rule.path.replace("{id}", "1");
        for role in Role::ALL.into_iter().filter(|role| *role < rule.role) {
            let (status, body) = post_json(console, &path, &token_of(role), "{}");
            assert_eq!(status, "HTTP/1.1 403 Forbidden", "{role} {path}");
            let needed = format!(
                "token ci-{role} has the role {role}, and this needs the role {}",
                rule.role
            );
            assert!(body.contains(&needed), "{body}");
        }
        // An admin would restart Weir.
        if rule.role == Role::Operator {
            let (status, body) = post_json(console, &path, &token_of(Role::Operator), "{}");
            assert!(!status.contains("403"), "{path}: {status} {body}");
        }
    }
    let (status, _) = post_json(console, "/v1/jobs/push", "a-token-of-nobody", "{}");
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");
    for (role, expected) in
        [("viewer", "403 Forbidden"), ("operator", "403 Forbidden"), ("admin", "200 OK")]
    {
        let header = format!("Authorization: Bearer a-token-with-the-role-{role}\r\n");
        let (status, _) = get(console, "/v1/audit", &header);
        assert_eq!(status, format!("HTTP/1.1 {expected}"), "{role}");
        let (status, _) = get(console, "/v1/status", &header);
        assert_eq!(status, "HTTP/1.1 200 OK", "{role}");
    }
    assert!(weir.stop().success());
}

#[test]
fn a_command_with_a_token_that_may_not_says_which_role_it_needs() {
    let weir = site("").start();
    weir.site.ok(&["jobs", "push", "Hello", "[1]"]);
    let url = format!("http://{}", weir.console());
    let mut command = program();
    command.env("WEIR_TEST_TOKEN", token_of(Role::Viewer));
    command.args(["jobs", "pause", "default", "--url", &url, "--token-env", "WEIR_TEST_TOKEN"]);
    let output = output_of(&mut command);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    let sentence = "token ci-viewer has the role viewer, and this needs the role operator";
    assert!(error.contains(sentence), "{error}");
    let newest = &audit(&weir)[0];
    assert_eq!(
        (newest["user"].as_str(), newest["outcome"].as_str()),
        (Some("token ci-viewer"), Some("forbidden"))
    );
    assert!(weir.stop().success());
}

#[test]
fn a_removed_user_is_logged_out_by_a_reload() {
    let mut weir = site(&(user("ann", "viewer") + &user("ben", "admin"))).start();
    let console = weir.console();
    assert_eq!(log_in(console, "ann", "wrong"), Err("HTTP/1.1 401 Unauthorized".to_owned()));
    let ann = log_in(console, "ann", PASSWORD).expect("logged in");
    let ben = log_in(console, "ben", PASSWORD).expect("logged in");
    assert_eq!(get(console, "/queues", &ann).0, "HTTP/1.1 200 OK");
    assert_eq!(get(console, "/audit", &ann).0, "HTTP/1.1 403 Forbidden");
    assert_eq!(get(console, "/audit", &ben).0, "HTTP/1.1 200 OK");
    weir.site.write(&format!("{PORTS}{}", user("ben", "admin")));
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    assert_eq!(get(console, "/queues", &ann).0, "HTTP/1.1 303 See Other");
    assert_eq!(get(console, "/audit", &ben).0, "HTTP/1.1 200 OK");
    let header = format!("Authorization: Bearer {}\r\n", token_of(Role::Admin));
    assert_eq!(
        get(console, "/v1/audit", &header).0,
        "HTTP/1.1 401 Unauthorized",
        "no token is left"
    );
    // A console that had a login keeps one.
    weir.site.write(PORTS);
    weir.signal(Signal::HUP);
    weir.wait_for_log("console changed: needs `weir restart`");
    assert_eq!(get(console, "/queues", "").0, "HTTP/1.1 303 See Other");
    assert!(weir.stop().success());
}

#[test]
fn changes_by_the_command_line_are_recorded_with_the_unix_user_and_survive_a_kill() {
    let weir = Site::new("[admin]\naudit_bytes_max = \"64KiB\"\n").start();
    weir.site.ok(&["jobs", "push", "Hello", "[\"hidden\"]", "--queue", "mailers"]);
    weir.site.ok(&["jobs", "pause", "mailers"]);
    weir.site.ok(&["jobs", "list"]);
    let user = unix_user();
    let rows = |entries: &[Value]| -> Vec<String> {
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let names = ["user", "role", "via", "action", "target", "outcome"];
        let row = |entry| names.map(|name| text(entry, name)).join("|");
        entries.iter().map(row).collect()
    };
    let expected = [
        format!("{user}|admin|socket|queue pause|queues=mailers|done"),
        format!("{user}|admin|socket|jobs push||done"),
    ];
    assert_eq!(rows(&audit(&weir)), expected);
    let table = weir.site.ok(&["audit"]);
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("TIME") && lines[2].contains("queue pause"), "{table}");
    assert!(!table.contains("hidden"));

    let (service, site) = (weir.service(), weir.kill_parent());
    wait_until("the service ends", || !crate::weir::is_running(service));
    let weir = site.start();
    assert_eq!(rows(&audit(&weir)), expected, "nothing is lost");
    assert_eq!(weir.site.ok(&["audit", "--user", "eve"]), "no changes\n");
    let queues = weir.site.ok(&["audit", "--action", "queue", "--json"]);
    assert!(queues.contains("queue pause") && !queues.contains("jobs push"), "{queues}");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_audit_write_failures_total 0"), "{metrics}");
    assert!(weir.stop().success());
}

#[test]
fn a_restart_is_recorded_once() {
    let weir = Site::new("").start();
    weir.site.ok(&["restart"]);
    let entries = audit(&weir);
    let actions: Vec<_> = entries.iter().map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions, [Some("restart")]);
    assert_eq!(entries[0]["outcome"], "done");
    assert!(weir.stop().success());
}

#[test]
fn a_full_disk_blocks_no_operator_and_is_reported() {
    let mut weir = Weir::start();
    // Every write to it fails with ENOSPC.
    std::fs::create_dir(weir.data_dir().join("audit")).expect("made");
    let file = weir.data_dir().join("audit").join("audit.jsonl");
    std::os::unix::fs::symlink("/dev/full", &file).expect("made");
    weir.site.ok(&["jobs", "pause", "--all"]);
    weir.wait_for_log("the audit log cannot be written");
    let output = weir.site.run(&["audit"]);
    let (shown, warned) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("queue pause"), "{shown}");
    assert!(
        warned.contains("1 change in memory only, because the audit log cannot be written"),
        "{warned}"
    );
    assert!(warned.contains("No space left on device"), "{warned}");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_audit_unwritten_entries 1"), "{metrics}");
    std::fs::remove_file(&file).expect("removed");
    weir.site.ok(&["jobs", "resume", "--all"]);
    let output = weir.site.run(&["audit"]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(audit(&weir).len(), 2);
    assert!(weir.stop().success());
}

#[test]
fn a_password_is_hashed_without_being_an_argument() {
    let site = Site::new("");
    let run = |input: &str, arguments: &[&str]| {
        let mut command = program();
        command.current_dir(site.path()).args(["console", "hash-password"]).args(arguments);
        let output = output_with_input(&mut command, input.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, hash, error) = run("correct horse\nmore\n", &[]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let hash: weir_access::PasswordHash = hash.trim_end().parse().expect("a hash");
    assert!(hash.matches("correct horse") && !hash.matches("correct horse\nmore"));
    let (_, json, _) = run("correct horse\r\n", &["--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let hash: weir_access::PasswordHash =
        json["password_hash"].as_str().expect("text").parse().expect("a hash");
    assert!(hash.matches("correct horse"));
    for (input, problem) in [
        ("short\n", "the password has fewer than 8 characters"),
        ("", "the password has fewer than 8 characters"),
        (&*"x".repeat(2_000), "the password has more than 1024 bytes"),
    ] {
        let (code, hash, error) = run(input, &[]);
        assert_eq!((code, hash.as_str()), (Some(2), ""), "{error}");
        assert!(error.contains(problem), "{error}");
    }
}

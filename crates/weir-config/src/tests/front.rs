//! Settings of the front and its apps.

use super::*;

#[test]
fn front_opens_if_configured_or_needed() {
    let app = format!("{APP}[front.limits]\nconnections_max = 5\n");
    let shop = "[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:3000\"]\n";
    for (text, is_open) in [
        ("", false),
        (shop, true),
        ("[front]\ncores = 2\n", false),
        ("[front]\nlisten = \"127.0.0.1:8080\"\n", true),
        (app.as_str(), true),
    ] {
        assert_eq!(settings(text).has_front(), is_open, "{text}");
    }
}

#[test]
fn disabled_front_cannot_serve_anything() {
    let off = "[front]\nlisten = \"off\"\n";
    assert!(!settings(off).has_front());
    let shop = "[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:3000\"]\n";
    insta::assert_snapshot!(errors(&format!("{off}{shop}[gems]\nmount = \"/gems\"\nlisten = \"off\"\n")), @r#"
    weir.toml:2:10: front.listen: "off", but front.apps[0] is served there
    weir.toml:2:10: front.listen: "off", but gems.mount is served there
    "#);
    insta::assert_snapshot!(errors("[gems]\nlisten = \"off\"\n"), @r#"weir.toml:2:10: gems.listen: "off" needs gems.mount, or the index is served nowhere"#);
}

#[test]
fn apps_need_unique_names_and_reachable_workers() {
    let text = "[[front.apps]]\nname = \"a b\"\nupstreams = [\"localhost:1\"]\n\
                [[front.apps]]\nupstreams = []\nhosts = [\"https://a\"]\npaths = [\"shop\"]\n\
                [[front.apps]]\nname = \"a b\"\ncommand = [\"puma\"]\nconcurrency = 0\n\
                [[front.apps]]\nname = \"both\"\ncommand = [\"puma\", \"{socket}\"]\n\
                upstreams = [\"127.0.0.1:1\"]\ndump_signal = \"LATER\"\nready_path = \"up\"\n\
                [[front.apps]]\nname = \"own\"\nupstreams = [\"127.0.0.1:1\"]\nworkers = 2\n";
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:2:8: front.apps[0].name: "a b" can't name a group of workers: 1 to 32 small letters, digits, - and _
    weir.toml:3:13: front.apps[0].upstreams: "localhost:1" is neither unix:/PATH nor IP:PORT
    weir.toml:4:1: front.apps[1].name is missing
    weir.toml:5:13: front.apps[1].upstreams: the list is empty
    weir.toml:6:9: front.apps[1].hosts: write names like "shop.example", without scheme, port or path
    weir.toml:7:9: front.apps[1].paths: write paths like "/shop"
    weir.toml:9:8: front.apps[2].name: "a b" can't name a group of workers: 1 to 32 small letters, digits, - and _
    weir.toml:9:8: front.apps[2].name: "a b" is already the name of another app
    weir.toml:9:8: front.apps[2]: a b never receives a request, because a b above it has the same hosts and paths; change the hosts or paths of one of them
    weir.toml:10:11: front.apps[2].command: it does not set the address that a worker listens on; include {socket}, {port} or {fd}
    weir.toml:11:15: front.apps[2].concurrency: must be from 1 to 1000000
    weir.toml:13:8: front.apps[3]: both never receives a request, because a b above it has the same hosts and paths; change the hosts or paths of one of them
    weir.toml:14:11: front.apps[3].command: set either command or upstreams, not both
    weir.toml:16:15: front.apps[3].dump_signal: "LATER" is no signal for workers; there are: TERM, INT, QUIT, HUP, ABRT, USR1, USR2, TTIN, TTOU, WINCH
    weir.toml:17:14: front.apps[3].ready_path: write a path like "/health"
    weir.toml:19:8: front.apps[4]: own never receives a request, because a b above it has the same hosts and paths; change the hosts or paths of one of them
    weir.toml:21:11: front.apps[4].workers: only allowed with command, where Weir starts the workers
    "#);
}

#[test]
fn app_without_workers_is_one_error() {
    insta::assert_snapshot!(errors("[[front.apps]]\nname = \"shop\"\nworkers = 2\nready_path = \"/up\"\n"), @"weir.toml:1:1: front.apps[0]: write command or upstreams: Weir starts the workers, or something else does");
    insta::assert_snapshot!(errors("[[front.apps]]\nname = \"shop\"\ncommand = 5\n"), @"weir.toml:3:11: front.apps[0].command: expected a list of texts, not an integer");
    insta::assert_snapshot!(errors("[front.limits]\nconnections_max = -3\nhead_bytes_max = -1\n"), @r"
    weir.toml:2:19: front.limits.connections_max: must be from 1 to 100000000
    weir.toml:3:18: front.limits.head_bytes_max: must be from 256B to 1MiB
    ");
}

#[test]
fn app_settings_reach_the_workers() {
    let with = |list: &str| {
        format!(
            "[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:3000\"]\n\
             forwarded_headers = {list}\n"
        )
    };
    let told = |text: &str| settings(text).front.apps[0].settings.forwarded_headers.clone();
    let two = [ForwardedHeader::Forwarded, ForwardedHeader::XRequestId];
    assert_eq!(told(&with("[\"forwarded\", \"x-request-id\"]")), two);
    assert_eq!(told(&with("[]")), []);
    let silent = with("[]").replace("forwarded_headers = []\n", "");
    assert_eq!(told(&silent), ForwardedHeader::ALL);
    insta::assert_snapshot!(errors(&with("[\"x-forwarded-for\"]")), @r#"weir.toml:4:21: front.apps[0].forwarded_headers: "x-forwarded-for" is no header that Weir writes; it writes "x-forwarded" (X-Forwarded-For, -Proto and -Host), "forwarded", "x-request-start" and "x-request-id""#);
}

#[test]
fn unstartable_workers_are_errors() {
    let text = "[[front.apps]]\nname = \"shop\"\ncommand = [\"app\", \"{socket}\", \"{sockets}\"]\n\
                folder = \"/no/such/folder\"\n";
    insta::assert_snapshot!(errors(text), @r"
    weir.toml:3:11: front.apps[0].command: unknown placeholder {sockets}; this group has {index} {name} {socket}; write {{ for a brace
    weir.toml:4:10: front.apps[0].folder: /no/such/folder is no folder
    ");
}

const UPSTREAM: &str = "upstreams = [\"127.0.0.1:3000\"]\n";

fn app_toml(name: &str, rest: &str) -> String {
    format!("[[front.apps]]\nname = \"{name}\"\n{UPSTREAM}{rest}")
}

#[test]
fn unreachable_app_is_an_error() {
    let text = app_toml("shop", "") + &app_toml("blog", "");
    insta::assert_snapshot!(errors(&text), @r#"weir.toml:5:8: front.apps[1]: blog never receives a request, because shop above it has the same hosts and paths; change the hosts or paths of one of them"#);
    let text = app_toml("shop", "hosts = [\"a.example\"]\n")
        + &app_toml("cart", "hosts = [\"b.example\"]\npaths = [\"/x\"]\n")
        + &app_toml("blog", "hosts = [\"A.example\", \"b.example\"]\npaths = [\"/x/\"]\n");
    // One of the two places belongs to the app itself.
    assert!(load(&text).is_ok());
    let text =
        text.replace("hosts = [\"a.example\"]\n", "hosts = [\"a.example\"]\npaths = [\"/x\"]\n");
    assert!(errors(&text).contains("blog never receives a request, because shop, cart above it"));
    // An app whose workers accept connections themselves has no routes.
    let direct = "[[front.apps]]\nname = \"direct\"\nmode = \"sockets\"\n\
                  listen = \"127.0.0.1:9000\"\ncommand = [\"sh\", \"{fd}\"]\n";
    assert!(load(&(direct.to_owned() + &app_toml("shop", ""))).is_ok());
}

#[test]
fn front_cannot_be_its_own_upstream() {
    for (listen, is_wrong) in [
        ("127.0.0.1:3000", true),
        ("0.0.0.0:3000", true),
        ("[::]:3000", true),
        ("127.0.0.2:3000", false),
        ("0.0.0.0:3001", false),
    ] {
        let text = format!("[front]\nlisten = \"{listen}\"\n{}", app_toml("shop", ""));
        let found = load(&text).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert_eq!(found.contains("127.0.0.1:3000 is front.listen itself"), is_wrong, "{listen}");
    }
}

#[test]
fn unreadable_maintenance_page_is_an_error() {
    let text = app_toml("shop", "maintenance_page = \"/nonexistent/back.html\"\n");
    insta::assert_snapshot!(errors(&text), @r#"weir.toml:4:20: front.apps[0].maintenance_page: /nonexistent/back.html can't be read: No such file or directory (os error 2)"#);
}

#[test]
fn missing_program_is_a_warning() {
    let warned = |command: &str| {
        let text = format!("[workers.dig]\ncommand = [{command}]\n");
        let loaded = load(&text).unwrap_or_else(|errors| panic!("{errors}"));
        let ours = loaded.warnings.into_iter().find(|it| it.starts_with("workers.dig"));
        ours.unwrap_or_default()
    };
    assert_eq!(warned("\"sh\""), "");
    assert_eq!(warned("\"/bin/sh\""), "");
    assert!(warned("\"no-such-program\"").contains("no-such-program was not found in PATH"));
    assert!(warned("\"/etc/passwd\"").contains("/etc/passwd is not an executable program"));
    let own = "[workers.dig]\ncommand = [\"sh\"]\nenvironment = { PATH = \"/nonexistent\" }\n";
    let warnings = load(own).expect("sound").warnings;
    assert!(warnings.iter().any(|it| it.contains("sh was not found in PATH")), "{warnings:?}");
}

#[test]
fn front_cannot_listen_on_a_unix_socket() {
    insta::assert_snapshot!(errors("[front]\nlisten = \"localhost\"\n"), @r#"weir.toml:2:10: front.listen: "localhost" has no port; write for example "127.0.0.1:8080""#);
    insta::assert_snapshot!(errors("[front]\nlisten = \"unix:/run/x\"\n"), @r#"weir.toml:2:10: front.listen: a unix socket is not supported here; write for example "127.0.0.1:8080""#);
    let refused = errors("[front]\ntrusted_proxies = [\"unix\"]\n");
    assert!(refused.contains("front.listen is no unix socket"), "{refused}");
}

#[test]
fn single_table_is_accepted_as_a_list() {
    let rule = "shed = { path = \"/inbox\", queue = \"ingress\", over = \"5m\", status = 503 }\n";
    let text = app_toml("shop", &rule.replace(", status = 503", ""));
    let shed = &settings(&text).front.apps[0].settings.shed;
    assert_eq!((shed.len(), shed[0].queue.name.as_str()), (1, "ingress"));
    assert!(errors(&app_toml("shop", &rule.replace("queue", "qeue"))).contains("shed[0].qeue"));
}

#[test]
fn shed_rules_need_a_server_that_can_have_the_queue() {
    let rule = |source: &str| {
        let rule = format!("shed = {{ path = \"/inbox\", queue = \"ingress\"{source} }}\n");
        app_toml("shop", &rule)
    };
    let sidekiq = "[[observe.redis]]\nurl = \"redis://127.0.0.1\"\n";
    let off = "[jobs]\nlisten = \"off\"\n";
    for (source, others, problem) in [
        ("", "", None),
        ("", off, Some("nothing has a queue \"ingress\": jobs.listen is \"off\"")),
        (", source = \"auto\"", &format!("{off}{sidekiq}"), None),
        (", source = \"sidekiq\"", sidekiq, None),
        (", source = \"sidekiq\"", "", Some("\"sidekiq\" needs [[observe.redis]]")),
        (", source = \"weir\"", off, Some("\"weir\", but jobs.listen is \"off\"")),
    ] {
        let text = format!("{}{others}", rule(source));
        match problem {
            Some(problem) => assert!(errors(&text).contains(problem), "{}", errors(&text)),
            None => assert_eq!(settings(&text).front.apps[0].settings.shed.len(), 1, "{text}"),
        }
    }
}

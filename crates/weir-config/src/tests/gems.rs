//! Settings of the gem index and its mirror.

use super::*;

#[test]
fn gems_are_served_at_listen_or_mount() {
    let places = |text: &str| {
        let settings = settings(text);
        (settings.gems.address().map(|at| at.port()), settings.has_front())
    };
    assert_eq!(places(""), (None, false));
    assert_eq!(places("[gems]\n"), (Some(7422), false));
    assert_eq!(places("[gems.limits]\npushes_max = 1\n"), (Some(7422), false));
    assert_eq!(places("[gems]\nmount = \"/gems\"\n"), (None, true));
    let both = "[gems]\nmount = \"/gems\"\nlisten = \"127.0.0.1:9000\"\n";
    assert_eq!(places(both), (Some(9000), true));
    let gems = settings("data_dir = \"kept\"\n[gems]\n").gems;
    assert_eq!(gems.sqlite.path, Path::new("kept/gems/index.db"));
    assert_eq!(gems.files_dir(), Path::new("kept/gems/files"));
    assert_eq!(gems.settings, weir_gems::settings::GemsSettings::default());
}

#[test]
fn gem_errors_have_hints() {
    let text = r#"
[jobs]
listen = "127.0.0.1:7422"
[gems]
listen = "127.0.0.1:7422"
mount = "gems/"
store = "postgres"
files_url = "files.example"
[gems.limits]
gem_bytes_max = "1B"
pushes_max = 0
[gems.tls]
cert = "a.crt"
"#;
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:5:10: gems.listen: 127.0.0.1:7422 is jobs.listen already
    weir.toml:6:9: gems.mount: "gems/" is not a valid path; write a path like "/gems-index": it begins with / and does not end with it, of letters, digits and -_.~
    weir.toml:7:9: gems.store: "postgres" needs gems.postgres.url, like "postgres://weir@db.example/weir"
    weir.toml:8:13: gems.files_url: "files.example" is no URL to which a file's name can be appended; write it like "https://files.example/gems"
    weir.toml:10:17: gems.limits.gem_bytes_max: must be from 1KiB to 16TiB
    weir.toml:11:14: gems.limits.pushes_max: must be from 1 to 10000
    weir.toml:13:8: gems.tls.cert: it needs key beside it
    "#);
}

#[test]
fn mirror_errors_have_hints() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("policy"), "private acme-*\nfrom elsewhere pro\n")
        .expect("written");
    std::fs::write(folder.path().join("damaged"), "private acme-*\nprivat\n").expect("written");
    let all = |texts: &[&str]| {
        let one = |text: &&str| {
            let text = text.replace("FOLDER", &folder.path().display().to_string());
            errors(&text).replace(&folder.path().display().to_string(), "FOLDER") + "\n"
        };
        texts.iter().map(one).collect::<String>()
    };
    let with = |more: &str| {
        format!(
            "[gems.mirror]\n{more}[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"https://a.example\"\n"
        )
    };
    insta::assert_snapshot!(all(&[
        "[gems.mirror]\n",
        "[[gems.mirror.upstreams]]\nurl = \"rubygems.org\"\ncredentials = \"a:b\"\n",
        "[[gems.mirror.upstreams]]\nname = \"a b\"\nurl = \"https://me:secret@a.example\"\n",
        &(with("") + "[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"https://b.example\"\n"),
        &with("policy = \"FOLDER/none\"\n"),
        &with("policy = \"FOLDER/damaged\"\n"),
        &with("policy = \"FOLDER/policy\"\nfiles = \"later\"\n"),
        &(with("") + "redirect_hosts = [\"https://cdn.example\"]\n"),
        &(with("") + "[gems.mirror.limits]\nadvanced.backoff_max = \"1ms\"\n"),
    ]), @r#"
    weir.toml:1:1: gems.mirror.upstreams has 0 upstreams; there may be 1 to 8
    weir.toml:1:1: gems.mirror.upstreams[0].name is missing
    weir.toml:2:7: gems.mirror.upstreams[0].url: "rubygems.org" does not begin with http:// or https://; write for example "https://example.org"
    weir.toml:3:15: gems.mirror.upstreams[0].credentials: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:2:8: gems.mirror.upstreams[0].name: "a b" is no name of an upstream: 1 to 40 letters, digits, '-', '_' and '.', for example "rubygems"
    weir.toml:3:7: gems.mirror.upstreams[0].url: the URL contains a user name or a password; remove them, and use the setting for credentials (mirrors) or headers (webhooks) instead
    weir.toml:1:1: gems.mirror.upstreams has one twice; what comes from an upstream belongs to its name
    weir.toml:2:10: gems.mirror.policy: FOLDER/none: cannot be read: No such file or directory (os error 2)
    weir.toml:2:10: gems.mirror.policy: FOLDER/damaged: line 2 of the policy: "privat" is neither `private PATTERN` nor `from UPSTREAM PATTERN`
    weir.toml:2:10: gems.mirror.policy: the policy names the upstream elsewhere, which is not in gems.mirror.upstreams
    weir.toml:3:9: gems.mirror.files: "later" is none of "on_demand", "eagerly"
    weir.toml:5:18: gems.mirror.upstreams[0].redirect_hosts: "https://cdn.example" is no host: write a name or an address alone, such as "cdn.example" or "10.0.0.5"
    weir.toml:6:24: gems.mirror.limits.advanced.backoff_max: must not be below backoff_min
    "#);
}

#[test]
fn gems_without_tls_are_a_warning() {
    let loaded = load("[gems]\nlisten = \"0.0.0.0:7422\"\n").expect("sound");
    let warned = |text: &str| loaded.warnings.iter().any(|warning| warning.contains(text));
    assert!(warned("API keys travel in clear text"), "{:?}", loaded.warnings);
    assert!(load("[gems]\n").expect("sound").warnings.is_empty());
}

#[test]
fn files_url_with_read_key_is_a_warning() {
    let gems = "[gems]\nread = \"key\"\n";
    assert!(load(gems).expect("sound").warnings.is_empty());
    let elsewhere = format!("{gems}files_url = \"https://files.example\"\n");
    let warnings = load(&elsewhere).expect("sound").warnings;
    assert!(warnings.iter().any(|it| it.contains("depends on that server")), "{warnings:?}");
}

#[test]
fn app_path_below_the_gems_mount_is_a_warning() {
    let app = |path: &str| {
        let text = format!(
            "[gems]\nmount = \"/gems\"\n[[front.apps]]\nname = \"shop\"\npaths = [\"{path}\"]\n\
             upstreams = [\"127.0.0.1:3000\"]\n"
        );
        load(&text).expect("sound").warnings.join("\n")
    };
    for path in ["/gems", "/gems/shop"] {
        let expected = format!("front.apps[0].paths: {path} lies below gems.mount (/gems)");
        assert!(app(path).contains(&expected), "{}", app(path));
    }
    assert!(!app("/gemstones").contains("gems.mount"), "{}", app("/gemstones"));
}

#[test]
fn gem_postgres_and_webhook_errors_have_hints() {
    let text = r#"
[gems]
[gems.postgres]
url = "postgres://weir:a-password@db.example/weir"
schema = "Weir"
password = "another"
ca = "no-such.pem"
[gems.postgres.limits]
connections_max = 0
[gems.webhooks]
public_url = "gems.example"
retry_delay_min = "1h"
[[gems.webhooks.endpoints]]
name = "ci"
url = "ftp://ci.example"
secret = "in the file"
events = ["pull"]
[[gems.webhooks.endpoints]]
name = "a b"
url = "https://ci.example"
secret = { env = "PASSWORD" }
"#;
    let told = errors(text);
    assert!(!told.contains("a-password"), "{told}");
    insta::assert_snapshot!(told, @r#"
    weir.toml:4:7: gems.postgres.url: passwords are not allowed in this file; write password = { env = "NAME" } or { file = "PATH" } beside it
    weir.toml:5:10: gems.postgres.schema: "Weir" can't be the schema; write at most 63 of a-z, 0-9 and _, not beginning with a digit or pg_
    weir.toml:6:12: gems.postgres.password: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:7:6: cannot read gems.postgres.ca no-such.pem: No such file or directory (os error 2)
    weir.toml:9:19: gems.postgres.limits.connections_max: must be from 1 to 10000
    weir.toml:10:1: "a b" can't be an endpoint's name; write 1 to 64 letters, digits, - and _
    weir.toml:10:1: gems.webhooks.retry_delay_max: must not be below retry_delay_min
    weir.toml:11:14: gems.webhooks.public_url: "gems.example" is no URL to which paths can be appended; write it like "https://gems.example"
    weir.toml:15:7: gems.webhooks.endpoints[0].url: "ftp://ci.example" does not begin with http:// or https://; write for example "https://example.org"
    weir.toml:16:10: gems.webhooks.endpoints[0].secret: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:17:10: gems.webhooks.endpoints[0].events: there is no event "pull"; there are push and yank
    "#);
}

#[test]
fn postgres_password_is_a_separate_secret() {
    let loaded =
        load("[gems]\nstore = \"postgres\"\n[gems.postgres]\nurl = { env = \"DATABASE_URL\" }\n");
    let loaded = loaded.expect("sound");
    assert!(loaded.settings.gems.postgres.settings.url.has_password());
    let shown = loaded.values.iter().find(|value| value.path == "gems.postgres.url");
    assert_eq!(shown.expect("a value").shown, "(set)");
}

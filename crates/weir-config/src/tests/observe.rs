//! Settings of what is observed.

use super::*;

#[test]
fn observed_sources_are_the_same_as_doctors() {
    let text = r#"
[observe]
interval = "5s"
pools = ["web=2x5"]
pgbouncer = 40
pgbouncer_url = "postgres://stats@db.example"
pgbouncer_password = { env = "PASSWORD" }
pushes = ["default", "push"]
[[observe.redis]]
url = "redis://weir@10.0.0.1:7000/3"
password = { env = "PASSWORD" }
[[observe.redis]]
url = "redis+sentinel://10.0.0.2/mymaster"
sentinel_user = "guard"
sentinel_password = { env = "PASSWORD" }
[observe.postgres]
url = "postgres://weir@db.example/app?sslmode=verify-full"
password = { env = "PASSWORD" }
memory = "4GiB"
[observe.limits]
advanced.metrics_queues_max = 7
advanced.statements_max = 0
"#;
    let observe = settings(text).observe;
    assert!(observe.is_enabled);
    assert_eq!(
        (observe.interval, observe.label_limits().metrics_queues_max),
        (units::SECOND * 5, 7)
    );
    let sources = observe.sources();
    let names: Vec<_> = sources.redis.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["10.0.0.1:7000/3", "mymaster (Sentinel)"]);
    let password = Some(Secret::new("correct horse".to_owned()));
    assert_eq!(sources.redis[0].password, password);
    let postgres = sources.postgres.expect("a source");
    assert_eq!((postgres.memory_bytes, postgres.limits.statements_max), (Some(4 << 30), 0));
    assert_eq!(postgres.endpoint.password, password);
    assert_eq!((sources.services[0].connections(), sources.pooler), (10, Some(40)));
    let pgbouncer = sources.pgbouncer.expect("a source").endpoint;
    assert_eq!(pgbouncer.to_string(), "db.example:6432/pgbouncer");
    assert_eq!(pgbouncer.password, password);
    assert_eq!(sources.pushed_queues, ["default", "push"]);
    assert!(!settings("").observe.is_enabled);
    for name in ["password", "pgbouncer_password"] {
        let other = text.replacen(&format!("\n{name} = {{ env = \"PASSWORD\" }}"), "", 1);
        assert!(settings(&other).observe.secrets() != observe.secrets(), "{name}");
    }
    assert!(settings(text).observe.secrets() == observe.secrets());
}

#[test]
fn observe_errors_have_hints() {
    assert_eq!(
        errors("[observe]\n"),
        "weir.toml:1:1: observe: has no sources; add [[observe.redis]] with url = \"redis://127.0.0.1:6379/0\", or [observe.postgres]"
    );
    let text = r#"
[observe]
interval = "10m"
pools = ["web"]
pgbouncer = 0
pgbouncer_url = "postgres://stats@db/app"
[[observe.redis]]
url = "redis://:hunter2@localhost"
[[observe.redis]]
url = "redis://localhost"
password = "in the file"
cert = "tests.rs"
[[observe.redis]]
password = { env = "NO_SUCH" }
[observe.postgres]
url = "postgres://u:hunter2@localhost/x"
[observe.limits]
advanced.queues_max = 0
"#;
    let told = errors(text);
    assert!(!told.contains("hunter2"), "{told}");
    insta::assert_snapshot!(told, @r#"
    weir.toml:4:9: observe.pools: write NAME=PROCESSESxPOOL, for example web=2x5, or with threads web=2x5/16
    weir.toml:6:17: observe.pgbouncer_url: Postgres address "db:6432/app": PgBouncer's own figures are in its database pgbouncer: use /pgbouncer
    weir.toml:6:17: observe.pgbouncer_url: contradicts pgbouncer = 0, which means that there is no pooler; remove one of them
    weir.toml:8:7: observe.redis[0].url: Redis address "redis://***@localhost": it contains a password; pass that in the environment or a file
    weir.toml:9:1: observe.redis[1].key: cert and key go together
    weir.toml:11:12: observe.redis[1].password: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:13:1: observe.redis[2].url is missing
    weir.toml:14:12: observe.redis[2].password: the environment variable NO_SUCH is not set
    weir.toml:16:7: observe.postgres.url: Postgres address "postgres://***@localhost/x": it contains a password; pass that in the environment or a file
    weir.toml:17:1: observe.limits.advanced.retry_max: must not be below observe.interval
    weir.toml:18:23: observe.limits.advanced.queues_max: must be from 1 to 1000000
    "#);
}

#[test]
fn pooler_requires_an_observed_database() {
    let told = errors(
        "[observe]\npgbouncer_url = \"postgres://stats@db\"\n[[observe.redis]]\nurl = \"redis://localhost\"\n",
    );
    let expected = "weir.toml:2:17: observe.pgbouncer_url: it goes with [observe.postgres], the database behind it";
    assert_eq!(told, expected);
}

use proptest::prelude::*;

use super::*;

/// As Mastodon's guide says, with queues.
const UNIT: &str = r#"[Unit]
Description=mastodon-sidekiq
[Service]
User=mastodon
Environment="RAILS_ENV=production"
# Environment="DB_POOL=99"
Environment="DB_POOL=25" "MALLOC_ARENA_MAX=2"
ExecStart=/opt/rbenv/shims/bundle exec sidekiq -c 25 -q default -q push,6 \
    -qpull --queue "mailers" --queue=ingress -C config/sidekiq.yml
"#;

fn told(name: &str, text: &str) -> String {
    explain(Path::new(name), text).unwrap_or_default()
}

#[test]
fn a_unit_says_what_it_says_for_sure() {
    let said = told("/etc/systemd/system/mastodon-sidekiq.service", UNIT);
    let expected = "is a unit of systemd, and no layout. For a layout, which has max_connections and all \
        processes, it says:\n\n[[workers]]  # line 8\nname = \"mastodon-sidekiq\"\nconcurrency = 25\npool = 25\n\
        queues = [\"default\", \"push,6\", \"pull\", \"mailers\", \"ingress\"]\n";
    assert_eq!(said, expected);
}

#[test]
fn what_a_unit_leaves_open_is_unknown() {
    for (from, to, expected) in [
        ("-c 25 ", "", "# concurrency: unknown: there is no -c: what \"config/sidekiq.yml\" or"),
        ("-c 25 ", "-c $THREADS ", "# concurrency: unknown: \"$THREADS\" is filled in elsewhere"),
        ("-c 25 ", "-c 25 -c 5 ", "# concurrency: unknown: -c stands there more than once"),
        ("-q default", "-q ${QUEUE}", "# queues: unknown: \"${QUEUE}\" is filled in elsewhere"),
        ("-q default", "-q %i", "# queues: unknown: \"%i\" is filled in elsewhere"),
        ("-q default", "-q default,push", "# queues: unknown: \"default,push\" is no queue"),
        ("-q default", "--shiny x", "# queues: unknown: \"--shiny\" is no option of Sidekiq that"),
        ("-q default", "&& sidekiq", "# queues: unknown: the line is a shell's"),
        ("-q default", "-q 'default", "# queues: unknown: a quote is not closed"),
        (
            "[Unit]",
            "[Service]\nEnvironment=DB_POOL=30",
            "# pool: unknown: DB_POOL differs between the lines 2 and 8",
        ),
        (
            "[Unit]",
            "[Service]\nEnvironmentFile=/etc/app",
            "# pool: unknown: what its EnvironmentFile",
        ),
        ("DB_POOL=25", "DB_POOL=${POOL}", "# pool: unknown: DB_POOL is no number there"),
        ("\"DB_POOL=25\"", "", "# pool: unknown: DB_POOL stands elsewhere, or nowhere"),
    ] {
        let said = told("mastodon-sidekiq.service", &UNIT.replacen(from, to, 1));
        assert!(said.contains(expected), "{to}: {said}");
    }
    let template = told("mastodon-sidekiq@.service", UNIT);
    assert!(template.contains("# processes: unknown: as many as instances"), "{template}");
    let web = told("web.service", "[Service]\nExecStart=/usr/bin/puma\n");
    assert!(web.ends_with("No command of it starts sidekiq"), "{web}");
}

#[test]
fn procfiles_and_compose_are_told_apart() {
    let procfile = "web: bundle exec puma\nworker: DB_POOL=5 bundle exec sidekiq -c 5 -q default\n\
        push: env RAILS_ENV=production bundle exec sidekiq -c $N -q push\n";
    let said = told("Procfile", procfile);
    let worker = "name = \"worker\"\nconcurrency = 5\npool = 5\nqueues = [\"default\"]\n";
    assert!(said.starts_with("is a Procfile, ") && said.contains(worker), "{said}");
    let push = "name = \"push\"\n# concurrency: unknown: \"$N\" is filled in elsewhere, or no number\n\
        # pool: unknown: whether DB_POOL is this one's is not told\nqueues = [\"push\"]\n";
    assert!(said.contains(push), "{said}");
    let compose = "services:\n  sidekiq:\n    command: bundle exec sidekiq -c 5\n";
    let said = told("docker-compose.yml", compose);
    assert!(said.contains("# processes: unknown: as many as it has replicas"), "{said}");
    assert!(said.contains("# queues: unknown: there is no -q: "), "{said}");
}

#[test]
fn settings_of_sidekiq_are_not_evaluated() {
    for settings in [
        ":concurrency: 5\n:queues:\n  - [default, 8]\n  - push\n",
        "production:\n  :concurrency: <%= ENV['N'] %>\n",
        "---\nqueues:\n- default\n",
    ] {
        let said = told("sidekiq.yml", settings);
        assert!(said.starts_with("is Sidekiq's own settings, and no layout"), "{said}");
    }
    assert_eq!(explain(Path::new("x.toml"), "max_connections = \"many\"\n"), None);
}

proptest! {
    #[test]
    fn whatever_a_file_says_is_commented_out_or_part_of_a_layout(
        arguments in "[-a-zA-Z0-9$%'\"\\\\ ,=;&@\n#]{0,80}",
        pool in "[0-9$a]{0,12}",
    ) {
        let unit = format!("[Service]\nEnvironment=DB_POOL={pool}\nExecStart=bundle exec sidekiq {arguments}\n");
        let said = told("x.service", &unit);
        let entries = said.split_once("it says:\n").map(|(_, entries)| entries).unwrap_or_default();
        let layout = format!("max_connections = 9\n{entries}");
        prop_assert!(super::super::file::parse(&layout).is_ok(), "{}", layout);
    }
}

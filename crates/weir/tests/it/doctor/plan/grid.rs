//! Small and large machines, and numbers that no machine has: a plan that `--check` agrees with, or the rules
//! that can't be kept and what it would take.

use serde_json::Value;

use super::{MASTODON, code, error, plan, text};

/// Cores and GiB.
const MACHINES: [(u32, u32); 6] = [(2, 2), (2, 64), (4, 8), (8, 16), (16, 2), (16, 64)];

/// The queues of [`MASTODON`].
fn queues() -> &'static [&'static str] {
    let at = MASTODON.iter().position(|word| *word == "--queue").unwrap();
    &MASTODON[at..]
}

#[test]
fn every_machine_gets_a_valid_plan_or_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (mut made, mut refused) = (0, 0);
    for (cores, memory) in MACHINES {
        for connections in ["50", "100", "200", "1000"] {
            for pooler in ["0", "40"] {
                let written =
                    folder.path().join(format!("{cores}-{memory}-{connections}-{pooler}"));
                let written = written.display().to_string();
                let (cores, memory) = (cores.to_string(), format!("{memory}GiB"));
                let machine =
                    ["--cores", &cores, "--memory", &memory, "--max-connections", connections];
                let more =
                    ["--pgbouncer", pooler, "--pushes", "default,fasp,extra", "--write", &written];
                let output = plan(&[queues(), &machine, &more].concat());
                let said = text(&output);
                if code(&output) == 0 {
                    made += 1;
                    assert!(said.contains("\nholds ") && !said.contains("BROKEN"), "{said}");
                    let judged = plan(&["--check", &format!("{written}/layout.toml")]);
                    assert_eq!(code(&judged), 0, "{machine:?} {pooler}: {}", text(&judged));
                } else {
                    refused += 1;
                    assert_eq!(code(&output), 1, "{}", error(&output));
                    assert!(
                        said.contains("BROKEN")
                            && said.contains("\nwhat would make the plan possible:\n  "),
                        "{said}"
                    );
                    assert!(
                        !std::path::Path::new(&written).exists()
                            && error(&output).contains("no files were written")
                    );
                }
            }
        }
    }
    assert!(made > 10 && refused > 5, "{made} were made, {refused} refused");
}

#[test]
fn impossible_numbers_are_rejected_with_a_message() {
    for (arguments, expected) in [
        (&["--cores", "0"][..], 64),
        (&["--max-connections", "0"], 64),
        (&["--max-connections", "300000"], 64),
        (&["--max-connections", "1"], 1),
        (&["--memory", "0"], 1),
        (&["--memory", "1"], 1),
        (&["--memory", "18446744073709551615", "--postgres-memory", "18446744073709551615"], 1),
        (&["--reserve", "4294967295"], 1),
        (&["--streaming", "100000x100000"], 1),
        (&["--web-threads", "4294967295"], 1),
        (&["--web-requests", "1000000", "--web-seconds", "1"], 1),
        (&["--queue", "x=1e18,1"], 64),
        (&["--queue", "x=nan,1"], 64),
        (&["--queue", "x=1e6,1e6"], 1),
        (&["--queue", "y=1e6,1e6", "--pgbouncer", "1"], 1),
        (&["--target", "scheduler=1ms"], 1),
    ] {
        let has_memory = arguments.contains(&"--memory");
        let memory: &[&str] = if has_memory { &[] } else { &["--memory", "8GiB"] };
        let output = plan(&[memory, queues(), arguments].concat());
        assert_eq!(code(&output), expected, "{arguments:?}: {}{}", text(&output), error(&output));
        if expected == 1 {
            assert!(text(&output).contains("BROKEN"), "{arguments:?}: {}", text(&output));
        }
    }
    for queue in ["mailers=1e6,1e6", "scheduler=1e6,1", "pull_backlog=1e6,1e6"] {
        let output = plan(&["--memory", "8GiB", "--queue", queue, "--json"]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["broken"].is_array(), code(&output) == 1, "{queue}: {document:#}");
    }
}

#[test]
fn assumptions_are_stated() {
    let said = |more: &[&str]| {
        text(&plan(&[&["--memory", "8GiB", "--queue", "default=1,0.1"], more].concat()))
    };
    let all = "assumed values; replace them by options with the real ones:\n  --max-connections 200 \
        --web-requests 10 --web-seconds 0.1 --streaming 1x10 --postgres-memory 2GiB --redis-memory 512MiB\n";
    assert!(said(&[]).ends_with(all), "{}", said(&[]));
    let given = [
        "--max-connections",
        "200",
        "--web-requests",
        "1",
        "--web-seconds",
        "1",
        "--streaming",
        "1x10",
    ];
    let given = [&given[..], &["--postgres-memory", "0", "--redis-memory", "0"]].concat();
    assert!(!said(&given).contains("assumed"), "{}", said(&given));
}

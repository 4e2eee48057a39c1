use crate::process::output_of;
use crate::weir::{Site, program};

#[test]
fn check_reports_all_errors_with_lines() {
    let site = Site::new("");
    site.write("[jobs]\nlisten = \"7419\"\nfsink = \"always\"\n");
    insta::assert_snapshot!(site.shown(&["check"]), @r#"
    exit: 1
    -- stdout
    weir.toml:2:10: jobs.listen: "7419" has no port; write for example "127.0.0.1:7419"
    weir.toml:3:1: jobs.fsink is not a setting
    -- stderr
    2 errors in weir.toml
    "#);
}

#[test]
fn up_rejects_what_check_rejects() {
    let site = Site::new("");
    site.write("[jobs]\nstor = \"memory\"\n");
    insta::assert_snapshot!(site.shown(&["up"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: weir.toml:2:1: jobs.stor is not a setting; did you mean "store"?
    "#);
}

#[test]
fn check_prints_effective_settings() {
    let site = Site::new("");
    site.write("[jobs]\nfsync = \"never\"\n");
    let shown = site.ok(&["check"]);
    assert!(shown.starts_with("# weir.toml\njobs.fsync = \"never\"\n# "), "{shown}");
    assert!(shown.contains(" other settings have their defaults; `weir check --all` "), "{shown}");
    assert!(shown.contains("\nwould listen on 127.0.0.1:7419 (jobs)\n"), "{shown}");
    assert!(shown.contains("\nwarning: jobs.fsync = \"never\": a power cut"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&site.ok(&["check", "--json"])).expect("JSON");
    assert_eq!(json["listen"]["console"], "127.0.0.1:7420");

    let all = site.ok(&["check", "--all"]);
    assert!(all.starts_with("# weir.toml\ndata_dir = \"data\"  # default\n"), "{all}");
    assert!(all.contains("\njobs.fsync = \"never\"\n"), "{all}");
    let settings = json["settings"].as_array().expect("all of them").len();
    let is_setting = |line: &&str| line.contains(" = ") && !line.starts_with("warning: ");
    assert_eq!(all.lines().filter(is_setting).count(), settings);
}

#[test]
fn check_marks_settings_from_the_file() {
    let site = Site::new("");
    site.write("[[observe.redis]]\nurl = \"redis://127.0.0.1:6379/0\"\n");
    let shown = site.ok(&["check"]);
    let settings: Vec<_> = shown.lines().filter(|line| line.contains(" = ")).collect();
    assert_eq!(settings, ["observe.redis[0].url = \"redis://127.0.0.1:6379/0\""]);
    assert!(shown.lines().count() < 10, "{shown}");
}

#[test]
fn named_settings_file_must_exist() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["check", "--config", "absent.toml"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: cannot read absent.toml: No such file or directory (os error 2)
    ");
}

#[test]
fn init_writes_a_valid_file_and_never_overwrites() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["init"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: weir.toml exists; replace it with --force, or print to standard output with --output -
    ");
    insta::assert_snapshot!(site.shown(&["init", "--force"]), @r"
    exit: 0
    -- stdout
    wrote weir.toml; verify it with `weir check`
    -- stderr
    ");
    site.ok(&["check"]);
    assert!(site.ok(&["init", "production", "--output", "-"]).contains("fsync = \"always\""));
    site.ok(&["init", "front", "--force"]);
    assert!(site.ok(&["check"]).contains("gunicorn"));
}

#[test]
fn readme_settings_are_valid() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let readme = readme.expect("the README");
    let examples: Vec<_> = readme.split("```toml\n").skip(1).collect();
    assert!(examples.len() >= 2, "realtime's and the front's");
    for example in examples {
        let settings = example.split("```").next().expect("an end");
        let site = Site::new("");
        site.write(settings);
        let mut command = program();
        command.current_dir(site.path()).arg("check");
        command.env("WEIR_REALTIME_SECRET", "an example's secret");
        let output = output_of(&mut command);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{shown}");
        assert!(!shown.contains("not found in PATH"), "{shown}");
    }
}

#[test]
fn weir_config_variable_selects_the_file() {
    let site = Site::new("");
    std::fs::create_dir(site.path().join("etc")).expect("a folder");
    let named = site.path().join("etc/shop.toml");
    std::fs::write(named, "[jobs]\nfsync = \"never\"\n").expect("written");
    let check = |arguments: &[&str]| {
        let mut command = program();
        command.current_dir(site.path()).env("WEIR_CONFIG", "etc/shop.toml").args(arguments);
        String::from_utf8(output_of(&mut command).stdout).expect("text")
    };
    let shown = check(&["check"]);
    assert!(shown.starts_with("# etc/shop.toml\njobs.fsync = \"never\"\n"), "{shown}");
    let shown = check(&["check", "--config", "weir.toml"]);
    assert!(shown.starts_with("# weir.toml\n"), "the flag wins: {shown}");
}

#[test]
fn settings_of_the_package_and_of_three_nodes_are_valid() {
    for name in ["debian", "three-nodes"] {
        let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
        let text = std::fs::read_to_string(format!("{deploy}/{name}/weir.toml")).expect("the file");
        let site = Site::new("");
        for secret in ["jobs-password", "redis-password", "console-password", "realtime-secret"] {
            site.write_file(secret, b"a-long-password");
        }
        let folder = format!("{}/", site.path().display());
        site.write(&text.replace("/etc/weir/", &folder));
        site.ok(&["check", "--offline"]);
    }
}

#[test]
fn check_of_the_machine_reports_ports_in_use_and_the_running_weir() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    let site = Site::new("");
    site.write(&format!("[jobs]\nlisten = \"{address}\"\n[console]\nlisten = \"127.0.0.1:0\"\n"));
    assert!(
        site.ok(&["check"]).contains(&address.to_string()),
        "without --machine it is not tried"
    );
    let shown = site.shown(&["check", "--machine"]);
    assert!(shown.starts_with("exit: 1\n"), "{shown}");
    assert!(shown.contains(&format!("another process listens on {address}")), "{shown}");
    let json = output_of(program().current_dir(site.path()).args(["check", "--machine", "--json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let outcome = |json: &serde_json::Value, name: &str| {
        let checks = json["machine"].as_array().expect("checks").clone();
        let check = checks.into_iter().find(|check| check["check"] == name);
        check.expect("the check")["outcome"].as_str().expect("a word").to_owned()
    };
    assert_eq!(outcome(&json, "jobs.listen"), "problem");
    assert_eq!(outcome(&json, "console.listen"), "fine");
    drop(taken);

    let weir = site.start();
    let shown = weir.site.ok(&["check", "--machine"]);
    let pid = weir.pid().as_raw_nonzero();
    let running = format!("Weir runs with this data_dir as process {pid}");
    assert!(
        shown.contains(&running) && shown.contains("is in use, and Weir is running"),
        "{shown}"
    );
    assert!(weir.stop().success());
}

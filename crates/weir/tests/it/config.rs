use crate::weir::Site;

#[test]
fn check_reports_every_mistake_with_its_place() {
    let site = Site::new("");
    site.write("[jobs]\nlisten = \"7419\"\nfsink = \"always\"\n[budget]\n");
    insta::assert_snapshot!(site.shown(&["check"]), @r#"
    exit: 1
    -- stdout
    weir.toml:2:10: jobs.listen: "7419" has no port; write for example "127.0.0.1:7419"
    weir.toml:3:1: jobs.fsink is not a setting
    weir.toml:4:2: budget is not in this version of Weir yet
    -- stderr
    3 mistakes in weir.toml
    "#);
}

#[test]
fn up_refuses_what_check_refuses() {
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
fn check_prints_what_is_in_effect() {
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
fn what_a_file_sets_is_not_lost_among_defaults() {
    let site = Site::new("");
    site.write("[[observe.redis]]\nurl = \"redis://127.0.0.1:6379/0\"\n");
    let shown = site.ok(&["check"]);
    let settings: Vec<_> = shown.lines().filter(|line| line.contains(" = ")).collect();
    assert_eq!(settings, ["observe.redis[0].url = \"redis://127.0.0.1:6379/0\""]);
    assert!(shown.lines().count() < 10, "{shown}");
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["check", "--config", "absent.toml"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: cannot read absent.toml: No such file or directory (os error 2)
    ");
}

#[test]
fn init_writes_a_file_that_check_accepts_and_never_overwrites() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["init"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: weir.toml exists; --force replaces it, --output - prints instead
    ");
    insta::assert_snapshot!(site.shown(&["init", "--force"]), @r"
    exit: 0
    -- stdout
    wrote weir.toml; `weir check` says whether it is sound
    -- stderr
    ");
    site.ok(&["check"]);
    assert!(site.ok(&["init", "production", "--output", "-"]).contains("fsync = \"always\""));
    site.ok(&["init", "front", "--force"]);
    assert!(site.ok(&["check"]).contains("gunicorn"));
}

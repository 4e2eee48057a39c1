use crate::weir::Site;

#[test]
fn usage_errors_have_their_own_exit_code() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["jobs", "lst"]), @r"
    exit: 64
    -- stdout
    -- stderr
    error: unrecognized subcommand 'lst'

      tip: a similar subcommand exists: 'list'

    Usage: weir jobs <COMMAND>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(site.shown(&["jobs", "retry"]), @r"
    exit: 64
    -- stdout
    -- stderr
    error: the following required arguments were not provided:
      <JIDS|--from <PLACE>>

    Usage: weir jobs retry <JIDS|--from <PLACE>>

    For more information, try '--help'.
    ");
}

#[test]
fn newcomers_spellings_are_understood() {
    let site = Site::new("");
    let shown = site.shown(&["flood"]);
    assert!(shown.starts_with("exit: 64\n") && shown.contains("'demo flood'"), "{shown}");
    assert_eq!(site.ok(&["help"]), site.ok(&["--help"]));
    assert_eq!(site.ok(&["help", "demo", "flood"]), site.ok(&["demo", "flood", "--help"]));
    let shown = site.shown(&["demo", "flood", "--seconds", "0"]);
    assert!(shown.contains("a flood lasts 1 to 600 seconds, not 0"), "{shown}");
}

#[test]
fn doctor_without_a_source_shows_examples() {
    let shown = Site::new("").shown(&["doctor"]);
    assert!(shown.starts_with("exit: 64\n"), "{shown}");
    assert!(
        shown.contains("or several of them") && shown.contains("  weir doctor --redis "),
        "{shown}"
    );
}

#[test]
fn hidden_commands_are_not_suggested() {
    let shown = Site::new("").shown(&["serve"]);
    assert!(shown.starts_with("exit: 64\n") && !shown.contains("'service'"), "{shown}");
    let shown = Site::new("").shown(&["statu"]);
    assert!(shown.contains("tip: ") && shown.contains("'status'"), "{shown}");
}

#[test]
fn invalid_address_is_a_usage_error() {
    let site = Site::new("");
    for (url, why) in [
        ("ftp://weir.example", "only http://HOST:PORT, https://HOST and unix:PATH are supported"),
        ("http://user:secret@weir.example", "it must not contain a user or a query"),
    ] {
        for command in [&["status"][..], &["gems", "mirror", "status"], &["gems", "mirror"]] {
            let all = [command, &["--url", url, "--token-env", "TOKEN"]].concat();
            let shown = site.shown(&all);
            assert!(shown.starts_with("exit: 64\n") && shown.contains(why), "{shown}");
        }
    }
}

#[test]
fn commands_report_that_weir_is_not_running() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["status"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: Weir is not running with this data_dir (nothing accepts connections at data/weir.sock); start it with `weir up`, or name the running one with --data-dir, --config or --url (`weir up` and `weir demo` print their addresses and directory)
    ");
}

#[test]
fn service_command_cannot_be_started_manually() {
    let site = Site::new("");
    insta::assert_snapshot!(site.shown(&["service"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: this command is started by `weir up` only
    ");
}

#[test]
fn completions_list_every_command() {
    let site = Site::new("");
    for shell in ["bash", "zsh", "fish"] {
        let script = site.ok(&["completions", shell]);
        for verb in ["up", "check", "init", "status", "jobs", "export", "verify"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
        for hidden in ["service", "reference"] {
            let is_offered = |line: &str| {
                line.contains(hidden) && !line.to_lowercase().contains("replace") // help texts mention them
            };
            let offered = script.lines().find(|line| is_offered(line));
            assert_eq!(offered, None, "{shell}: {hidden}");
        }
    }
}

#[test]
fn man_pages_are_written_for_every_command() {
    let site = Site::new("");
    site.ok(&["man", "pages/man1"]);
    let page = |name: &str| std::fs::read_to_string(site.path().join("pages/man1").join(name));
    let whole = page("weir.1").expect("the page of weir");
    assert!(whole.contains(".TH weir 1") && whole.contains("Exit codes: 0 success"), "{whole}");
    assert!(whole.contains("Keeps a web application standing"), "{whole}");
    let push = page("weir-jobs-push.1").expect("the page of a verb");
    assert!(push.contains("weir jobs push") || push.contains("weir\\-jobs\\-push"), "{push}");
    for hidden in ["weir-service.1", "weir-reference.1", "weir-help.1"] {
        assert!(page(hidden).is_err(), "{hidden}");
    }
}

#[test]
fn the_documentation_is_searched_and_printed() {
    let site = Site::new("");
    let found = site.ok(&["docs", "connections_max"]);
    let expected = "Settings > jobs.limits.connections_max\n";
    assert!(found.contains(expected) && found.contains("\n  page reference/settings\n"), "{found}");
    assert!(site.ok(&["docs"]).contains("Realtime\n  first steps"), "lists the pages");
    assert!(site.ok(&["docs"]).contains("\n  page realtime\n"), "as --page takes it");
    assert!(site.ok(&["docs", "--page", "reference/settings"]).starts_with("# Settings\n"));
    assert_eq!(site.ok(&["docs", "xyzzyx", "--json"]), "[]\n");
}

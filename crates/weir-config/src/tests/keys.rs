//! Every field has its key, every key its words and its default.

use super::*;

#[test]
fn reference_covers_every_setting_and_parses() {
    let file = reference::commented_file();
    load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    for value in reference::values() {
        assert!(!value.setting.doc.is_empty(), "{} has no words", value.path);
        let is_listed = file.contains(&format!("# {} = ", value.setting.name));
        assert!(is_listed || value.setting.is_advanced, "{} is not in the file", value.path);
    }
    // Defaults are written as they are read.
    for value in reference::values().iter().filter(|value| value.default != "none") {
        let text = match value.path.rsplit_once('.') {
            Some((section, name)) => {
                format!("{}\n{name} = {}\n", section_toml(section, name), value.default)
            }
            None => format!("{} = {}\n", value.path, value.default),
        };
        let loaded = load(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let path = value.path.replace("[]", "[0]");
        let read = loaded.values.iter().find(|read| read.path == path).expect("read");
        assert!(read.is_set);
        assert_eq!(read.shown, value.default, "{text}");
    }
}

#[test]
fn placeholders_have_the_type_of_their_setting() {
    for value in reference::values().iter().filter(|value| value.default == "none") {
        let (section, name) = value.path.rsplit_once('.').expect("in a section");
        // If the surrounding settings already have the key, a second one would be an error.
        let around = section_toml(section, name);
        if around.lines().any(|line| line.starts_with(&format!("{name} = "))) {
            continue;
        }
        let text = format!("{around}\n{name} = {}\n", reference::sample_value(value));
        let errors = load(&text).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert!(!errors.contains("expected"), "{errors}\n{text}");
    }
}

/// Returns the header of a section, with the settings that the key requires.
fn section_toml(section: &str, name: &str) -> String {
    let heading = reference::heading(section);
    if let Some(around) = section.strip_suffix(".advanced") {
        return format!("{}\n{heading}", section_toml(around, name));
    }
    let is_of_sockets = ["selection", "queues", "queues_per_worker", "backlog", "claim_timeout"];
    if section == "front.apps[]" && is_of_sockets.contains(&name) {
        return format!("{SHARED}workers = 4\n");
    }
    if section == "workers.NAME" {
        return format!("{heading}\ncommand = [\"true\"]");
    }
    if section == "gems.webhooks.endpoints[]" {
        return format!(
            "{heading}\nname = \"ci\"\nurl = \"http://localhost\"\nsecret = {{ env = \"PASSWORD\" }}"
        );
    }
    if let Some(rest) = section.strip_prefix("gems.mirror") {
        let upstream = "[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"http://localhost\"\n";
        return match rest {
            "" => {
                format!("{heading}\nupstreams = {{ name = \"one\", url = \"http://localhost\" }}")
            }
            ".upstreams[]" => upstream.to_owned(),
            _ => format!("{upstream}{heading}"),
        };
    }
    if section == "jobs.store.redis[]" || section == "realtime.broker.redis[]" {
        return format!("{heading}\nurl = \"redis://127.0.0.1\"");
    }
    match section {
        "console.users.NAME" => {
            return format!("{heading}\npassword_hash = \"{}\"", console::HASH);
        }
        "console.tokens.NAME" => {
            return format!("{heading}\ntoken = {{ env = \"DATABASE_URL\" }}");
        }
        "jobs.cron[]" => return format!("{heading}\nname = \"a\"\njob.jobtype = \"T\""),
        "jobs.cron[].job" => {
            return format!("[[jobs.cron]]\nname = \"a\"\n{heading}\njobtype = \"T\"");
        }
        _ => {}
    }
    if section.starts_with("observe") {
        let redis = "[[observe.redis]]\nurl = \"redis://127.0.0.1\"\n";
        return match section {
            "observe.redis[]" => redis.to_owned(),
            "observe.postgres" => format!("{heading}\nurl = \"postgres://127.0.0.1/app\""),
            _ => format!("{redis}{heading}"),
        };
    }
    let shop = "[[front.apps]]\nname = \"shop\"\ncommand = [\"app\", \"{socket}\"]\n";
    match section.strip_prefix("front.apps[]") {
        Some("") => return shop.to_owned(),
        Some(".shed[]") => return format!("{shop}{heading}\npath = \"/\"\nqueue = \"mail\""),
        Some(_) => return format!("{shop}{heading}\npath = \"/\""),
        None => {}
    }
    match section.strip_prefix("realtime.apps[]") {
        Some("") => APP.to_owned(),
        Some(".webhooks[]") => format!("{APP}{heading}\nurl = \"http://localhost\""),
        Some(_) => format!("{APP}{heading}"),
        None => heading,
    }
}

#[test]
fn environment_variables_override_the_file() {
    let text = "[jobs]\nlisten = \"127.0.0.1:1\"\nallow_flush = true\n";
    let environment = |name: &str| {
        let value = match name {
            "WEIR_JOBS_LISTEN" => "127.0.0.1:2",
            "WEIR_JOBS_PASSWORD" => "correct horse",
            "WEIR_JOBS_LIMITS_PUSHB_JOBS_MAX" => "7",
            "WEIR_CONSOLE_HOSTS" => "a.example, b.example",
            "WEIR_LOG_LEVEL" => "debug",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let source = Source::of(Path::new("weir.toml"), text, None);
    let loaded = parse(&source, &environment).expect("sound");
    let Settings { jobs, console, log, .. } = &loaded.settings;
    assert_eq!(jobs.listen, "127.0.0.1:2".parse().ok());
    assert!(jobs.settings.allow_flush);
    assert_eq!(jobs.settings.password, Some(Secret::new("correct horse")));
    assert_eq!(jobs.settings.limits.pushb_jobs_max, 7);
    assert_eq!(console.hosts, ["a.example", "b.example"]);
    assert_eq!(log.level.as_str(), "debug");
    let listen = loaded.values.iter().find(|value| value.path == "jobs.listen").expect("listed");
    assert_eq!(listen.variable.as_deref(), Some("WEIR_JOBS_LISTEN"));
}

#[test]
fn errors_in_environment_variables_name_them() {
    let environment = |name: &str| {
        let value = match name {
            "WEIR_JOBS_FSYNC" => "sometimes",
            "WEIR_JOBS_LIMITS_PUSHB_JOBS_MAX" => "many",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let source = Source::of(Path::new("weir.toml"), "", None);
    let errors = parse(&source, &environment).expect_err("refused").to_string();
    insta::assert_snapshot!(errors, @r#"
    weir.toml:1:1: jobs.fsync: "sometimes" is none of "always", "everysec", "never" (environment variable WEIR_JOBS_FSYNC)
    weir.toml:1:1: jobs.limits.pushb_jobs_max: "many" is no number (environment variable WEIR_JOBS_LIMITS_PUSHB_JOBS_MAX)
    "#);
}

#[test]
fn each_setting_has_its_own_variable() {
    let mut names = std::collections::HashSet::new();
    for value in reference::values() {
        if !value.path.contains(['[']) && !value.path.contains("NAME") {
            let name = value.path.replace(".advanced", "").to_uppercase().replace('.', "_");
            assert!(names.insert(name), "{} shares its variable", value.path);
        }
    }
}

#[test]
fn old_names_work_with_a_warning_and_are_rewritten() {
    let text = "# kept\n[console.limits]\npage_jobs = 10 # why\nadvanced.login_burst = 3\n\n[[realtime.apps]]\nid = \"1\"\nkey = \"k\"\nsecret = { env = \"PASSWORD\" }\n[realtime.apps.presence]\npage_max = 7\n";
    let loaded = load(text).expect("sound");
    assert_eq!(loaded.settings.console.limits.page_jobs, 10);
    assert_eq!(loaded.settings.realtime.apps[0].presence.page_max, 7);
    insta::assert_snapshot!(loaded.warnings[..2].join("\n"), @r"
    line 3: console.limits.page_jobs is called console.limits.advanced.page_jobs now; `weir check --fix` rewrites the file
    line 11: realtime.apps[0].presence.page_max is called realtime.apps[0].presence.advanced.page_max now; `weir check --fix` rewrites the file
    ");
    let fresh = rewrite(text, &loaded.renamed);
    insta::assert_snapshot!(fresh, @r#"
    # kept
    [console.limits]
    advanced.page_jobs = 10 # why
    advanced.login_burst = 3

    [[realtime.apps]]
    id = "1"
    key = "k"
    secret = { env = "PASSWORD" }
    [realtime.apps.presence]
    advanced.page_max = 7
    "#);
    let reloaded = load(&fresh).expect("sound");
    assert_eq!(reloaded.renamed, []);
    assert_eq!(reloaded.settings.console.limits.page_jobs, 10);
    assert_eq!(reloaded.settings.realtime.apps[0].presence.page_max, 7);
}

#[test]
fn removed_setting_is_a_warning_with_its_line() {
    let loaded = load("[console.limits]\npage_events = 10\n").expect("sound");
    let warning = "line 2: console.limits.page_events no longer has an effect; remove the line";
    assert_eq!(loaded.warnings[..1], [warning]);
    assert!(!load("").expect("sound").warnings.iter().any(|it| it == warning));
}

#[test]
fn setting_under_both_names_is_an_error() {
    let text =
        "[console.limits]\npage_jobs = 10\nadvanced.page_jobs = 11\nadvanced.page_jebs = 1\n";
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:2:13: console.limits.advanced.page_jobs is in the file under its old name, too
    weir.toml:4:10: console.limits.advanced.page_jebs is not a setting; did you mean "page_jobs"?
    "#);
}

/// Checks that a removed setting is a warning, at its old place and under `advanced`.
fn check_removed(name: &str, default: &str) {
    let (section, key) = name.rsplit_once('.').expect("a section");
    for key in [key.to_owned(), format!("advanced.{key}")] {
        let text = format!("{}\n{key} = {default}\n", section_toml(section, &key));
        let warnings = load(&text).expect(name).warnings;
        let warning = format!("{section}.{key} no longer has an effect; remove the line");
        assert!(warnings.iter().any(|it| it.ends_with(&warning)), "{name} is gone: {warnings:?}");
    }
}

/// Every setting of the release before, by its name and default there.
const BEFORE: &str = include_str!("settings-before-0.2.txt");

#[test]
fn settings_of_the_previous_release_still_work() {
    let values = reference::values();
    for line in BEFORE.lines() {
        let (name, default) = line.split_once(" = ").expect("a name and a default");
        let former = |path: &str| path.replace(".advanced", "");
        let is_meant = |path: &str| former(path).replace("[]", "") == name.replace("[]", "");
        let value = values.iter().find(|value| is_meant(&value.path));
        let Some(value) = value else {
            check_removed(name, default);
            continue;
        };
        if default == "none" {
            continue;
        }
        let path = former(&value.path);
        let text = match path.rsplit_once('.') {
            Some((section, key)) => format!("{}\n{key} = {default}\n", section_toml(section, key)),
            None => format!("{path} = {default}\n"),
        };
        let loaded = load(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let path = value.path.replace("[]", "[0]");
        let read = loaded.values.iter().find(|read| read.path == path).expect("read");
        assert!(read.is_set, "{name}");
        assert_eq!(loaded.renamed.len(), usize::from(value.setting.is_advanced), "{text}");
        let fresh = rewrite(&text, &loaded.renamed);
        assert_eq!(load(&fresh).map(|it| it.renamed.len()), Ok(0), "{fresh}");
    }
}

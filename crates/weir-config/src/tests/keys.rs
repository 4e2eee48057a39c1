//! Every field has its key, every key its words and its default.

use super::*;

#[test]
fn the_reference_covers_every_setting_and_its_file_parses() {
    let file = reference::commented_file();
    load(&file).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    for value in reference::values() {
        assert!(!value.setting.doc.is_empty(), "{} has no words", value.path);
        assert!(file.contains(value.setting.doc.split(' ').next().expect("a word")));
    }
    // Defaults are written as they are read.
    for value in reference::values().iter().filter(|value| value.default != "none") {
        let text = match value.path.rsplit_once('.') {
            Some((section, name)) => {
                format!("{}\n{name} = {}\n", whole(section, name), value.default)
            }
            None => format!("{} = {}\n", value.path, value.default),
        };
        let loaded = load(&text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let path = value.path.replace("[]", "[0]");
        let read = loaded.values.iter().find(|read| read.path == path).expect("read");
        assert!(read.is_set);
        assert_eq!(read.shown, value.default, "{text}");
    }
}

#[test]
fn a_placeholder_of_the_commented_file_has_the_type_of_its_setting() {
    for value in reference::values().iter().filter(|value| value.default == "none") {
        let (section, name) = value.path.rsplit_once('.').expect("in a section");
        // Where the settings around it have the key already, a second one would be the mistake.
        let around = whole(section, name);
        if around.lines().any(|line| line.starts_with(&format!("{name} = "))) {
            continue;
        }
        let text = format!("{around}\n{name} = {}\n", reference::sample(value));
        let mistakes = load(&text).err().map(|mistakes| mistakes.to_string()).unwrap_or_default();
        assert!(!mistakes.contains("expected"), "{mistakes}\n{text}");
    }
}

/// The heading of a section, with what must be set around it for that key to mean something.
fn whole(section: &str, name: &str) -> String {
    let heading = reference::heading(section);
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

/// The field names of a struct, from what `{:#?}` shows.
fn fields(shown: &str) -> Vec<String> {
    let own = shown.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    own.filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned())).collect()
}

/// The key of a field that has another name.
fn key_of(field: &str) -> &str {
    match field {
        "activity_jitter_thousandths" => "activity_jitter",
        "subscribe_rate" => "subscribes_per_second",
        "client_event_rate" => "client_events_per_second",
        "trust" => "ca",
        "stream_window_bytes" => "stream_window",
        "connection_window_bytes" => "connection_window",
        "send_buffer_bytes" => "send_buffer",
        "control_frames" => "control_frames_per_second",
        "is_enabled" => "enabled",
        "requires_tls" => "require_tls",
        "has_client_events" => "client_events",
        "has_subscription_counts" => "subscription_counts",
        "hooks" => "webhooks[]",
        "endpoints" => "endpoints[]",
        "upstreams" => "upstreams[]",
        "import_batch" => "import_batch_gems",
        same => same,
    }
}

fn upstream() -> weir_gems::mirror::settings::UpstreamSettings {
    weir_gems::mirror::settings::UpstreamSettings {
        name: "one".parse().expect("a name"),
        url: "http://127.0.0.1".parse().expect("a URL"),
        credentials: None,
        redirect_hosts: Vec::new(),
        hook_secret: None,
    }
}

#[test]
fn no_field_of_a_part_is_without_its_key() {
    let console = weir_console::settings::Settings::default();
    let history = weir_base::history::Settings::default();
    let known: Vec<String> = reference::values().into_iter().map(|value| value.path).collect();
    let gems = weir_gems::settings::GemsSettings::default();
    let postgres = settings("").gems.postgres.settings;
    let told = weir_gems::webhooks::WebhookSettings::default();
    let nowhere = "http://127.0.0.1/".parse().expect("a URL");
    let endpoint = weir_gems::webhooks::WebhookEndpoint::new("ci", nowhere, Secret::default());
    let mirror = weir_gems::mirror::settings::MirrorSettings::new(Vec::new());
    for (section, shown) in [
        ("front.limits", format!("{:#?}", weir_net::server::Limits::default())),
        ("front.clients", format!("{:#?}", weir_net::client::ClientLimits::default())),
        ("front.limits.http2_", format!("{:#?}", weir_net::server::Http2Limits::default())),
        ("console", format!("{console:#?}")),
        ("console.limits", format!("{:#?}", console.limits)),
        ("gems", format!("{gems:#?}")),
        ("gems.limits", format!("{:#?}", gems.limits)),
        ("gems.limits", format!("{:#?}", gems.limits.package)),
        ("gems.limits.import_", format!("{:#?}", gems.limits.import)),
        ("gems.sqlite", format!("{:#?}", weir_gems::store::SqliteSettings::new(""))),
        ("gems.postgres", format!("{postgres:#?}")),
        ("gems.postgres.limits", format!("{:#?}", postgres.limits)),
        ("gems.webhooks", format!("{told:#?}")),
        ("gems.webhooks.limits", format!("{:#?}", told.limits)),
        ("gems.webhooks.endpoints[]", format!("{endpoint:#?}")),
        ("gems.mirror", format!("{mirror:#?}")),
        ("gems.mirror.limits", format!("{:#?}", mirror.limits)),
        ("gems.mirror.upstreams[]", format!("{:#?}", upstream())),
        ("history", format!("{history:#?}")),
        ("supervisor", format!("{:#?}", weir_supervisor::RestartPolicy::default())),
    ] {
        for field in fields(&shown) {
            let between = if section.ends_with('_') { "" } else { "." };
            let path = format!("{section}{between}{}", key_of(&field));
            let has_key =
                known.iter().any(|known| *known == path || known.starts_with(&format!("{path}.")));
            // Derived from data_dir; or fields whose own fields are among the section's keys.
            let is_no_key = [
                "directory",
                "path",
                "websocket",
                "pusher",
                "limits",
                "http2",
                "clients",
                "package",
                "import",
            ]
            .contains(&field.as_str());
            assert!(has_key || is_no_key, "{path} has no key");
        }
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
fn each_setting_has_a_variable_of_its_own() {
    let mut names = std::collections::HashSet::new();
    for value in reference::values() {
        if !value.path.contains(['[']) && !value.path.contains("NAME") {
            let name = value.path.to_uppercase().replace('.', "_");
            assert!(names.insert(name), "{} shares its variable", value.path);
        }
    }
}

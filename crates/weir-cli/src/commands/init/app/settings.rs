//! The text of weir.toml for an application.

use std::fmt::Write;

use super::quote::{literal, toml, toml_list};

/// A variable with its value, which may have placeholders.
pub(super) type Variable = (String, String);

/// An app of the front.
#[derive(Default)]
pub(super) struct FrontApp {
    pub(super) name: &'static str,
    pub(super) paths: Vec<&'static str>,
    /// The processes: started by Weir with this command, or listening at `upstreams`.
    pub(super) command: Vec<String>,
    pub(super) upstreams: Vec<String>,
    pub(super) environment: Vec<Variable>,
    pub(super) workers: u32,
    pub(super) concurrency: u32,
    /// Whether an open stream keeps a thread or a process busy.
    pub(super) is_blocked_by_streams: bool,
    pub(super) ready_path: Option<&'static str>,
    pub(super) stop_signal: Option<&'static str>,
}

/// A group of job workers.
#[derive(Default)]
pub(super) struct JobGroup {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) environment: Vec<Variable>,
    pub(super) queues: Vec<String>,
    pub(super) processes: u32,
    /// Threads, for `{concurrency}`.
    pub(super) concurrency: Option<u32>,
    pub(super) stop_deadline_seconds: u32,
    pub(super) dump_signal: Option<&'static str>,
    pub(super) comment: Option<String>,
}

/// What Weir observes.
pub(super) struct Observed {
    pub(super) redis: String,
    /// Why it is commented out.
    pub(super) off: Option<String>,
    pub(super) pools: Vec<String>,
    pub(super) pushes: Vec<String>,
    pub(super) database: Option<String>,
}

/// The content of weir.toml.
#[derive(Default)]
pub(super) struct SettingsText {
    pub(super) head: Vec<String>,
    /// Of the application's code.
    pub(super) folder: String,
    pub(super) listen: String,
    pub(super) apps: Vec<FrontApp>,
    pub(super) groups: Vec<JobGroup>,
    /// `max_connections`, and what others than the groups may open.
    pub(super) budget: Option<(u32, u32)>,
    pub(super) observed: Option<Observed>,
}

impl SettingsText {
    pub(super) fn text(&self) -> String {
        let Self { head, listen, apps, groups, budget, observed, .. } = self;
        let mut text: String = head.iter().map(|line| format!("# {line}\n")).collect();
        let _ = write!(
            text,
            "\ndata_dir = \"weir-data\"\n\n\
             [jobs]\nlisten = \"off\"                   # no job server of Weir's own\n\n\
             [console]\nlisten = \"127.0.0.1:7420\"\n\n\
             [front]\nlisten = {}\ntrusted_proxies = [\"127.0.0.1\"]  # nginx, which keeps TLS and static files\n",
            toml(listen)
        );
        apps.iter().for_each(|app| text.push_str(&self.app(app)));
        if let Some((connections, reserve)) = budget {
            let _ = write!(
                text,
                "\n[budget]\ndatabase_connections = {connections}\nreserve = {reserve}                     \
                 # web processes, consoles, migrations, backups\n"
            );
        }
        groups.iter().for_each(|group| text.push_str(&self.group(group)));
        text.extend(observed.as_ref().map(Observed::text));
        text
    }

    fn app(&self, app: &FrontApp) -> String {
        let mut text = format!("\n[[front.apps]]\nname = {}\n", toml(app.name));
        if !app.paths.is_empty() {
            let _ = writeln!(text, "paths = {}", toml_list(app.paths.iter().copied()));
        }
        if app.command.is_empty() {
            let upstreams = toml_list(app.upstreams.iter().map(String::as_str));
            let _ = writeln!(text, "upstreams = {upstreams}");
        } else {
            text.push_str(&self.process(&app.command, &app.environment));
            let _ = writeln!(text, "workers = {}", app.workers);
        }
        let _ = writeln!(text, "concurrency = {}", app.concurrency);
        if app.is_blocked_by_streams {
            text.push_str("streams = 0                      # a stream keeps a thread busy\n");
        }
        if app.command.is_empty() {
            return text;
        }
        if let Some(path) = app.ready_path {
            let _ = writeln!(text, "ready_path = {}", toml(path));
        }
        if let Some(signal) = app.stop_signal {
            let _ = writeln!(text, "stop_signal = {}", toml(signal));
        }
        text
    }

    fn group(&self, group: &JobGroup) -> String {
        let JobGroup { name, command, environment, queues, processes, concurrency, .. } = group;
        let mut text = format!("\n[workers.{name}]\n");
        text.extend(group.comment.as_ref().map(|comment| format!("# {comment}\n")));
        text.push_str(&self.process(command, environment));
        let _ = writeln!(text, "processes = {processes}");
        if let Some(threads) = concurrency {
            let _ = writeln!(text, "concurrency = {threads}");
        }
        if !queues.is_empty() {
            let queues = toml_list(queues.iter().map(String::as_str));
            let _ = write!(text, "queues = {queues}\nqueue_flag = \"-q\"\n");
        }
        let _ = writeln!(text, "stop_deadline = \"{}s\"", group.stop_deadline_seconds);
        if let Some(signal) = group.dump_signal {
            let _ = writeln!(text, "dump_signal = {}", toml(signal));
        }
        text
    }

    /// Returns the settings that apps and groups share.
    fn process(&self, command: &[String], environment: &[Variable]) -> String {
        let mut text = format!(
            "folder = {}\ncommand = {}\n",
            toml(&self.folder),
            toml_list(command.iter().map(String::as_str))
        );
        if !environment.is_empty() {
            let pairs = environment.iter().map(|(name, value)| format!("{name} = {}", toml(value)));
            let pairs: Vec<String> = pairs.collect();
            let _ = writeln!(text, "environment = {{ {} }}", pairs.join(", "));
        }
        text
    }
}

impl Observed {
    fn text(&self) -> String {
        let Self { redis, off, pools, pushes, database } = self;
        let mut lines = vec![
            "[observe]                        # doctor's findings, charts and forecasts in the console".to_owned(),
            format!("pools = {}", toml_list(pools.iter().map(String::as_str))),
            "# Queues that the application pushes to: doctor reports those that no process serves.".to_owned(),
            format!("pushes = {}", toml_list(pushes.iter().map(String::as_str))),
            String::new(),
            "[[observe.redis]]".to_owned(),
            format!("url = {}", toml(redis)),
        ];
        if let Some(why) = off {
            lines =
                lines.into_iter().map(|line| format!("# {line}").trim_end().to_owned()).collect();
            lines.insert(0, format!("# Not observed: {why}"));
        }
        let name = database.as_deref().unwrap_or("app_production");
        lines.extend([
            String::new(),
            "# [observe.postgres]             # CREATE ROLE weir LOGIN; GRANT pg_monitor TO weir;"
                .to_owned(),
            format!("# url = {}", toml(&format!("postgres://weir@127.0.0.1/{name}"))),
            "# password = { env = \"WEIR_POSTGRES_PASSWORD\" }".to_owned(),
        ]);
        format!("\n{}\n", lines.join("\n"))
    }
}

/// Returns a variable whose value has no placeholders.
pub(super) fn fixed(name: &str, value: impl ToString) -> Variable {
    (name.to_owned(), literal(&value.to_string()))
}

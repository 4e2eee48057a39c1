//! The settings file of a node.

use std::fmt::Write;
use std::path::Path;

use crate::soak::realtime::APPS;
use crate::soak::shared::Endpoints;
use crate::weir_process::toml_string;

#[derive(Debug)]
pub(super) struct NodeSettings<'a> {
    pub(super) folder: &'a Path,
    pub(super) endpoints: Endpoints,
    /// This program, which has the workers of the app.
    pub(super) bench: &'a Path,
    /// `None`: the stores of jobs and realtime are embedded.
    pub(super) redis: Option<String>,
    /// `None`: the store of gems is embedded.
    pub(super) postgres: Option<String>,
    /// The .gem files of all nodes that share a Postgres.
    pub(super) gem_files: &'a Path,
}

/// Returns the text of `weir.toml`.
pub(super) fn weir_toml(node: &NodeSettings<'_>) -> String {
    let Endpoints { jobs, front, console, .. } = node.endpoints;
    let data = toml_string(&node.folder.join("data"));
    let password = toml_string(&node.folder.join("console-password"));
    let bench = toml_string(node.bench);
    let mut text = format!(
        "data_dir = {data}\n\
         [console]\nlisten = \"{console}\"\npassword = {{ file = {password} }}\n\
         metrics_without_login = true\n\
         [jobs]\nlisten = \"{jobs}\"\n"
    );
    // Writing to a String cannot fail.
    if let Some(redis) = &node.redis {
        let _ = writeln!(text, "store = {{ redis = [{{ url = \"{redis}\" }}] }}");
    }
    // Jobs of a worker that was killed return early enough for the end of the run.
    text.push_str("[jobs.limits]\nheartbeat_timeout = \"15s\"\n");
    let _ = write!(
        text,
        "[front]\nlisten = \"{front}\"\n\
         [[front.apps]]\nname = \"soak\"\nworkers = 2\n\
         command = [{bench}, \"front-worker\", \"--socket\", \"{{socket}}\", \"--keep-alive\"]\n"
    );
    append_realtime(node, &mut text);
    append_gems(node, &mut text);
    text
}

fn append_realtime(node: &NodeSettings<'_>, text: &mut String) {
    text.push_str("[realtime]\n");
    if let Some(redis) = &node.redis {
        let _ = writeln!(text, "broker = {{ redis = [{{ url = \"{redis}\" }}] }}");
    }
    let secret = toml_string(&node.folder.join("realtime-secret"));
    for app in APPS {
        // Redis keeps the histories of all apps.
        let durable = if app.is_durable && node.redis.is_none() { ", durable = true" } else { "" };
        // More than what is published during any fault.
        let history =
            format!("events_max = 2000, bytes_max = \"1MiB\", age_max = \"10m\"{durable}");
        let _ = write!(
            text,
            "[[realtime.apps]]\nid = \"{}\"\nkey = \"{}\"\nsecret = {{ file = {secret} }}\n\
             history = {{ {history} }}\n",
            app.id, app.key
        );
    }
}

fn append_gems(node: &NodeSettings<'_>, text: &mut String) {
    let Some(gems) = node.endpoints.gems else { return };
    let _ = writeln!(text, "[gems]\nlisten = \"{gems}\"");
    if let Some(postgres) = &node.postgres {
        let files = toml_string(node.gem_files);
        let _ = write!(
            text,
            "store = \"postgres\"\nfiles_dir = {files}\n[gems.postgres]\nurl = \"{postgres}\"\n"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(redis: Option<&str>, postgres: Option<&str>) -> String {
        let at = |port| ([127, 0, 0, 1], port).into();
        let endpoints = Endpoints { jobs: at(1), front: at(2), console: at(3), gems: Some(at(4)) };
        weir_toml(&NodeSettings {
            folder: Path::new("/f"),
            endpoints,
            bench: Path::new("/bench"),
            redis: redis.map(str::to_owned),
            postgres: postgres.map(str::to_owned),
            gem_files: Path::new("/gems"),
        })
    }

    #[test]
    fn one_node_keeps_everything_itself() {
        let text = settings(None, None);
        assert!(!text.contains("redis") && !text.contains("postgres"), "{text}");
        assert_eq!(text.matches("durable = true").count(), 1, "{text}");
        assert!(text.contains("[gems]\nlisten = \"127.0.0.1:4\"\n"), "{text}");
    }

    #[test]
    fn several_nodes_share_redis_and_postgres() {
        let text = settings(Some("redis://r:6379"), Some("postgres://p"));
        assert_eq!(text.matches("redis = [{ url = \"redis://r:6379\" }]").count(), 2, "{text}");
        assert!(text.contains("store = \"postgres\"\nfiles_dir = \"/gems\"\n"), "{text}");
        assert!(!text.contains("durable = true"), "{text}");
    }
}

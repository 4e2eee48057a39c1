//! Derives the name of a service from a process' command line.

use std::fs;
use std::path::Path;

/// Program names of web servers.
const WEB: [&str; 7] =
    ["puma", "unicorn", "pitchfork", "passenger", "gunicorn", "uvicorn", "hypercorn"];
/// Program names of connection poolers for Postgres.
const POOLERS: [&str; 7] =
    ["pgbouncer", "pgcat", "odyssey", "pgpool", "pgagroal", "pgdog", "supavisor"];
/// Programs whose first argument names the actual program.
const INTERPRETERS: [&str; 6] = ["ruby", "node", "python", "python3", "bundle", "sh"];

/// Returns the service of a process.
pub(crate) fn service_of(proc: &Path, pid: u32) -> Option<String> {
    let line = fs::read(proc.join(pid.to_string()).join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    Some(line.trim()).filter(|line| !line.is_empty()).map(service)
}

/// Returns "sidekiq", "web", "streaming", or the name of the program.
pub(crate) fn service(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    let programs: Vec<&str> = words.iter().map(|word| program(word)).collect();
    let names = |name: &str| programs.contains(&name);
    if names("sidekiq") {
        "sidekiq".to_owned()
    } else if WEB.into_iter().any(names) {
        "web".to_owned()
    } else if words.iter().any(|word| word.contains("streaming")) {
        "streaming".to_owned()
    } else {
        let script = programs.iter().skip(1).find(|it| !it.is_empty() && !it.starts_with('-'));
        match (programs.first(), script) {
            (Some(first), Some(script)) if INTERPRETERS.contains(first) => (*script).to_owned(),
            (Some(first), _) => (*first).to_owned(),
            (None, _) => line.to_owned(),
        }
    }
}

/// Reports whether the service is a connection pooler for Postgres.
pub(crate) fn is_pooler(service: &str) -> bool {
    POOLERS.contains(&service)
}

/// Returns the program's name: "/usr/bin/puma:" -> "puma".
fn program(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    name.trim_end_matches(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_by_their_programs() {
        for (line, expected) in [
            ("sidekiq 7.3.9 mastodon [3 of 25 busy]", "sidekiq"),
            ("ruby /usr/local/bin/sidekiq -c 5", "sidekiq"),
            ("puma: cluster worker 0: 4711 [mastodon]", "web"),
            ("puma 6.4.2 (tcp://127.0.0.1:3000) [mastodon]", "web"),
            ("/usr/bin/python3 /usr/bin/gunicorn shop:app", "web"),
            ("node ./streaming", "streaming"),
            ("/usr/bin/node /srv/live/streaming/index.js", "streaming"),
            ("python3 report.py --all", "report.py"),
            ("ruby -e sleep", "sleep"),
            ("/usr/lib/postgresql/16/bin/psql shop", "psql"),
            ("DBeaver 24", "DBeaver"),
            ("/usr/sbin/pgbouncer -d /etc/pgbouncer/pgbouncer.ini", "pgbouncer"),
            ("", ""),
        ] {
            assert_eq!(service(line), expected, "{line}");
        }
    }
}

//! How a setting of Postgres is changed so that the change takes effect.
//!
//! What `ALTER SYSTEM` has set stands in `postgresql.auto.conf`, which is read after `postgresql.conf` and
//! wins; a `-c` on the command line wins over every file; and a role or a database may have values of its
//! own. So the line to change is where the present value comes from.

use std::path::Path;

use crate::finding::Finding;
use crate::observation::Postgres;

const ALTERED: &str = "postgresql.auto.conf";
const MAIN: &str = "postgresql.conf";

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// It is as Postgres ships, or stands in `postgresql.conf`.
    Main,
    /// In a file, and which one may not be seen.
    SomeFile,
    /// In a file that `postgresql.conf` includes.
    Included(&'a str),
    /// `ALTER SYSTEM`.
    Altered,
    /// `-c`.
    CommandLine,
    /// `ALTER ROLE`, `ALTER DATABASE`.
    Role,
}

impl<'a> Origin<'a> {
    pub(crate) fn of(postgres: &'a Postgres, setting: &str) -> Self {
        let Some(origin) = postgres.origins.iter().find(|it| it.name == setting) else {
            return Self::Main;
        };
        let file = origin.file.as_deref();
        let name = file.and_then(|file| Path::new(file).file_name()?.to_str());
        match (origin.source.as_str(), name, file) {
            ("command line", ..) => Self::CommandLine,
            ("user" | "database" | "database user", ..) => Self::Role,
            (_, Some(ALTERED), _) => Self::Altered,
            (_, Some(MAIN), _) => Self::Main,
            (_, _, Some(file)) => Self::Included(file),
            ("configuration file", None, None) => Self::SomeFile,
            _ => Self::Main,
        }
    }
}

/// The finding with the line that sets `setting`, where it takes effect.
pub(crate) fn change(
    finding: Finding,
    postgres: &Postgres,
    (setting, value): (&str, &str),
    restart: bool,
) -> Finding {
    let origin = Origin::of(postgres, setting);
    // A file that differs from the command line waits for ever.
    let finding = match origin {
        Origin::CommandLine => finding,
        _ => waiting(finding, postgres, setting),
    };
    let line = format!("{setting} = {value}");
    let (place, line) = match origin {
        Origin::Main => (MAIN.to_owned(), line),
        Origin::SomeFile => {
            let place = "postgresql.conf, unless ALTER SYSTEM has set it (with pg_monitor that can be seen)";
            (place.to_owned(), line)
        }
        Origin::Included(file) => (file.to_owned(), line),
        Origin::Altered => {
            let value = value.trim_matches('\'');
            let reload = if restart { "" } else { "; SELECT pg_reload_conf()" };
            let place =
                "psql, as a superuser (ALTER SYSTEM has set it, which wins over postgresql.conf)";
            (place.to_owned(), format!("ALTER SYSTEM SET {setting} = '{value}'{reload};"))
        }
        Origin::CommandLine => {
            let place = "the command line of Postgres, which wins over its files";
            (place.to_owned(), format!("-c {setting}={value}"))
        }
        Origin::Role => {
            let place = "where ALTER ROLE or ALTER DATABASE has set it (psql shows that: \\drds)";
            (place.to_owned(), line)
        }
    };
    // What the command line says is read at a start only.
    if restart || place.starts_with("the command line") {
        finding.change_and_restart(place, line)
    } else {
        finding.change(place, line)
    }
}

/// Somebody has changed it already: what is seen is what runs.
fn waiting(mut finding: Finding, postgres: &Postgres, setting: &str) -> Finding {
    if postgres.pending_restart.iter().any(|name| name == setting) {
        finding.evidence.push_str("; it was changed, and the change waits for a restart");
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::observation::SettingOrigin;

    fn said(source: &str, file: Option<&str>, restart: bool) -> (String, String, bool) {
        let origin = SettingOrigin {
            name: "work_mem".to_owned(),
            source: source.to_owned(),
            file: file.map(str::to_owned),
        };
        let postgres = Postgres { origins: vec![origin], ..Postgres::default() };
        let finding = Finding::new("rule", Severity::Warning, "", "");
        let change = change(finding, &postgres, ("work_mem", "8MB"), restart).change.unwrap();
        (change.place, change.line, change.restart)
    }

    #[test]
    fn the_line_is_where_the_value_comes_from() {
        let file = "configuration file";
        for (source, path, place, line) in [
            ("default", None, "postgresql.conf", "work_mem = 8MB"),
            (
                file,
                Some("/etc/postgresql/15/main/postgresql.conf"),
                "postgresql.conf",
                "work_mem = 8MB",
            ),
            (
                file,
                Some("/etc/postgresql/conf.d/a.conf"),
                "/etc/postgresql/conf.d/a.conf",
                "work_mem = 8MB",
            ),
            (
                file,
                Some("/var/lib/postgresql/data/postgresql.auto.conf"),
                "psql, as a superuser (ALTER SYSTEM has set it, which wins over postgresql.conf)",
                "ALTER SYSTEM SET work_mem = '8MB'; SELECT pg_reload_conf();",
            ),
            (
                "command line",
                None,
                "the command line of Postgres, which wins over its files",
                "-c work_mem=8MB",
            ),
        ] {
            let (at, change, restart) = said(source, path, false);
            assert_eq!((at.as_str(), change.as_str()), (place, line));
            assert_eq!(restart, source == "command line");
        }
        assert!(said(file, None, false).0.contains("unless ALTER SYSTEM has set it"));
        assert!(said("user", None, false).0.contains("ALTER ROLE"));
        let auto = Some("/data/postgresql.auto.conf");
        assert_eq!(said(file, auto, true).1, "ALTER SYSTEM SET work_mem = '8MB';");
    }

    #[test]
    fn a_change_that_waits_for_a_restart_is_said() {
        let postgres =
            Postgres { pending_restart: vec!["shared_buffers".to_owned()], ..Postgres::default() };
        let finding = Finding::new("rule", Severity::Warning, "", "128 MB");
        let finding = change(finding, &postgres, ("shared_buffers", "2GB"), true);
        let expected = "128 MB; it was changed, and the change waits for a restart";
        assert_eq!(finding.evidence, expected);
    }
}

//! Suggests changes of Postgres settings in the place where they take effect.
//!
//! Values from `ALTER SYSTEM` are in `postgresql.auto.conf`, which overrides `postgresql.conf`. A
//! `-c` on the command line overrides every file, and roles and databases may have values of their
//! own. A change is therefore suggested where the present value comes from.

use std::path::Path;

use crate::finding::Finding;
use crate::observation::{DatabaseObservation, SettingException};

const ALTERED: &str = "postgresql.auto.conf";
const MAIN: &str = "postgresql.conf";

/// Changes in files are read by running servers only then.
const RELOAD: &str = "Postgres reads the change after SELECT pg_reload_conf().";

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// The default, or a line in `postgresql.conf`.
    Main,
    /// A file whose name is not visible.
    SomeFile,
    /// A file included by `postgresql.conf`.
    Included(&'a str),
    /// `ALTER SYSTEM`.
    Altered,
    /// `-c`.
    CommandLine,
    /// `ALTER ROLE`, `ALTER DATABASE`.
    Role,
}

impl<'a> Origin<'a> {
    pub(crate) fn of(postgres: &'a DatabaseObservation, setting: &str) -> Self {
        let Some(origin) = postgres.origins.iter().find(|it| it.name == setting) else {
            return Self::Main;
        };
        let file = origin.file.as_deref();
        let name = file.and_then(|file| Path::new(file).file_name()?.to_str());
        match (origin.source.as_str(), name, file) {
            ("command line", ..) => Self::CommandLine,
            ("user" | "database" | "database user" | "global", ..) => Self::Role,
            (_, Some(ALTERED), _) => Self::Altered,
            (_, Some(MAIN), _) => Self::Main,
            (_, _, Some(file)) => Self::Included(file),
            ("configuration file", None, None) => Self::SomeFile,
            _ => Self::Main,
        }
    }
}

/// A setting for a size, as it applies to some sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size<'a> {
    pub(crate) setting: &'a str,
    pub(crate) bytes: u64,
    /// The role or database with its own value, or `None` for all others.
    exception: Option<&'a SettingException>,
}

impl<'a> Size<'a> {
    /// Returns the server's value and those of roles and databases. Plain numbers are multiples of
    /// `unit_bytes`.
    pub(crate) fn all(
        postgres: &'a DatabaseObservation,
        (setting, seen_bytes): (&'a str, u64),
        unit_bytes: u64,
    ) -> Vec<Self> {
        let seen = Self { setting, bytes: seen_bytes, exception: None };
        let others = others(postgres, setting).into_iter().filter_map(|exception| {
            let bytes = exception.bytes(unit_bytes)?;
            Some(Self { setting, bytes, exception: Some(exception) })
        });
        std::iter::once(seen).chain(others).collect()
    }

    /// Returns the subject of a finding: "`work_mem` of role shop".
    pub(crate) fn subject(&self) -> String {
        match self.exception {
            Some(exception) => format!("{} of {}", self.setting, exception.holder.words()),
            None => self.setting.to_owned(),
        }
    }

    /// Adds the line that changes the value to the finding.
    pub(crate) fn change(
        &self,
        finding: Finding,
        postgres: &DatabaseObservation,
        value: &str,
    ) -> Finding {
        match self.exception {
            Some(exception) => finding.change(EXCEPTION, exception.line(value)),
            None => change(finding, postgres, (self.setting, value), false),
        }
    }
}

/// Where to change values that override `ALTER SYSTEM` and files.
const EXCEPTION: &str = "psql, as a superuser (a value of the role or database itself overrides ALTER \
                         SYSTEM and all files; open sessions keep the old one)";

/// Returns the values of roles and databases that differ from the observed one.
pub(crate) fn others<'a>(
    postgres: &'a DatabaseObservation,
    setting: &'a str,
) -> Vec<&'a SettingException> {
    let seen = seen_by(postgres, setting);
    let exceptions = postgres.exceptions.known().into_iter().flat_map(|it| it.of(setting));
    exceptions.filter(|it| Some(*it) != seen).collect()
}

/// Returns the exception that applies to the observer's own session.
fn seen_by<'a>(
    postgres: &'a DatabaseObservation,
    setting: &'a str,
) -> Option<&'a SettingException> {
    let source = &postgres.origins.iter().find(|it| it.name == setting)?.source;
    let (of_role, of_database) = match source.as_str() {
        "user" => (true, false),
        "database" => (false, true),
        "database user" => (true, true),
        "global" => (false, false),
        _ => return None,
    };
    let mut exceptions = postgres.exceptions.known()?.of(setting);
    exceptions.find(|it| {
        let is_own = it.holder.role.is_none() || it.holder.role == postgres.user;
        is_own && it.holder.role.is_some() == of_role && it.holder.database.is_some() == of_database
    })
}

/// Adds the line that sets `setting` to the finding, in the place where it takes effect.
pub(crate) fn change(
    finding: Finding,
    postgres: &DatabaseObservation,
    (setting, value): (&str, &str),
    restart: bool,
) -> Finding {
    let origin = Origin::of(postgres, setting);
    // A file that differs from the command line is always pending, so pending says nothing here.
    if origin != Origin::CommandLine && is_pending(postgres, setting) {
        return waiting(finding);
    }
    let line = format!("{setting} = {value}");
    let (place, line) = match origin {
        Origin::Main => (MAIN.to_owned(), line),
        Origin::SomeFile => {
            let place = "postgresql.conf, or the parameters of a managed Postgres, unless it was set \
                         by ALTER SYSTEM (to see that, grant pg_monitor)";
            (place.to_owned(), line)
        }
        Origin::Included(file) => (file.to_owned(), line),
        Origin::Altered => {
            let value = value.trim_matches('\'');
            let reload = if restart { "" } else { "; SELECT pg_reload_conf()" };
            let place = "psql, as a superuser (it was set by ALTER SYSTEM, which overrides \
                 postgresql.conf)";
            (place.to_owned(), format!("ALTER SYSTEM SET {setting} = '{value}'{reload};"))
        }
        Origin::CommandLine => {
            let place = "the command line of Postgres, which overrides its files";
            (place.to_owned(), format!("-c {setting}={value}"))
        }
        Origin::Role if let Some(exception) = seen_by(postgres, setting) => {
            (EXCEPTION.to_owned(), exception.line(value))
        }
        Origin::Role => {
            let place = "where ALTER ROLE or ALTER DATABASE set it (psql shows where: \\drds)";
            (place.to_owned(), line)
        }
    };
    // The command line is read only at the start.
    if restart || place.starts_with("the command line") {
        finding.change_and_restart(place, line)
    } else if matches!(origin, Origin::Main | Origin::SomeFile | Origin::Included(_)) {
        finding.adding(RELOAD).change(place, line)
    } else {
        finding.change(place, line)
    }
}

fn is_pending(postgres: &DatabaseObservation, setting: &str) -> bool {
    postgres.pending_restart.iter().any(|name| name == setting)
}

/// Says that the setting was already changed. The new value is not visible, and a line would replace it.
fn waiting(mut finding: Finding) -> Finding {
    finding.evidence.push_str("; it was changed and takes effect after a restart");
    finding.adding("No line is suggested: the changed value may be right (pending-restart).")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::observation::{Exceptions, Fact, Holder, SettingOrigin};

    fn said(source: &str, file: Option<&str>, restart: bool) -> (String, String, bool) {
        let origin = SettingOrigin {
            name: "work_mem".to_owned(),
            source: source.to_owned(),
            file: file.map(str::to_owned),
        };
        let postgres =
            DatabaseObservation { origins: vec![origin], ..DatabaseObservation::default() };
        let finding = Finding::new("rule", Severity::Warning, "", "");
        let change = change(finding, &postgres, ("work_mem", "8MB"), restart)
            .line_change()
            .cloned()
            .unwrap();
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
                "psql, as a superuser (it was set by ALTER SYSTEM, which overrides \
                 postgresql.conf)",
                "ALTER SYSTEM SET work_mem = '8MB'; SELECT pg_reload_conf();",
            ),
            (
                "command line",
                None,
                "the command line of Postgres, which overrides its files",
                "-c work_mem=8MB",
            ),
        ] {
            let (at, change, restart) = said(source, path, false);
            assert_eq!((at.as_str(), change.as_str()), (place, line));
            assert_eq!(restart, source == "command line");
        }
        assert!(said(file, None, false).0.contains("unless it was set by ALTER SYSTEM"));
        assert!(said("user", None, false).0.contains("ALTER ROLE"));
        let auto = Some("/data/postgresql.auto.conf");
        assert_eq!(said(file, auto, true).1, "ALTER SYSTEM SET work_mem = '8MB';");
    }

    #[test]
    fn what_is_set_for_a_role_or_a_database_is_changed_there_and_that_of_others_too() {
        let of = |role: Option<&str>, database: Option<&str>, value: &str| SettingException {
            holder: Holder { role: role.map(str::to_owned), database: database.map(str::to_owned) },
            name: "work_mem".to_owned(),
            value: value.to_owned(),
        };
        let settings = vec![
            of(Some("shop"), None, "1GB"),
            of(Some("weir"), None, "2GB"),
            of(None, Some("app"), "3GB"),
            of(Some("weir"), Some("app"), "4GB"),
        ];
        let exceptions = Fact::Known(Exceptions { settings, ..Exceptions::default() });
        for (source, line, others) in [
            ("user", r#"ALTER ROLE "weir" SET work_mem = '8MB';"#, [1, 3, 4].as_slice()),
            ("database", r#"ALTER DATABASE "app" SET work_mem = '8MB';"#, &[1, 2, 4]),
            (
                "database user",
                r#"ALTER ROLE "weir" IN DATABASE "app" SET work_mem = '8MB';"#,
                &[1, 2, 3],
            ),
            ("configuration file", "work_mem = 8MB", &[1, 2, 3, 4]),
        ] {
            let origin = SettingOrigin {
                name: "work_mem".to_owned(),
                source: source.to_owned(),
                file: Some("/data/postgresql.conf".to_owned()),
            };
            let postgres = DatabaseObservation {
                user: Some("weir".to_owned()),
                origins: vec![origin],
                exceptions: exceptions.clone(),
                ..DatabaseObservation::default()
            };
            let finding = || Finding::new("rule", Severity::Warning, "", "");
            let sizes = Size::all(&postgres, ("work_mem", 7), 1_024);
            let change =
                sizes[0].change(finding(), &postgres, "8MB").line_change().cloned().unwrap();
            assert_eq!(change.line, line, "{source}");
            let gib: Vec<_> = sizes[1..].iter().map(|size| size.bytes >> 30).collect();
            assert_eq!(gib, others, "{source}");
        }
    }

    #[test]
    fn a_change_that_waits_for_a_restart_is_said() {
        let postgres = DatabaseObservation {
            pending_restart: vec!["shared_buffers".to_owned()],
            ..DatabaseObservation::default()
        };
        let finding = Finding::new("rule", Severity::Warning, "", "128 MB");
        let finding = change(finding, &postgres, ("shared_buffers", "2GB"), true);
        let expected = "128 MB; it was changed and takes effect after a restart";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.line_change(), None, "it would replace a value that is not visible");
    }
}

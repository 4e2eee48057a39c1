//! What roles and databases have instead of what the server has: `ALTER ROLE`, `ALTER DATABASE`.

use std::time::Duration;

use serde::Serialize;

use crate::sql;

/// All of them that matter to the database that was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exceptions {
    /// Ceilings of sessions.
    pub limits: Vec<ConnectionLimit>,
    /// Values of settings: they win over every file and over `ALTER SYSTEM`.
    pub settings: Vec<SettingException>,
}

/// `CONNECTION LIMIT`, which superusers are not held to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionLimit {
    /// Whose sessions.
    pub holder: Holder,
    /// So many at most.
    pub connections: u32,
    /// So many are open.
    pub open: u32,
}

/// `ALTER .. SET`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingException {
    /// Whose sessions.
    pub holder: Holder,
    /// The setting.
    pub name: String,
    /// As it was written: "64MB".
    pub value: String,
}

/// Whose sessions: of a role, of a database, of a role in a database, or all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// None: of any role.
    pub role: Option<String>,
    /// None: in any database.
    pub database: Option<String>,
}

impl Holder {
    /// As people say it: "role shop".
    #[must_use]
    pub fn words(&self) -> String {
        match (&self.role, &self.database) {
            (Some(role), Some(database)) => format!("role {role} in database {database}"),
            (Some(role), None) => format!("role {role}"),
            (None, Some(database)) => format!("database {database}"),
            (None, None) => "all roles".to_owned(),
        }
    }

    /// What a statement begins with that changes it: `ALTER ROLE "shop"`.
    #[must_use]
    pub fn alter(&self) -> String {
        let of = |kind: &str, name: &str| format!("{kind} {}", sql::identifier(name));
        match (&self.role, &self.database) {
            (Some(role), Some(database)) => {
                format!("ALTER {} IN {}", of("ROLE", role), of("DATABASE", database))
            }
            (Some(role), None) => format!("ALTER {}", of("ROLE", role)),
            (None, Some(database)) => format!("ALTER {}", of("DATABASE", database)),
            (None, None) => "ALTER ROLE ALL".to_owned(),
        }
    }
}

impl ConnectionLimit {
    /// The statement that makes it another one.
    #[must_use]
    pub fn line(&self, connections: u32) -> String {
        format!("{} CONNECTION LIMIT {connections};", self.holder.alter())
    }
}

impl SettingException {
    /// The statement that gives it another value.
    #[must_use]
    pub fn line(&self, value: &str) -> String {
        format!("{} SET {} = '{}';", self.holder.alter(), self.name, value.trim_matches('\''))
    }

    /// Its value as a time, as Postgres reads it; a number alone is of milliseconds. None: it is no time.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let (number, unit) = self.parts();
        let seconds = match unit {
            "" | "ms" => 0.001,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(number? * seconds).ok()
    }

    /// A number and its unit.
    fn parts(&self) -> (Option<f64>, &str) {
        let text = self.value.trim();
        let digits = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        (number.parse().ok(), unit.trim())
    }

    /// Its value in bytes, as Postgres reads sizes; a number alone is of `unit_bytes` each. None: it is no
    /// size.
    #[must_use]
    pub fn bytes(&self, unit_bytes: u64) -> Option<u64> {
        let (number, unit) = self.parts();
        let unit = match unit {
            "" => unit_bytes,
            "B" => 1,
            "kB" => 1 << 10,
            "MB" => 1 << 20,
            "GB" => 1 << 30,
            "TB" => 1 << 40,
            _ => return None,
        };
        let bytes = number? * unit as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size without a sign, and a float ends at the greatest number"
        )]
        Some(bytes as u64)
    }
}

impl Exceptions {
    /// Those of one setting.
    pub fn of<'a>(&'a self, setting: &'a str) -> impl Iterator<Item = &'a SettingException> {
        self.settings.iter().filter(move |it| it.name == setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(role: Option<&str>, database: Option<&str>) -> Holder {
        Holder { role: role.map(str::to_owned), database: database.map(str::to_owned) }
    }

    #[test]
    fn a_statement_is_about_whom_it_was_set_for() {
        for (role, database, statement) in [
            (Some("shop"), None, r#"ALTER ROLE "shop""#),
            (None, Some("app"), r#"ALTER DATABASE "app""#),
            (Some("a\"b"), Some("app"), r#"ALTER ROLE "a""b" IN DATABASE "app""#),
            (None, None, "ALTER ROLE ALL"),
        ] {
            assert_eq!(holder(role, database).alter(), statement);
        }
    }

    #[test]
    fn sizes_are_read_as_postgres_does() {
        for (value, expected) in [
            ("64MB", Some(64 << 20)),
            ("64 MB", Some(64 << 20)),
            ("1.5GB", Some(3 << 29)),
            ("65536", Some(64 << 20)),
            ("many", None),
            ("", None),
            ("1XB", None),
        ] {
            let setting =
                SettingException { value: value.to_owned(), ..SettingException::default() };
            assert_eq!(setting.bytes(1 << 10), expected, "{value}");
        }
    }

    #[test]
    fn times_are_read_as_postgres_does() {
        for (value, expected) in [
            ("0", Some(0)),
            ("1500", Some(1_500)),
            ("30s", Some(30_000)),
            ("5min", Some(300_000)),
            ("1.5 h", Some(5_400_000)),
            ("off", None),
        ] {
            let setting =
                SettingException { value: value.to_owned(), ..SettingException::default() };
            assert_eq!(setting.duration(), expected.map(Duration::from_millis), "{value}");
        }
    }
}

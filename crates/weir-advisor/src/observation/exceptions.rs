//! Limits and settings of single roles and databases: `ALTER ROLE`, `ALTER DATABASE`.

use std::time::Duration;

use serde::Serialize;

use crate::sql;

/// All exceptions that affect the observed database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exceptions {
    /// Connection limits.
    pub limits: Vec<ConnectionLimit>,
    /// Values of settings. They override every file and `ALTER SYSTEM`.
    pub settings: Vec<SettingException>,
}

/// A `CONNECTION LIMIT`. It does not apply to superusers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionLimit {
    /// The role or database with the limit.
    pub holder: Holder,
    /// The limit.
    pub connections: u32,
    /// Open sessions.
    pub open: u32,
}

/// A value set by `ALTER .. SET`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingException {
    /// The role or database with the value.
    pub holder: Holder,
    /// Name of the setting.
    pub name: String,
    /// The value as written: "64MB".
    pub value: String,
}

/// The sessions to which an exception applies: by role, by database, by both, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// `None`: any role.
    pub role: Option<String>,
    /// `None`: any database.
    pub database: Option<String>,
}

impl Holder {
    /// Returns a description: "role shop".
    #[must_use]
    pub fn words(&self) -> String {
        match (&self.role, &self.database) {
            (Some(role), Some(database)) => format!("role {role} in database {database}"),
            (Some(role), None) => format!("role {role}"),
            (None, Some(database)) => format!("database {database}"),
            (None, None) => "all roles".to_owned(),
        }
    }

    /// Returns the beginning of the statement that changes it: `ALTER ROLE "shop"`.
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
    /// Returns the statement that sets the limit to `connections`.
    #[must_use]
    pub fn line(&self, connections: u32) -> String {
        format!("{} CONNECTION LIMIT {connections};", self.holder.alter())
    }
}

impl SettingException {
    /// Returns the statement that sets `value`.
    #[must_use]
    pub fn line(&self, value: &str) -> String {
        format!("{} SET {} = '{}';", self.holder.alter(), self.name, value.trim_matches('\''))
    }

    /// Parses the value as a duration with Postgres' rules; plain numbers are milliseconds. Returns
    /// `None` if it is not one.
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

    /// Splits the value into a number and a unit.
    fn parts(&self) -> (Option<f64>, &str) {
        let text = self.value.trim();
        let digits = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        (number.parse().ok(), unit.trim())
    }

    /// Parses the value as a size in bytes with Postgres' rules; plain numbers are multiples of
    /// `unit_bytes`. Returns `None` if it is not one.
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
    /// Returns the exceptions of one setting.
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

//! Classifies errors of Postgres, of PgBouncer and of the client library. No other file reads their
//! text.

use std::error::Error;

use tokio_postgres::error::DbError;
use weir_advisor::observation::Holder;
use weir_sidekiq::NetworkErrorKind;

use super::error::PostgresError;

/// Why Postgres or PgBouncer cannot be queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PostgresErrorKind {
    /// A file of certificates or keys on this machine cannot be used.
    CertificateFile,
    /// There was no response within a limit of this program.
    Deadline,
    /// The server could not be reached, or the connection broke.
    Network(NetworkErrorKind),
    /// The server requires a password, and there is none.
    PasswordMissing,
    /// The server does not support TLS.
    NoTls,
    /// The server does not speak the protocol as expected.
    Protocol,
    /// All connection slots are in use (53300).
    SlotsExhausted,
    /// The limit of a role or a database is reached (53300).
    LimitReached(Holder),
    /// The user lacks a privilege (42501).
    NoPrivilege,
    /// `pg_hba.conf` does not admit the user from this address (28000).
    NotInHba,
    /// The role does not exist, or may not log in (28000).
    NoSuchRole,
    /// The password is wrong (28P01), or PgBouncer does not know the user.
    WrongPassword,
    /// The database does not exist (3D000).
    NoSuchDatabase,
    /// The server is starting or stopping (57P01 to 57P03).
    NotAccepting,
    /// This version has no such table, column or function (42P01, 42703, 42883).
    NotSupported,
    /// PgBouncer accepts no more clients.
    PoolerFull,
    /// PgBouncer accepts only connections with TLS.
    TlsRequired,
    /// The user may not query PgBouncer's own database.
    NotAdmin,
    /// Another error that the server reported.
    Other,
}

impl PostgresErrorKind {
    pub(crate) fn of(error: &PostgresError) -> Self {
        match error {
            PostgresError::Address { .. } => Self::Other,
            PostgresError::Certificate { .. } => Self::CertificateFile,
            PostgresError::Deadline(_) => Self::Deadline,
            PostgresError::Library(error) => match error.as_db_error() {
                Some(error) => Self::of_reply(&Reply::from(error)),
                None => Self::of_library(error),
            },
        }
    }

    fn of_reply(reply: &Reply<'_>) -> Self {
        let pooler = reply.routine.is_none().then(|| Self::of_pooler(reply.message)).flatten();
        pooler.unwrap_or_else(|| Self::of_code(reply))
    }

    fn of_code(reply: &Reply<'_>) -> Self {
        match reply.code {
            "53300" => reply.limit_holder().map_or(Self::SlotsExhausted, Self::LimitReached),
            "42501" => Self::NoPrivilege,
            "28000" if reply.routine == Some(routine::ROLE) => Self::NoSuchRole,
            "28000" => Self::NotInHba,
            "28P01" => Self::WrongPassword,
            "3D000" => Self::NoSuchDatabase,
            "57P01" | "57P02" | "57P03" => Self::NotAccepting,
            "42P01" | "42703" | "42883" => Self::NotSupported,
            _ => Self::Other,
        }
    }

    /// Classifies an error of PgBouncer, whose code is mostly 08P01. Texts: `client.c` and `admin.c`
    /// of 1.18 to 1.24.
    fn of_pooler(message: &str) -> Option<Self> {
        let is_stranger =
            message.ends_with("authentication failed") || message.starts_with("no such user");
        match message {
            "no more connections allowed (max_client_conn)" => Some(Self::PoolerFull),
            "SSL required" => Some(Self::TlsRequired),
            "not allowed" => Some(Self::NotAdmin),
            _ if is_stranger => Some(Self::WrongPassword),
            _ => None,
        }
    }

    /// Classifies an error of the client library, whose kinds are private. Texts: `connect_raw.rs`,
    /// `connect_tls.rs` and `error/mod.rs` of tokio-postgres 0.7.
    fn of_library(error: &tokio_postgres::Error) -> Self {
        if let Some(kind) = NetworkErrorKind::of(error) {
            return Self::Network(kind);
        }
        match error.source().map(ToString::to_string).as_deref() {
            Some("password missing") => Self::PasswordMissing,
            Some("server does not support TLS") => Self::NoTls,
            _ if error.to_string() == "authentication error" => Self::WrongPassword,
            _ => Self::Protocol,
        }
    }
}

/// Functions of Postgres that report an error (`utils/init` in its source). They tell errors with
/// the same code apart, whatever the language of the message.
mod routine {
    /// The role does not exist, may not log in, or has reached its limit.
    pub(super) const ROLE: &str = "InitializeSessionUserId";
    /// The database has reached its limit.
    pub(super) const DATABASE: &str = "CheckMyDatabase";
}

/// The fields of an error that a server reported.
struct Reply<'a> {
    code: &'a str,
    message: &'a str,
    /// PgBouncer leaves it out, also from the errors that it passes on.
    routine: Option<&'a str>,
}

impl<'a> From<&'a DbError> for Reply<'a> {
    fn from(error: &'a DbError) -> Self {
        Self { code: error.code().code(), message: error.message(), routine: error.routine() }
    }
}

impl Reply<'_> {
    /// Returns what has reached its limit, unless it is the server.
    fn limit_holder(&self) -> Option<Holder> {
        let passed_on = |text: &str| self.routine.is_none() && self.message.starts_with(text);
        let is_role =
            self.routine == Some(routine::ROLE) || passed_on("too many connections for role ");
        let is_database = self.routine == Some(routine::DATABASE)
            || passed_on("too many connections for database ");
        let name = || self.message.split('"').nth(1).map(str::to_owned);
        match (is_role, is_database) {
            (true, _) => Some(Holder { role: Some(name()?), database: None }),
            (_, true) => Some(Holder { role: None, database: Some(name()?) }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: &str, message: &str, routine: Option<&str>) -> PostgresErrorKind {
        PostgresErrorKind::of_reply(&Reply { code, message, routine })
    }

    #[test]
    fn the_code_decides() {
        for (code, expected) in [
            ("42501", PostgresErrorKind::NoPrivilege),
            ("28P01", PostgresErrorKind::WrongPassword),
            ("42883", PostgresErrorKind::NotSupported),
            ("57P03", PostgresErrorKind::NotAccepting),
            ("57014", PostgresErrorKind::Other),
        ] {
            assert_eq!(kind(code, "", None), expected, "{code}");
        }
    }

    #[test]
    fn errors_with_one_code_are_distinguished_by_the_function_that_reports_them() {
        use PostgresErrorKind::{LimitReached, NoSuchRole, NotInHba, SlotsExhausted};
        let missing = "Rolle \"weir\" existiert nicht";
        assert_eq!(kind("28000", missing, Some("InitializeSessionUserId")), NoSuchRole);
        let no_entry = "no pg_hba.conf entry for host \"10.0.0.1\"";
        assert_eq!(kind("28000", no_entry, Some("ClientAuthentication")), NotInHba);
        let role = || LimitReached(Holder { role: Some("weir".into()), database: None });
        let of_role = "too many connections for role \"weir\"";
        assert_eq!(kind("53300", of_role, Some("InitializeSessionUserId")), role());
        assert_eq!(kind("53300", of_role, None), role(), "as PgBouncer passes it on");
        let database = LimitReached(Holder { role: None, database: Some("shop".into()) });
        let of_database = "too many connections for database \"shop\"";
        assert_eq!(kind("53300", of_database, Some("CheckMyDatabase")), database);
        let full = "sorry, too many clients already";
        assert_eq!(kind("53300", full, Some("ProcArrayAdd")), SlotsExhausted);
    }

    #[test]
    fn errors_of_pgbouncer_are_distinguished_by_their_text() {
        for (message, expected) in [
            ("no more connections allowed (max_client_conn)", PostgresErrorKind::PoolerFull),
            ("not allowed", PostgresErrorKind::NotAdmin),
            ("SSL required", PostgresErrorKind::TlsRequired),
            ("SASL authentication failed", PostgresErrorKind::WrongPassword),
            ("no such user: weir", PostgresErrorKind::WrongPassword),
            ("query_wait_timeout", PostgresErrorKind::Other),
        ] {
            assert_eq!(kind("08P01", message, None), expected, "{message}");
        }
    }
}

//! Users and tokens of the console: `[console.users.NAME]`, `[console.tokens.NAME]`.

use std::collections::BTreeMap;

use weir_access::{PasswordHash, Role};
use weir_base::secret::Secret;
use weir_settings::{Section, TableReader};

/// The shortest accepted token: 16 characters of base64 have 96 bits.
pub(super) const TOKEN_CHARACTERS_MIN: usize = 16;

/// Users, and tokens, at most: all are in memory, and each request with a token is compared with every token.
const ENTRIES_MAX: usize = 1_000;

const NAME_BYTES_MAX: usize = 64;

/// The name of the user whose password is `console.password`.
pub(crate) const ADMIN: &str = "admin";

/// The name of all visitors if no login is needed.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// A user, `[console.users.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "console.users.NAME", check = Self::check)]
pub struct ConsoleUser {
    /// Argon2id hash of the password, as `weir console hash-password` prints it.
    #[setting(required_parsed)]
    pub password_hash: Option<PasswordHash>,
    /// Required: what the user may do. viewer: read everything except the audit log. operator: also act on jobs, queues, workers,
    /// channels and gems. admin: everything.
    #[setting(choice)]
    pub role: Role,
}

/// A token for programs, `[console.tokens.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "console.tokens.NAME", check = Self::check)]
pub struct ConsoleToken {
    /// The token, which programs send to /v1 and /metrics as `Authorization: Bearer ..`.
    #[setting(required_secret)]
    pub token: Secret,
    /// Required: what programs with the token may do, as for users.
    #[setting(choice)]
    pub role: Role,
}

impl ConsoleUser {
    fn check(&self, table: &mut TableReader<'_>) {
        table.require(Self::ROLE.name);
    }
}

impl ConsoleToken {
    fn check(&self, table: &mut TableReader<'_>) {
        table.require(Self::ROLE.name);
        let token = self.token.expose();
        if !token.is_empty() && token.len() < TOKEN_CHARACTERS_MIN {
            let error = format!("the token has fewer than {TOKEN_CHARACTERS_MIN} characters");
            table.error_at(Self::TOKEN.name, &error);
        }
    }
}

pub(super) fn read_users(users: &mut BTreeMap<String, ConsoleUser>, table: &mut TableReader<'_>) {
    read_named("users", users, table);
}

pub(super) fn read_tokens(
    tokens: &mut BTreeMap<String, ConsoleToken>,
    table: &mut TableReader<'_>,
) {
    read_named("tokens", tokens, table);
}

fn read_named<T: Section + Default>(
    key: &'static str,
    entries: &mut BTreeMap<String, T>,
    table: &mut TableReader<'_>,
) {
    table.named(key, |name, table| {
        let mut entry = T::default();
        entry.read(table);
        if !is_name(name) {
            let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
            table.error(format!(
                "console.{key}: {shown:?} is no name; a name has 1 to {NAME_BYTES_MAX} letters, digits and . _ - @"
            ));
        }
        if name == ANONYMOUS {
            table.error(format!(
                "console.{key}.{name}: this is the name of visitors without a login; choose another one"
            ));
        }
        entries.insert(name.to_owned(), entry);
    });
    if entries.len() > ENTRIES_MAX {
        table.named_error_at(key, format!("console.{key}: at most {ENTRIES_MAX} are possible"));
    }
}

fn is_name(name: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'@');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

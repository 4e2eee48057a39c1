//! How to connect to a Redis as the observer did, for commands that can be pasted.

use serde::Serialize;

use super::Observation;
use crate::shell::{self, word};

/// Connection parameters of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RedisAccess {
    /// The server, as [`Observation::redis`] names it.
    pub name: String,
    /// `HOST:PORT` from Sentinel. `None` if the name contains it, or if it is unknown.
    pub master: Option<String>,
    /// Over TLS.
    pub tls: bool,
    /// File with the trusted CA certificates, if one was configured.
    pub authority: Option<String>,
    /// Files of the client certificate and its key.
    pub client: Option<(String, String)>,
    /// The user name, or `None` for Redis' `default`.
    pub user: Option<String>,
    /// Whether a password is used. The password itself is not stored.
    pub has_password: bool,
}

/// Aborts if the password is missing: `redis-cli` exits with 0 after a failed login, and a loop
/// that waits for a reply would never end.
const PASSWORD: &str =
    "export REDISCLI_AUTH=\"${REDISCLI_AUTH:?must be set to the password of this Redis}\" && ";

impl RedisAccess {
    /// Returns the options for `redis-cli`.
    fn options(&self) -> String {
        let mut options = String::new();
        let mut option = |name: &str, value: &str| {
            options.push_str(&format!(" {name} {}", word(value)));
        };
        if let Some(authority) = self.authority.as_ref().filter(|_| self.tls) {
            option("--cacert", authority);
        }
        if let Some((certificate, key)) = self.client.as_ref().filter(|_| self.tls) {
            option("--cert", certificate);
            option("--key", key);
        }
        if let Some(user) = &self.user {
            option("--user", user);
        }
        let tls = if self.tls { " --tls" } else { "" };
        format!("{tls}{options}")
    }
}

impl Observation {
    /// Returns a command built by `command` from the `redis-cli` call for the Redis named `name`.
    pub(crate) fn redis_command(&self, name: &str, command: impl Fn(&str) -> String) -> String {
        let Some(access) = self.access(name) else { return command(&shell::redis_cli(name, None)) };
        let plain = shell::redis_cli(name, access.master.as_deref());
        let options = access.options();
        let cli = plain.replacen("redis-cli", &format!("redis-cli{options}"), 1);
        let password = if access.has_password { PASSWORD } else { "" };
        format!("{password}{}", command(&cli))
    }

    /// Returns the URL prefix for servers with the same parameters, such as `rediss://weir@`.
    pub(crate) fn redis_scheme(&self, name: &str) -> String {
        let access = self.access(name);
        let scheme = if access.is_some_and(|it| it.tls) { "rediss" } else { "redis" };
        let user = access.and_then(|it| it.user.as_deref());
        let user = user.map(|user| format!("{}@", encoded(user))).unwrap_or_default();
        format!("{scheme}://{user}")
    }

    fn access(&self, name: &str) -> Option<&RedisAccess> {
        self.redis_access.iter().find(|it| it.name == name)
    }
}

/// Percent-encodes a user name for a URL.
fn encoded(user: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letter = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    user.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(access: RedisAccess) -> Observation {
        let access = RedisAccess { name: "10.0.0.5:6380/2".to_owned(), ..access };
        Observation { redis_access: vec![access], ..Observation::default() }
    }

    #[test]
    fn a_command_gets_in_as_the_observer_did() {
        let ping = |access| {
            let command = |cli: &str| format!("{cli} PING");
            observation(access).redis_command("10.0.0.5:6380/2", command)
        };
        assert_eq!(ping(RedisAccess::default()), "redis-cli -h 10.0.0.5 -p 6380 -n 2 PING");
        let all = ping(RedisAccess {
            tls: true,
            authority: Some("/etc/my ca.pem".to_owned()),
            client: Some(("/c.pem".to_owned(), "/c.key".to_owned())),
            user: Some("weir".to_owned()),
            has_password: true,
            ..RedisAccess::default()
        });
        let expected = "redis-cli --tls --cacert '/etc/my ca.pem' --cert /c.pem --key /c.key --user weir \
                        -h 10.0.0.5 -p 6380 -n 2 PING";
        assert_eq!(all, format!("{PASSWORD}{expected}"));
        let another = observation(RedisAccess { tls: true, ..RedisAccess::default() });
        assert_eq!(another.redis_command("b:1", str::to_owned), "redis-cli -h b -p 1");
    }

    #[test]
    fn behind_sentinels_the_master_is_asked_that_was_seen() {
        let access = RedisAccess {
            name: "mymaster (Sentinel)/2".to_owned(),
            master: Some("10.0.0.7:6380".to_owned()),
            tls: true,
            user: Some("weir".to_owned()),
            ..RedisAccess::default()
        };
        let observation = Observation { redis_access: vec![access], ..Observation::default() };
        let ping = observation.redis_command("mymaster (Sentinel)/2", |cli| format!("{cli} PING"));
        assert_eq!(ping, "redis-cli --tls --user weir -h 10.0.0.7 -p 6380 -n 2 PING");
    }

    #[test]
    fn an_address_has_the_scheme_and_the_user_of_the_one_that_was_given() {
        let scheme = |access| observation(access).redis_scheme("10.0.0.5:6380/2");
        assert_eq!(scheme(RedisAccess::default()), "redis://");
        let user = Some("a@b".to_owned());
        let access = RedisAccess { tls: true, user, ..RedisAccess::default() };
        assert_eq!(scheme(access), "rediss://a%40b@");
    }
}

//! The console's settings, with the defaults.

pub(crate) mod access;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weir_base::node::is_web_address;
use weir_base::secret::Secret;
use weir_settings::{DAY, HOUR, MILLISECOND, Section, WAIT};

use self::access::TOKEN_CHARACTERS_MIN;
pub use self::access::{ConsoleToken, ConsoleUser};

/// Settings of the console. Field names are the names in `weir.toml` under `[console]`; a
/// `Duration` named `x` is written as `x = "10s"`.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "console")]
pub struct ConsoleSettings {
    /// Address of the pages, the admin API and /metrics. Addresses other than loopback require a
    /// password. "off": not served; commands use the socket in data_dir.
    #[setting(listener, upgrade, default = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7420))))]
    pub listen: Option<SocketAddr>,
    /// Password of the user admin. None, and no `[console.users.NAME]`: no login, on loopback only.
    #[setting(reload)]
    pub password: Option<Secret>,
    /// Token for programs, which send it to /v1 and /metrics as `Authorization: Bearer ..`; its role is admin.
    #[setting(reload)]
    pub token: Option<Secret>,
    /// Host names (without port) of the console, in addition to loopback names and plain IP
    /// addresses; others are rejected.
    pub hosts: Vec<String>,
    /// Address at which browsers reach the console, such as https://weir-1.example.org: a link to it is on
    /// the consoles of the other nodes. Its host name is accepted as those in `hosts` are. None: the first
    /// of `hosts`, or the address of `listen`, with its port; if that is loopback, no link.
    pub url: Option<String>,
    /// Serve /metrics without login or token.
    pub metrics_without_login: bool,
    /// Mark the session cookie `Secure`, for a console that is reached through TLS only.
    pub cookie_secure: bool,
    /// A session ends after this long without a request.
    #[setting(range = MILLISECOND..=DAY.saturating_mul(400), default = HOUR.saturating_mul(12))]
    pub session_idle_max: Duration,
    /// A session ends this long after its login.
    #[setting(advanced, range = MILLISECOND..=DAY.saturating_mul(400), default = DAY.saturating_mul(7))]
    pub session_age_max: Duration,
    #[setting(section)]
    pub limits: ConsoleLimits,
    #[setting(with = access::read_users)]
    pub users: BTreeMap<String, ConsoleUser>,
    #[setting(with = access::read_tokens)]
    pub tokens: BTreeMap<String, ConsoleToken>,
}

/// Every limit of the console.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(
    restart,
    path = "console.limits",
    removed = "login_addresses_max",
    removed = "page_releases",
    removed = "page_events"
)]
pub struct ConsoleLimits {
    /// Sessions at once; one more ends the one that was idle longest.
    #[setting(advanced, range = 1..=1_000_000, default = 1_000)]
    pub sessions_max: usize,
    /// Login attempts of one address at once.
    #[setting(advanced, range = 1..=1_000_000, default = 5)]
    pub login_burst: u32,
    /// After login_burst attempts, an address may try once more after each of these intervals.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(10))]
    pub login_interval: Duration,
    /// Passwords that are compared with a hash at once; each takes the memory that its hash says (19 MiB), and the others
    /// wait.
    #[setting(advanced, range = 1..=1_000, default = 2)]
    pub password_checks_max: usize,
    /// Live streams open at once; further ones get 503.
    #[setting(advanced, range = 1..=1_000_000, default = 64)]
    pub streams_max: usize,
    /// Bytes of a form.
    #[setting(advanced, size, range = 1..=1 << 30, default = 1 << 20)]
    pub body_bytes_max: usize,
    /// A page that takes longer than this is aborted.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(30))]
    pub request_timeout: Duration,
    /// A search that has not filled its page continues for this long; then the page shows what
    /// was found.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(2))]
    pub search_time: Duration,
    /// An action on jobs that takes longer continues in the background, and the page says so.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(10))]
    pub action_wait: Duration,
    /// How often the job server is sampled for charts and live pages, whatever the number of
    /// readers.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(1))]
    pub sample_interval: Duration,
    /// Jobs on one page of a list.
    #[setting(advanced, range = 1..=1_000_000, default = 50)]
    pub page_jobs: usize,
    /// Queues on one page.
    #[setting(advanced, range = 1..=1_000_000, default = 200)]
    pub page_queues: usize,
    /// Workers, and their jobs, on one page.
    #[setting(advanced, range = 1..=1_000_000, default = 500)]
    pub page_workers: usize,
    /// Channels on one page.
    #[setting(advanced, range = 1..=1_000_000, default = 200)]
    pub page_channels: usize,
    /// Names of gems on one page.
    #[setting(advanced, range = 1..=1_000_000, default = 200)]
    pub page_gems: usize,
    /// Users of a presence channel on one page.
    #[setting(advanced, range = 1..=1_000_000, default = 100)]
    pub page_members: usize,
    /// Bytes of a job's payload that its page shows.
    #[setting(advanced, size, range = 1..=1 << 30, default = 256 << 10)]
    pub payload_display_bytes_max: usize,
    /// Points of one chart.
    #[setting(advanced, range = 1..=1_000_000, default = 600)]
    pub chart_points_max: usize,
    /// Queues with charts of their own; each takes two files and at most 700 KiB of disk.
    #[setting(advanced, range = 1..=1_000_000, default = 50)]
    pub chart_queues_max: usize,
}

/// An invalid setting, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSettingError {
    /// The setting's name under `[console]`.
    pub setting: &'static str,
    pub message: String,
}

impl ConsoleSettings {
    /// Returns the address at which browsers on other machines reach the console, if there is any.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        if self.url.is_some() {
            return self.url.clone();
        }
        let listen = self.listen?;
        match self.hosts.first() {
            // A proxy in front of it has the certificate.
            Some(host) if self.cookie_secure => Some(format!("https://{host}")),
            Some(host) => Some(format!("http://{host}:{}", listen.port())),
            None if listen.ip().is_loopback() || listen.ip().is_unspecified() => None,
            None => Some(format!("http://{listen}")),
        }
    }

    /// Returns the host names that requests may have: `hosts`, and that of `url`.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        let of_url = self.url.as_ref().and_then(|url| url.split_once("//"));
        let of_url = of_url.and_then(|(_, rest)| rest.split([':', '/']).next());
        self.hosts.iter().cloned().chain(of_url.map(str::to_owned)).collect()
    }

    /// Returns whether visitors must log in.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.password.is_some() || !self.users.is_empty()
    }

    /// Returns all errors of these settings.
    #[must_use]
    pub fn problems(&self) -> Vec<ConsoleSettingError> {
        let mut problems = Vec::new();
        let mut report =
            |setting, message: String| problems.push(ConsoleSettingError { setting, message });
        if let Some(ip) = self.listen.map(|listen| listen.ip())
            && !self.has_login()
            && !ip.is_loopback()
        {
            report(
                "password",
                format!(
                    "{ip} is not loopback, so the console needs a password: set \
                         console.password = {{ file = \"PATH\" }}, or listen on 127.0.0.1"
                ),
            );
        }
        if self.password.as_ref().is_some_and(|password| password.expose().is_empty()) {
            report("password", "the password is empty".into());
        }
        if self.password.is_some() && self.users.contains_key(access::ADMIN) {
            let admin = access::ADMIN;
            report(
                "password",
                format!(
                    "{admin} is the user with this password: rename console.users.{admin}, or remove console.password"
                ),
            );
        }
        if self.token.as_ref().is_some_and(|token| token.expose().len() < TOKEN_CHARACTERS_MIN) {
            report("token", format!("the token has fewer than {TOKEN_CHARACTERS_MIN} characters"));
        }
        if let Some(url) = self.url.as_ref().filter(|url| !is_web_address(url)) {
            report("url", format!("{url:?} is not an address such as https://weir.example.org"));
        }
        for host in self.hosts.iter().filter(|host| !is_host_name(host)) {
            report("hosts", format!("{host:?} is not a host name (no scheme, port or path)"));
        }
        problems
    }
}

fn is_host_name(host: &str) -> bool {
    let label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !host.is_empty() && host.bytes().all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_with(change: impl FnOnce(&mut ConsoleSettings)) -> Vec<&'static str> {
        let mut settings = ConsoleSettings::default();
        change(&mut settings);
        settings.problems().into_iter().map(|problem| problem.setting).collect()
    }

    #[test]
    fn the_default_settings_are_valid() {
        assert_eq!(ConsoleSettings::default().problems(), []);
    }

    #[test]
    fn all_setting_errors_are_reported_at_once() {
        let found = settings_with(|settings| {
            settings.listen = "0.0.0.0:7420".parse().ok();
            settings.token = Some(Secret::new("short"));
            settings.url = Some("weir.example".into());
            settings.hosts = vec!["http://weir.example".into(), "weir.example".into()];
        });
        assert_eq!(found, ["password", "token", "url", "hosts"]);
    }

    #[test]
    fn the_address_for_browsers_is_one_that_the_console_accepts() {
        let address = |change: fn(&mut ConsoleSettings)| {
            let mut settings = ConsoleSettings::default();
            change(&mut settings);
            settings.address().unwrap_or_default()
        };
        assert_eq!(address(|_| {}), "", "loopback");
        assert_eq!(address(|settings| settings.listen = "0.0.0.0:7420".parse().ok()), "");
        let listen = address(|settings| settings.listen = "192.168.1.2:7420".parse().ok());
        assert_eq!(listen, "http://192.168.1.2:7420");
        let host = address(|settings| settings.hosts = vec!["weir-1".into(), "weir".into()]);
        assert_eq!(host, "http://weir-1:7420");
        let proxied = address(|settings| {
            (settings.cookie_secure, settings.hosts) = (true, vec!["weir-1".into()]);
        });
        assert_eq!(proxied, "https://weir-1");
        let url = address(|settings| settings.url = Some("https://a.example:444/weir".into()));
        assert_eq!(url, "https://a.example:444/weir");
        let mut settings = ConsoleSettings::default();
        (settings.url, settings.hosts) = (Some("https://a:444/".into()), vec!["b".into()]);
        assert_eq!(settings.host_names(), ["b", "a"]);
    }

    #[test]
    fn a_loopback_listener_needs_no_password() {
        for listen in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1"] {
            assert!(settings_with(|s| s.listen = listen.parse().ok()).is_empty(), "{listen}");
        }
        for listen in ["192.168.1.1:1", "[::]:1", "0.0.0.0:1"] {
            let found = settings_with(|s| s.listen = listen.parse().ok());
            assert_eq!(found, ["password"], "{listen}");
        }
    }
}

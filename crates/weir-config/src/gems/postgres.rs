//! `[gems.postgres]`: where Postgres is, and how much of it is used.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gems::store::{PostgresLimits, PostgresSettings, PostgresUrl};
use weir_net::post::Trust;

use super::super::keys::{Key, Keys, TextOrSecret, WAIT};

/// The section.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// As it was given.
    pub url: Option<TextOrSecret>,
    pub settings: PostgresSettings,
}

/// Where there is none: nobody connects to it, since a store in Postgres needs a URL.
const NOWHERE: &str = "postgres://weir@127.0.0.1/weir";

impl Default for Postgres {
    fn default() -> Self {
        let nowhere: PostgresUrl = NOWHERE.parse().expect("a sound address");
        Self { url: None, settings: PostgresSettings::new(nowhere) }
    }
}

impl Postgres {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        self.read_address(keys);
        let PostgresSettings { url: _, password: _, ca: _, schema, import_batch, limits } =
            &mut self.settings;
        keys.parsed(
            Key::fixed("schema", "The schema with Weir's tables; made when missing."),
            schema,
        );
        keys.number(
            Key::fixed("import_batch_gems", "Gems that an import adds in one transaction. More is quicker; pushes wait that much longer meanwhile."),
            1..=1_000_000,
            import_batch,
        );
        keys.section("limits", |keys| read_limits(keys, limits));
    }

    fn read_address(&mut self, keys: &mut Keys<'_>) {
        keys.text_or_secret(
            Key::fixed("url", "Where Postgres is: \"postgres://USER@HOST/DATABASE\", without a password; or { env = \"NAME\" } or { file = \"PATH\" }, with one."),
            &mut self.url,
        );
        if let Some(url) = &self.url {
            match url.text().parse::<PostgresUrl>() {
                Ok(parsed) if parsed.has_password() && !url.is_secret() => {
                    keys.error_at("url", "a password does not stand in this file; write password = { env = \"NAME\" } or { file = \"PATH\" } beside it");
                }
                Ok(parsed) => self.settings.url = parsed,
                Err(error) => keys.error_at("url", &error.to_string()),
            }
        }
        let PostgresSettings { password, ca, .. } = &mut self.settings;
        keys.secret(
            Key::fixed("password", "The password, in place of one in the URL. None: Postgres asks for none, or it is in the URL."),
            password,
        );
        keys.optional_path(
            Key::fixed("ca", "PEM file with certificate authorities of your own, believed besides the public ones."),
            ca,
        );
        let problem = ca.as_deref().and_then(|path| Trust::with_ca(path, "gems.postgres.ca").err());
        if let Some(problem) = problem {
            keys.named_error_at("ca", problem.to_string());
        }
    }
}

/// Far more than a Postgres has.
const CONNECTIONS: RangeInclusive<u64> = 1..=10_000;

fn read_limits(keys: &mut Keys<'_>, limits: &mut PostgresLimits) {
    let PostgresLimits {
        connections_max,
        waiting_max,
        acquire_timeout,
        connect_timeout,
        query_timeout,
        text_timeout,
        write_timeout,
        maintenance_timeout,
    } = limits;
    keys.number(
        Key::fixed("connections_max", "Connections of this process."),
        CONNECTIONS,
        connections_max,
    );
    keys.number(
        Key::fixed(
            "waiting_max",
            "Requests that wait for a connection; one more gets 503 at once.",
        ),
        0..=1_000_000,
        waiting_max,
    );
    let mut wait =
        |name, field: &mut Duration, doc| keys.duration(Key::fixed(name, doc), WAIT, field);
    wait(
        "acquire_timeout",
        acquire_timeout,
        "How long a request waits for a connection; then it gets 503.",
    );
    wait("connect_timeout", connect_timeout, "Name look-up, TCP, TLS and sign-in together.");
    wait(
        "query_timeout",
        query_timeout,
        "How long a read may take; then its request gets 503, and its connection is closed.",
    );
    wait(
        "text_timeout",
        text_timeout,
        "How long reading the whole of /versions may take, which a process does once; also what a mirror has noted of an upstream, which each reconciliation reads.",
    );
    wait(
        "write_timeout",
        write_timeout,
        "How long a push or a yank may take with its wait for others that write; also one batch of an import or of a mirror, and putting webhooks of upstreams into the inbox.",
    );
    wait(
        "maintenance_timeout",
        maintenance_timeout,
        "How long a new baseline, a check of the whole store or a new format of its tables may take.",
    );
}

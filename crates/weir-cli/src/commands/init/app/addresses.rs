//! Where the application's Redis and Postgres are, by its environment. Passwords are never kept.

use super::quote::{is_name, is_plain};
use crate::commands::plan::check::foreign::environment::Environment;

/// The Redis of Sidekiq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedisPlace {
    /// Without user and password.
    pub(super) url: String,
    pub(super) has_password: bool,
    pub(super) is_local: bool,
    /// No variable names it.
    pub(super) is_assumed: bool,
}

/// The database of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabasePlace {
    pub(super) name: Option<String>,
    pub(super) is_local: bool,
}

/// Returns the Redis that the variables name.
///
/// # Errors
/// Doctor cannot observe it; the text says why.
pub(super) fn redis(environment: &Environment) -> Result<RedisPlace, String> {
    for (name, why) in [
        ("REDIS_SENTINELS", "it is found through Sentinels"),
        ("SIDEKIQ_REDIS_SENTINELS", "it is found through Sentinels"),
        ("REDIS_NAMESPACE", "doctor does not support a namespace"),
        ("SIDEKIQ_REDIS_NAMESPACE", "doctor does not support a namespace"),
    ] {
        if environment.get(name).is_some() {
            return Err(format!("{name} is set: {why}"));
        }
    }
    let variables = ["SIDEKIQ_REDIS_URL", "REDIS_URL"];
    if let Some((name, url)) = variables.iter().find_map(|it| Some((it, environment.get(it)?))) {
        return of_url(url).ok_or_else(|| format!("{name} is not a plain redis:// address"));
    }
    let host = environment.get("REDIS_HOST").unwrap_or("127.0.0.1");
    let port = environment.get("REDIS_PORT").unwrap_or("6379");
    let database = environment.get("REDIS_DB").unwrap_or("0");
    if !is_name(host) || port.parse::<u16>().is_err() || database.parse::<u16>().is_err() {
        return Err("REDIS_HOST, REDIS_PORT or REDIS_DB is not a name or a number".to_owned());
    }
    Ok(RedisPlace {
        url: format!("redis://{host}:{port}/{database}"),
        has_password: environment.get("REDIS_PASSWORD").is_some(),
        is_local: is_local(host),
        is_assumed: environment.get("REDIS_HOST").is_none(),
    })
}

fn of_url(url: &str) -> Option<RedisPlace> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, place) = rest.rsplit_once('@').map_or(("", rest), |(user, rest)| (user, rest));
    let place = place.split(['?', '#']).next()?;
    let host = place.split(['/', ':']).next()?;
    let is_known = ["redis", "rediss", "unix"].contains(&scheme);
    let is_host = is_plain(place) && (scheme == "unix" || is_name(host)) && !place.contains('@');
    (is_known && is_host).then(|| RedisPlace {
        url: format!("{scheme}://{place}"),
        has_password: !user.is_empty(),
        is_local: scheme == "unix" || is_local(host),
        is_assumed: false,
    })
}

/// Returns the database that the variables name.
pub(super) fn database(environment: &Environment) -> DatabasePlace {
    let named = |name: &str| Some(name.to_owned()).filter(|name| is_name(name));
    if let Some(url) = environment.get("DATABASE_URL") {
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let (host, name) = place.split_once('/').unwrap_or((place, ""));
        let host = host.split(':').next().unwrap_or_default();
        return DatabasePlace {
            name: name.split('?').next().and_then(named),
            is_local: is_local(host),
        };
    }
    DatabasePlace {
        name: environment.get("DB_NAME").and_then(named),
        is_local: environment.get("DB_HOST").is_none_or(is_local),
    }
}

fn is_local(host: &str) -> bool {
    host.is_empty()
        || host.starts_with('/')
        || host.starts_with("127.")
        || ["localhost", "::1"].contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::default();
        pairs.iter().for_each(|(name, value)| environment.set(name, value));
        environment
    }

    #[test]
    fn passwords_are_dropped_and_odd_addresses_refused() {
        for (pairs, url, has_password, is_local) in [
            (
                &[("REDIS_HOST", "localhost"), ("REDIS_PORT", "6380")][..],
                "redis://localhost:6380/0",
                false,
                true,
            ),
            (
                &[("REDIS_HOST", "10.0.0.5"), ("REDIS_PASSWORD", "hunter2")],
                "redis://10.0.0.5:6379/0",
                true,
                false,
            ),
            (
                &[("REDIS_URL", "redis://:hunter2@r.example:6379/2?x=1")],
                "redis://r.example:6379/2",
                true,
                false,
            ),
            (&[("REDIS_URL", "redis://u:p@ss@127.0.0.1/1")], "redis://127.0.0.1/1", true, true),
            (&[("REDIS_URL", "unix:///run/redis.sock")], "unix:///run/redis.sock", false, true),
        ] {
            let place = redis(&environment(pairs)).expect("a place");
            assert_eq!(
                (place.url.as_str(), place.has_password, place.is_local),
                (url, has_password, is_local)
            );
        }
        for pairs in [
            &[("REDIS_NAMESPACE", "cache")][..],
            &[("REDIS_URL", "redis://a b/0")],
            &[("REDIS_URL", "redis://$(id)/0")],
            &[("REDIS_HOST", "x; rm -rf /")],
            &[("REDIS_PORT", "6379\"\nx = 1")],
            &[("REDIS_URL", "")],
        ] {
            let place = redis(&environment(pairs));
            assert!(place.is_err() || pairs[0].1.is_empty(), "{place:?}");
        }
    }

    #[test]
    fn the_database_is_found_in_either_notation() {
        let place = |pairs: &[(&str, &str)]| {
            let DatabasePlace { name, is_local } = database(&environment(pairs));
            (name.unwrap_or_default(), is_local)
        };
        assert_eq!(place(&[]), (String::new(), true));
        assert_eq!(
            place(&[("DB_HOST", "/run/postgresql"), ("DB_NAME", "m")]),
            ("m".to_owned(), true)
        );
        assert_eq!(place(&[("DB_HOST", "db.example")]), (String::new(), false));
        let url = "postgres://u:secret@db.example:5432/shop?pool=5";
        assert_eq!(place(&[("DATABASE_URL", url)]), ("shop".to_owned(), false));
        assert_eq!(place(&[("DATABASE_URL", "postgres:///shop")]), ("shop".to_owned(), true));
    }
}

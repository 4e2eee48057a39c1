//! Services with a connection pool, as the command line and `observe.pools` name them: `web=2x5`, and with
//! the threads of each process `web=2x5/16`.

use weir_advisor::observation::{ConnectionPools, POOL_VARIABLE};

const SYNTAX: &str = "write NAME=PROCESSESxPOOL, for example web=2x5, or with threads web=2x5/16";

/// Parses `web=2x5` or `web=2x5/16`. The error shows the syntax.
pub fn pool(text: &str) -> Result<ConnectionPools, String> {
    let (name, numbers) = text.split_once('=').ok_or(SYNTAX)?;
    let (processes, pool) = numbers.split_once('x').ok_or(SYNTAX)?;
    let (pool, threads) = match pool.split_once('/') {
        Some((pool, threads)) => (pool, Some(threads)),
        None => (pool, None),
    };
    let number =
        |text: &str| text.parse().ok().filter(|it| (1..=100_000).contains(it)).ok_or(SYNTAX);
    let (processes, pool) = (number(processes)?, number(pool)?);
    let threads = threads.map(number).transpose()?;
    if name.is_empty() {
        return Err(SYNTAX.to_owned());
    }
    let (name, set_by) = (name.to_owned(), POOL_VARIABLE.to_owned());
    Ok(ConnectionPools { name, processes, pool, set_by, threads })
}

/// Formats pools in the syntax of [`pool`].
pub fn format_pool(service: &ConnectionPools) -> String {
    let ConnectionPools { name, processes, pool, threads, .. } = service;
    let threads = threads.map(|threads| format!("/{threads}")).unwrap_or_default();
    format!("{name}={processes}x{pool}{threads}")
}

#[cfg(test)]
mod tests {
    use super::{format_pool, pool};

    #[test]
    fn pools_are_parsed_and_errors_reported() {
        let web = pool("web=2x5").expect("a service");
        assert_eq!((web.name.as_str(), web.processes, web.pool), ("web", 2, 5));
        assert_eq!((web.threads, pool("web=2x5/16").expect("a service").threads), (None, Some(16)));
        for text in ["web", "web=2", "=2x5", "web=0x5", "web=2x", "web=2x-1", "web=2x999999999"] {
            assert!(pool(text).is_err(), "{text}");
        }
        for text in ["web=2x5", "web=2x5/16"] {
            assert_eq!(format_pool(&pool(text).expect("a service")), text);
        }
        for text in ["web=2x5/", "web=2x5/0", "web=2x/5"] {
            assert!(pool(text).is_err(), "{text}");
        }
    }
}

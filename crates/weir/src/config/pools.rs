//! Services with a connection pool, as the command line and `observe.pools` name them: `web=2x5`.

use weir_advisor::observation::Service;

const HOW: &str = "write NAME=PROCESSESxPOOL, for example web=2x5";

/// Of `web=2x5`; the error says how to write one.
pub(crate) fn pool(text: &str) -> Result<Service, String> {
    let (name, numbers) = text.split_once('=').ok_or(HOW)?;
    let (processes, pool) = numbers.split_once('x').ok_or(HOW)?;
    let number = |text: &str| text.parse().ok().filter(|it| (1..=100_000).contains(it)).ok_or(HOW);
    let (processes, pool) = (number(processes)?, number(pool)?);
    if name.is_empty() {
        return Err(HOW.to_owned());
    }
    Ok(Service { name: name.to_owned(), processes, pool, set_by: "DB_POOL=".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::pool;

    #[test]
    fn services_are_read_and_mistakes_said() {
        let web = pool("web=2x5").expect("a service");
        assert_eq!((web.name.as_str(), web.processes, web.pool), ("web", 2, 5));
        for text in ["web", "web=2", "=2x5", "web=0x5", "web=2x", "web=2x-1", "web=2x999999999"] {
            assert!(pool(text).is_err(), "{text}");
        }
    }
}

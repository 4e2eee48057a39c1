//! Names of members that mean different things to Faktory and to Sidekiq.
//!
//! A Faktory job may have a member `class` of its own, which Sidekiq would take for the job's
//! class. It is stored as `faktory:class` and gets its name back on the way to a worker. The same
//! happens to Sidekiq's members with Faktory's names.

/// Members of Sidekiq that a job's owner could not have meant.
pub(super) const OF_SIDEKIQ: [&str; 7] =
    ["class", RETRY_COUNT, FAILED_AT, RETRIED_AT, ERROR_CLASS, ERROR_MESSAGE, ERROR_BACKTRACE];
/// Members of Faktory that a job's owner could not have meant.
const OF_FAKTORY: [&str; 2] = ["jobtype", "failure"];

pub(super) const RETRY_COUNT: &str = "retry_count";
pub(super) const FAILED_AT: &str = "failed_at";
pub(super) const RETRIED_AT: &str = "retried_at";
pub(super) const ERROR_CLASS: &str = "error_class";
pub(super) const ERROR_MESSAGE: &str = "error_message";
pub(super) const ERROR_BACKTRACE: &str = "error_backtrace";

const FAKTORY: &str = "faktory:";
const SIDEKIQ: &str = "sidekiq:";

/// Returns the name under which Sidekiq's layout stores a Faktory job's member, if it differs.
pub(super) fn to_sidekiq(name: &str) -> Option<String> {
    renamed(name, &OF_SIDEKIQ, FAKTORY, &OF_FAKTORY, SIDEKIQ)
}

/// Returns the name by which a Faktory worker knows a stored member, if it differs.
pub(super) fn to_faktory(name: &str) -> Option<String> {
    renamed(name, &OF_FAKTORY, SIDEKIQ, &OF_SIDEKIQ, FAKTORY)
}

fn renamed(
    name: &str,
    reserved: &[&str],
    prefix: &str,
    stored: &[&str],
    stored_prefix: &str,
) -> Option<String> {
    if reserved.contains(&name) {
        return Some(format!("{prefix}{name}"));
    }
    let own = name.strip_prefix(stored_prefix)?;
    stored.contains(&own).then(|| own.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for name in OF_SIDEKIQ {
            let stored = to_sidekiq(name).unwrap();
            assert_eq!(to_faktory(&stored).as_deref(), Some(name));
        }
        for name in OF_FAKTORY {
            let shown = to_faktory(name).unwrap();
            assert_eq!(to_sidekiq(&shown).as_deref(), Some(name));
        }
        for name in ["args", "wrapped", "faktory:args", "sidekiq:class"] {
            assert_eq!((to_sidekiq(name), to_faktory(name)), (None, None), "{name}");
        }
    }
}

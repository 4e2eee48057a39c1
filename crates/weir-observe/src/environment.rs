//! Reads the size of the pool and the number of threads from a local process' environment.
//!
//! The kernel shows the environment to the same user and to root. Only these variables are used,
//! since others may be secret. Processes that overwrite their environment with a long title yield
//! nothing.

use std::fs;
use std::path::Path;

/// Maximum bytes of an environment that are read.
const BYTES_MAX: usize = 256 << 10;

/// The variables at the start of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StartEnvironment {
    /// `DB_POOL`.
    pub(crate) pool: Option<u32>,
    /// `MAX_THREADS`.
    pub(crate) max_threads: Option<u32>,
    /// `RAILS_MAX_THREADS`.
    pub(crate) rails_max_threads: Option<u32>,
}

impl StartEnvironment {
    /// Reads the environment of a process. Unreadable ones yield no values.
    pub(crate) fn read(proc: &Path, pid: u32) -> Self {
        let environment = fs::read(proc.join(pid.to_string()).join("environ"));
        Self::parse(&environment.unwrap_or_default())
    }

    fn parse(environment: &[u8]) -> Self {
        let environment = &environment[..environment.len().min(BYTES_MAX)];
        let value = |name: &str| {
            let of = |variable: &[u8]| {
                let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                leading_number(std::str::from_utf8(value).ok()?)
            };
            environment.split(|byte| *byte == 0).find_map(of).filter(|number| *number > 0)
        };
        Self {
            pool: value("DB_POOL"),
            max_threads: value("MAX_THREADS"),
            rails_max_threads: value("RAILS_MAX_THREADS"),
        }
    }

    /// Returns the threads of a web server. If both variables are set, returns the lower one,
    /// because the server's configuration decides which is used.
    pub(crate) fn web_threads(self) -> Option<u32> {
        [self.max_threads, self.rails_max_threads].into_iter().flatten().min()
    }
}

/// Returns the number at the start of a value, as Ruby's `to_i` and a comment in YAML do: systemd
/// passes on `16 # comment` of an `EnvironmentFile` as it is.
fn leading_number(value: &str) -> Option<u32> {
    let value = value.trim_start();
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    value[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pools_and_threads_are_read() {
        let text = b"SECRET=1\0DB_POOL=5\0MAX_THREADS=16\0RAILS_MAX_THREADS=x\0DB_POOL_SIZE=7\0";
        let expected =
            StartEnvironment { pool: Some(5), max_threads: Some(16), rails_max_threads: None };
        assert_eq!(StartEnvironment::parse(text), expected);
        assert_eq!(StartEnvironment::parse(b"DB_POOL=0\0"), StartEnvironment::default());
        assert_eq!(
            StartEnvironment::parse(b"sidekiq 7.3.9 shop [0 of 5 busy]\0\0\0"),
            StartEnvironment::default()
        );
    }

    #[test]
    fn a_comment_that_systemd_has_passed_on_hides_no_number() {
        let started = StartEnvironment::parse(b"DB_POOL=16 # t\0MAX_THREADS=# 5\0");
        assert_eq!((started.pool, started.max_threads), (Some(16), None));
    }

    #[test]
    fn of_two_numbers_of_threads_the_fewer_count() {
        let started = StartEnvironment::parse(b"MAX_THREADS=16\0RAILS_MAX_THREADS=5\0");
        assert_eq!(started.web_threads(), Some(5));
        assert_eq!(StartEnvironment::default().web_threads(), None);
    }

    #[test]
    fn a_process_that_may_not_be_read_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(StartEnvironment::read(folder.path(), 1), StartEnvironment::default());
    }
}

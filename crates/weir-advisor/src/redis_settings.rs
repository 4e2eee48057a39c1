//! Suggests changes of settings of a running Redis.
//!
//! Editing `redis.conf` loses jobs: it is read only at the start, and a Redis that starts with
//! `appendonly yes` but without an append-only file starts empty, even if there is a snapshot.
//! After `CONFIG SET`, a running Redis writes all jobs to that file; `CONFIG REWRITE` then updates
//! `redis.conf`.

/// Prints the reply and succeeds only for OK. `redis-cli` exits with 0 even if Redis replied with
/// an error.
const IS_OK: &str = "{ read -r reply; echo \"$reply\"; [ \"$reply\" = OK ]; }";

/// Returns the command that sets a value and persists it. `redis_cli` is the call of `redis-cli`.
pub(crate) fn set(redis_cli: &str, name: &str, value: &str) -> String {
    format!("{redis_cli} CONFIG SET {name} {value} && {redis_cli} CONFIG REWRITE")
}

/// Returns the command that enables the append-only file. It updates `redis.conf` only once all
/// jobs are in the file.
pub(crate) fn append_only(redis_cli: &str) -> String {
    let wait = wait_for_file(redis_cli);
    format!(
        "{redis_cli} CONFIG SET appendonly yes | {IS_OK} && {wait} && {redis_cli} CONFIG REWRITE"
    )
}

/// Returns the command that saves all data in a file on the machine where it runs. Redis must not use
/// its own disk for the copy, which it does without `repl-diskless-sync`.
pub(crate) fn copy_to_file(redis_cli: &str) -> String {
    format!(
        "{redis_cli} CONFIG SET repl-diskless-sync yes | {IS_OK} && (umask 077; {redis_cli} --rdb \
         redis-copy.rdb)"
    )
}

/// Returns a command that waits until every job is in the append-only file.
pub(crate) fn wait_for_file(redis_cli: &str) -> String {
    wait_while(
        redis_cli,
        "*aof_last_bgrewrite_status:err*) reply='it could not write its append-only file; see its \
         log'; \
         break;; *aof_rewrite_in_progress:1*) sleep 1;; *aof_rewrite_scheduled:1*) sleep 1;; \
         *aof_enabled:1*) exit 0;;",
    )
}

/// Returns a command that waits until all data has been loaded from disk.
pub(crate) fn wait_for_data(redis_cli: &str) -> String {
    // Also matches a replica's `async_loading`.
    wait_while(redis_cli, "*loading:1*) sleep 1;; *loading:0*) exit 0;;")
}

/// Returns a loop over the output of `INFO persistence` with `cases`. Any other output ends the
/// loop: `redis-cli` exits with 0 even after a failed login, and the loop would never end.
fn wait_while(redis_cli: &str, cases: &str) -> String {
    format!(
        "(while reply=$({redis_cli} INFO persistence 2>&1); do case $reply in {cases} *) break;; \
         esac; done; \
         echo \"stopped; Redis replied: $reply\" >&2; exit 1)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_before_a_restart_may_read_it() {
        let command = append_only("redis-cli");
        let steps = [
            "CONFIG SET appendonly yes | {",
            "= OK ]; } && (while",
            "INFO persistence",
            "exit 1) && redis-cli CONFIG REWRITE",
        ];
        let places: Vec<_> = steps.iter().map(|step| command.find(step).unwrap()).collect();
        assert!(places.is_sorted(), "{command}");
    }
}

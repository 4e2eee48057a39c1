//! How settings of a running Redis are changed.
//!
//! `redis.conf` is read at a start only, and a Redis that starts with `appendonly yes` and has no
//! append-only file yet starts empty, whatever its snapshot holds. A running one writes all its jobs
//! into that file when it is told by `CONFIG SET`; `CONFIG REWRITE` then makes its own file say the same.

/// `redis-cli` ends with 0 where Redis has refused: what it said is shown, and only OK goes on.
const IS_OK: &str = "{ read -r reply; echo \"$reply\"; [ \"$reply\" = OK ]; }";

/// Sets one, and keeps it over a restart. `redis_cli` is how to talk to the server.
pub(crate) fn set(redis_cli: &str, name: &str, value: &str) -> String {
    format!("{redis_cli} CONFIG SET {name} {value} && {redis_cli} CONFIG REWRITE")
}

/// Turns the append-only file on: `redis.conf` may say so only when all jobs are in that file.
pub(crate) fn append_only(redis_cli: &str) -> String {
    let wait = wait_for_file(redis_cli);
    format!(
        "{redis_cli} CONFIG SET appendonly yes | {IS_OK} && {wait} && {redis_cli} CONFIG REWRITE"
    )
}

/// Goes on when every job is in the append-only file.
pub(crate) fn wait_for_file(redis_cli: &str) -> String {
    wait_while(
        redis_cli,
        "*aof_last_bgrewrite_status:err*) reply='it could not write its append-only file; see its \
         log'; \
         break;; *aof_rewrite_in_progress:1*) sleep 1;; *aof_rewrite_scheduled:1*) sleep 1;; \
         *aof_enabled:1*) exit 0;;",
    )
}

/// Goes on when all data was read from disk.
pub(crate) fn wait_for_data(redis_cli: &str) -> String {
    // `async_loading` of a replica is waited for as well.
    wait_while(redis_cli, "*loading:1*) sleep 1;; *loading:0*) exit 0;;")
}

/// `cases` of what `INFO persistence` says. Whatever else it says ends the wait: `redis-cli` ends with 0 also
/// where it is not let in, and a loop that looks for one answer would go on for ever.
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

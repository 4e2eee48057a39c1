//! How settings of a running Redis are changed.
//!
//! `redis.conf` is read at a start only, and a Redis that starts with `appendonly yes` and has no
//! append-only file yet starts empty, whatever its snapshot holds. A running one writes all its jobs
//! into that file when it is told by `CONFIG SET`; `CONFIG REWRITE` then makes its own file say the same.

/// What `INFO persistence` says once every job is in the append-only file.
const IN_THE_FILE: &str =
    "^aof_(enabled:1|rewrite_(in_progress|scheduled):0|last_bgrewrite_status:ok)";
const IN_THE_FILE_LINES: usize = 4;
/// `redis-cli` ends with 0 where Redis has refused: what it said is shown, and only OK goes on.
const IS_OK: &str = "{ read -r answer; echo \"$answer\"; [ \"$answer\" = OK ]; }";

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

/// Goes on when every job is in the append-only file, and never if it is refused.
pub(crate) fn wait_for_file(redis_cli: &str) -> String {
    format!(
        "until [ \"$({redis_cli} INFO persistence | grep -cE '{IN_THE_FILE}')\" = {IN_THE_FILE_LINES} ]; do sleep 1; done"
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
            "= OK ]; } && until",
            "INFO persistence",
            "done && redis-cli CONFIG REWRITE",
        ];
        let places: Vec<_> = steps.iter().map(|step| command.find(step).unwrap()).collect();
        assert!(places.is_sorted(), "{command}");
    }
}

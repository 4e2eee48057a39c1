//! Recognizes why a Redis rejects all commands, and suggests a remedy.

/// A reason with its remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadyReason {
    /// The beginning of Redis' error, or a part of it.
    sign: &'static str,
    /// The kind of reason.
    pub(crate) kind: UnreadyKind,
    /// A description that follows the name of the Redis.
    pub(crate) what: &'static str,
    /// What an operator can do.
    pub(crate) remedy: &'static str,
}

/// Why a Redis rejects all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadyKind {
    /// It is loading data from disk.
    Loading,
    /// The login failed.
    Login,
    /// Its certificate is not trusted, or it requires a client certificate.
    Certificate,
    /// There is no response at the address.
    Away,
    /// All connections are in use (`maxclients`).
    ClientsExhausted,
    /// A script is running.
    Script,
    /// It is a replica that has lost its master.
    MasterLost,
    /// It rejects writes.
    ReadOnly,
}

const TROUBLES: [UnreadyReason; 8] = [
    UnreadyReason {
        sign: "LOADING ",
        kind: UnreadyKind::Loading,
        what: "is still loading its data from disk",
        remedy: "wait until `redis-cli INFO persistence` shows loading:0",
    },
    UnreadyReason {
        sign: "NOAUTH ",
        kind: UnreadyKind::Login,
        what: "requires a password",
        remedy: "pass it with --redis-password-env or --redis-password-file (in [[observe.redis]]: \
                 password = { env = \"NAME\" } or { file = \"PATH\" })",
    },
    UnreadyReason {
        sign: "WRONGPASS ",
        kind: UnreadyKind::Login,
        what: "rejects that user or that password",
        remedy: "check the user in the address and the password in the environment or file; if \
                 Redis has no password (requirepass), pass none",
    },
    UnreadyReason {
        sign: "max number of clients",
        kind: UnreadyKind::ClientsExhausted,
        what: "accepts no more connections (maxclients), including Sidekiq's",
        remedy: "stop a client that is not needed, then: redis-cli CONFIG SET maxclients 20000",
    },
    UnreadyReason {
        sign: "BUSY ",
        kind: UnreadyKind::Script,
        what: "is blocked by a script, also for Sidekiq",
        remedy: "redis-cli SCRIPT KILL, which ends it unless it has already written",
    },
    UnreadyReason {
        sign: "MASTERDOWN ",
        kind: UnreadyKind::MasterLost,
        what: "is a replica that has lost its master",
        remedy: "use the address of the master, also for Sidekiq, or check why the replica cannot \
                 reach it",
    },
    UnreadyReason {
        sign: "READONLY ",
        kind: UnreadyKind::ReadOnly,
        what: "is a replica, which rejects writes",
        remedy: "use its master: `redis-cli INFO replication` shows master_host",
    },
    UnreadyReason {
        sign: "MISCONF ",
        kind: UnreadyKind::ReadOnly,
        what: "rejects writes because it cannot save its snapshot",
        remedy: "check its log and the free space on its disk",
    },
];

/// Finds the reason for an error message, including its code. Returns `None` if the error affects a
/// single command only.
pub(crate) fn of(said: &str) -> Option<&'static UnreadyReason> {
    TROUBLES.iter().find(|trouble| {
        // Error codes are at the beginning. Elsewhere the word may be user data.
        if trouble.sign.ends_with(' ') {
            said.starts_with(trouble.sign)
        } else {
            said.contains(trouble.sign)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_says_of_itself_is_told_from_what_it_says_of_a_question() {
        for (said, what) in [
            ("LOADING Redis is loading the dataset in memory", "is still loading its data"),
            ("NOAUTH Authentication required.", "requires a password"),
            ("ERR max number of clients reached", "no more connections"),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", "a script"),
            ("MASTERDOWN Link with MASTER is down", "lost its master"),
            ("READONLY You can't write against a read only replica.", "rejects writes"),
        ] {
            assert!(of(said).is_some_and(|trouble| trouble.what.contains(what)), "{said}");
        }
        for said in [
            "NOPERM this user has no permissions to run the 'time' command",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR unknown command: BUSY ",
        ] {
            assert_eq!(of(said), None, "{said}");
        }
    }
}

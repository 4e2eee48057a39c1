//! Why a Redis answers nobody just now, whatever the question, and what to do.

/// One such reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What Redis begins with, or what it says.
    sign: &'static str,
    /// What it is.
    pub(crate) kind: TroubleKind,
    /// What that means, of a Redis.
    pub(crate) what: &'static str,
    /// What to do.
    pub(crate) remedy: &'static str,
}

/// What keeps a Redis from answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// It reads its data from disk.
    Loading,
    /// It does not know who asks.
    Login,
    /// It shows a certificate that is not trusted, or asks for one.
    Certificate,
    /// Nobody answers there.
    Away,
    /// It has no connection left (`maxclients`).
    ClientsExhausted,
    /// A script runs and does not end.
    Script,
    /// It is a replica without its master.
    MasterLost,
    /// It takes no writes.
    ReadOnly,
}

const TROUBLES: [Trouble; 8] = [
    Trouble {
        sign: "LOADING ",
        kind: TroubleKind::Loading,
        what: "still reads its data from disk",
        remedy: "wait until `redis-cli INFO persistence` says loading:0",
    },
    Trouble {
        sign: "NOAUTH ",
        kind: TroubleKind::Login,
        what: "asks for a password",
        remedy: "give it by --redis-password-env or --redis-password-file (in [[observe.redis]]: password = { env = \"NAME\" } or { file = \"PATH\" })",
    },
    Trouble {
        sign: "WRONGPASS ",
        kind: TroubleKind::Login,
        what: "does not know that user, or not that password",
        remedy: "look at the user in the address and at the password in the environment or file; one that has no password (requirepass) takes none",
    },
    Trouble {
        sign: "max number of clients",
        kind: TroubleKind::ClientsExhausted,
        what: "takes no more connections (maxclients), Sidekiq's neither",
        remedy: "end a client that can be spared, then: redis-cli CONFIG SET maxclients 20000",
    },
    Trouble {
        sign: "BUSY ",
        kind: TroubleKind::Script,
        what: "is held up by a script, for Sidekiq as well",
        remedy: "redis-cli SCRIPT KILL, which ends it unless it has written already",
    },
    Trouble {
        sign: "MASTERDOWN ",
        kind: TroubleKind::MasterLost,
        what: "is a replica that has lost its master",
        remedy: "name the master, which Sidekiq needs as well, or look why the two do not meet",
    },
    Trouble {
        sign: "READONLY ",
        kind: TroubleKind::ReadOnly,
        what: "is a replica, which takes no writes",
        remedy: "name its master: `redis-cli INFO replication` says master_host",
    },
    Trouble {
        sign: "MISCONF ",
        kind: TroubleKind::ReadOnly,
        what: "takes no writes since it can't write its snapshot",
        remedy: "look at its log and at the space on its disk",
    },
];

/// Of what Redis said, its code included; none if that is about one question only.
pub(crate) fn of(said: &str) -> Option<&'static Trouble> {
    TROUBLES.iter().find(|trouble| {
        // A code stands at the beginning; elsewhere the word may be anybody's.
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
            ("LOADING Redis is loading the dataset in memory", "reads its data"),
            ("NOAUTH Authentication required.", "asks for a password"),
            ("ERR max number of clients reached", "no more connections"),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", "a script"),
            ("MASTERDOWN Link with MASTER is down", "lost its master"),
            ("READONLY You can't write against a read only replica.", "no writes"),
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

//! What broke once, named by what broke.

use crate::faktory_server::{STORES, Server};

/// Ties in time are ordered by each store in its own way; a walk that compared jids stopped early.
#[test]
fn jobs_due_at_the_same_moment_are_all_killed() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        let job = |nth: u32| {
            format!(
                r#"{{"jid":"same-at-{:03}","jobtype":"T","args":[],"at":"2099-01-01T00:00:00Z"}}"#,
                (nth * 37) % 100
            )
        };
        let jobs: Vec<String> = (0..100).map(job).collect();
        client.talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
        client.talk(
            r#"> MUTATE {"cmd":"kill","target":"scheduled","filter":{"jobtype":"T"}}
< +OK"#,
        );
        let overview = server.block_on(server.handle().overview()).expect("a running server");
        assert_eq!((overview.scheduled, overview.dead), (0, 100), "{store:?}");
    }
}

//! Settings of workers of jobs.

use super::*;

#[test]
fn job_worker_errors_have_hints() {
    let text = r#"
[[front.apps]]
name = "shop"
upstreams = ["unix:/run/shop.sock"]
[workers.shop]
command = ["true"]
[workers."not a name"]
command = ["true"]
[workers.none]
processes = 2
[workers.sidekiq]
command = ["sidekiq", "--queues={queues}", "{socket}"]
concurrency = 25
queue_flag = "-q"
ready_notify = true
ready_line = "up"
stop_signal = "NONE"
ready_path = "/health"
"#;
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:5:10: "shop" is an app's name already ([[front.apps]])
    weir.toml:7:10: "not a name" can't name a group of workers: 1 to 32 small letters, digits, - and _
    weir.toml:9:10: workers.none.command is missing
    weir.toml:12:11: workers.sidekiq.command: it contains {queues}, but queues is not set
    weir.toml:12:11: workers.sidekiq.command: unknown placeholder {socket}; this group has {index} {name} {concurrency} {queues}; write {{ for a brace
    weir.toml:13:15: workers.sidekiq.concurrency: the command does not contain {concurrency}; add it
    weir.toml:14:14: workers.sidekiq.queue_flag: only allowed where "{queues}" is a separate argument
    weir.toml:15:16: workers.sidekiq.ready_notify: either this or ready_line: what shows that it is ready?
    weir.toml:17:15: workers.sidekiq.stop_signal: "NONE" is no signal for workers; there are: TERM, INT, QUIT, HUP, ABRT, USR1, USR2, TTIN, TTOU, WINCH
    weir.toml:18:1: workers.sidekiq.ready_path is not a setting
    "#);
}

#[test]
fn job_workers_get_their_queues_as_arguments() {
    let text = "[workers.sidekiq]\ncommand = [\"sidekiq\", \"{queues}\"]\n\
                queues = [\"default\", \"push,2\"]\nqueue_flag = \"-q\"\n";
    let settings = settings(text);
    let policy = weir_supervisor::RestartPolicy::default();
    let group = settings.workers["sidekiq"].group("sidekiq", &policy).expect("a name");
    assert_eq!(group.variables["queues"], ["-q", "default", "-q", "push,2"]);
    assert!(group.ends_before_service);
    let as_in_a_command = errors(&text.replace("push,2", "push=2"));
    let expected =
        "workers.sidekiq.queues: \"push=2\" has a weight, which is written \"push,2\" here";
    assert!(as_in_a_command.contains(expected), "{as_in_a_command}");
}

#[test]
fn workers_beyond_the_budget_are_rejected_with_the_sums() {
    let text = |database_connections: u32| {
        format!(
            "[budget]\ndatabase_connections = {database_connections}\nreserve = 5\n\
             [workers.mail]\ncommand = [\"x\", \"{{concurrency}}\"]\nconcurrency = 10\nprocesses = 2\n\
             connections_per_process = 1\n\
             [workers.none]\ncommand = [\"x\"]\nconnections_per_thread = 0\n\
             [workers.other]\ncommand = [\"x\"]\nprocesses = 3\n"
        )
    };
    assert_eq!(settings(&text(30)).budget.of_job_workers(), Some(25));
    insta::assert_snapshot!(errors(&text(29)), @"weir.toml:2:24: budget.database_connections: the processes of [workers.NAME] may have 25 connections (mail 22 (11 each), none 0 (0 each), other 3 (1 each)), more than 24 (29 less 5 of budget.reserve); lower concurrency or processes, or connections_per_thread if jobs share connections");
    insta::assert_snapshot!(errors(&text(5)), @"weir.toml:3:11: budget.reserve: 5 leave none of 5 for [workers.NAME]");
}

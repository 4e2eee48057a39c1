//! Settings of workers that share sockets.

use super::*;

/// Keys of the proxy would be ignored in this mode, so they are rejected.
#[test]
fn keys_are_checked_by_mode() {
    let values = reference::values();
    let of_an_app =
        values.iter().filter_map(|it| Some((it.path.strip_prefix("front.apps[].")?, it)));
    let keys = of_an_app.filter(|(name, value)| {
        !name.replace("advanced.", "").contains('.') && value.default != "none"
    });
    let means_something = |name: &str, value: &str| {
        let set = format!("{SHARED}workers = 4\n{name} = {value}\n");
        !load(&set).is_err_and(|errors| errors.to_string().contains("only with mode"))
    };
    let names = keys.filter(|(name, value)| means_something(name, &value.default));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    insta::assert_snapshot!(names.join(" "), @"workers environment advanced.address_space start_deadline stop_signal stop_deadline advanced.dump_wait recycle_memory advanced.recycle_interval warm_up finish_timeout mode selection queues queues_per_worker advanced.backlog advanced.claim_timeout");
}

#[test]
fn shared_sockets_are_checked_with_their_workers() {
    let plan = |more: &str| {
        let app = settings(&format!("{SHARED}workers = 4\n{more}")).front.apps.remove(0);
        app.sockets.expect("shared").plan(&app.processes.expect("a command"))
    };
    assert_eq!(plan("").sockets(), 1);
    assert_eq!(plan("queues = 4\nselection = \"random\"\n").sockets(), 4);
    assert_eq!(plan("selection = \"join-idle\"\n").sockets(), 5);
    let all = |texts: &[&str]| texts.iter().map(|text| errors(text) + "\n").collect::<String>();
    let with = |more: &str| format!("{SHARED}workers = 4\n{more}");
    insta::assert_snapshot!(all(&[
        &with("queues = 5\n"),
        &with("queues = 2\nqueues_per_worker = 3\n"),
        &with("selection = \"random\"\n"),
        &with("selection = \"join-idle\"\nqueues = 4\n"),
        &with("concurrency = 5\nhosts = [\"a\"]\nwarm_up = [\"a b\"]\n"),
        &SHARED.replace("listen", "#"),
        &SHARED.replace("{fd}", "{fd1}"),
        &SHARED.replace("sockets", "proxy"),
        &SHARED.replace("8081", "7419"),
        &SHARED.replace("command", "upstreams"),
    ]), @r#"
    weir.toml:7:10: front.apps[0].queues: some of them would have no listener; that requires 5 workers, or a larger queues_per_worker
    weir.toml:8:21: front.apps[0].queues_per_worker: there are fewer queues
    weir.toml:7:13: front.apps[0].selection: random needs more than one of queues
    weir.toml:8:10: front.apps[0].queues: with join-idle each worker has a queue of its own
    weir.toml:7:15: front.apps[0].concurrency: only with mode = "proxy"
    weir.toml:8:9: front.apps[0].hosts: only with mode = "proxy"
    weir.toml:9:11: front.apps[0].warm_up: write paths like "/products"
    weir.toml:1:1: front.apps[0].listen is missing
    weir.toml:3:11: front.apps[0].command: unknown placeholder {fd1}; this group has {index} {name} {fd} {fd0}; write {{ for a brace
    weir.toml:5:10: front.apps[0].listen: only with mode = "sockets"
    weir.toml:5:10: front.apps[0].listen: 127.0.0.1:7419 is jobs.listen already
    weir.toml:3:13: front.apps[0].upstreams: "app" is neither unix:/PATH nor IP:PORT
    weir.toml:3:13: front.apps[0].upstreams: only with mode = "proxy"
    weir.toml:4:8: front.apps[0].mode: "sockets" needs a command: Weir starts the workers
    "#);
}

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};

use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, is_running, program};

#[test]
fn ready_line_lists_serving_addresses() {
    let weir = Weir::start();
    assert!(Client::connect_without_command(weir.jobs()).greeting.starts_with("+HI {"));
    TcpStream::connect(weir.console()).expect("connects");
    weir.site.ok(&["status"]);
    assert!(weir.stop().success());
}

#[test]
fn only_enabled_parts_run() {
    let weir = start_parts("jobs");
    assert!(weir.serves("jobs") && weir.serves("admin"));
    assert!(!weir.serves("console"));
    assert_eq!(Client::connect(weir.jobs()).run_command("FETCH default"), "nil");
    assert!(weir.stop().success());
}

#[test]
fn console_can_run_without_a_store() {
    let weir = start_parts("console");
    assert!(weir.serves("console") && weir.serves("admin"));
    assert!(!weir.serves("jobs"));
    let (_, page) = get(weir.console(), "/", "");
    assert!(page.contains("Only the console is served here"), "{page}");
    assert!(!page.contains("href=\"/queues\""), "{page}");
    let (_, ready) = get(weir.console(), "/ready", "");
    assert_eq!(ready, "ready\n");
    let status = weir.site.ok(&["status"]);
    assert!(
        status.contains("jobs are disabled (jobs.listen is \"off\", or --only excludes them)"),
        "{status}"
    );
    insta::assert_snapshot!(weir.site.shown(&["jobs", "push", "Hello", "[1]"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: this process does not serve jobs; it serves console (set jobs.listen to an address, and start Weir without --only or with jobs among its parts)
    ");
    assert!(!weir.data_dir().join("jobs").exists());
    assert!(weir.stop().success());
}

#[test]
fn front_alone_opens_one_port() {
    let site = Site::new("");
    site.write(
        "[jobs]\nlisten = \"off\"\n[console]\nlisten = \"off\"\n[front]\nlisten = \"127.0.0.1:0\"\n",
    );
    assert!(!site.ok(&["check"]).contains("(jobs)"));
    let weir = site.start();
    assert!(weir.serves("front") && weir.serves("admin"));
    assert!(!weir.serves("jobs") && !weir.serves("console"), "{}", weir.ready_line);
    assert!(weir.site.ok(&["status"]).contains("jobs are disabled"));
    assert!(!weir.data_dir().join("jobs").exists());
    assert!(weir.stop().success());
}

#[test]
fn disabled_part_cannot_be_selected() {
    let site = Site::new("");
    site.write("[jobs]\nlisten = \"off\"\n");
    insta::assert_snapshot!(site.shown(&["up", "--only", "jobs"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: --only names jobs, but jobs.listen is "off"
    "#);
}

#[test]
fn excluded_parts_are_not_salvaged() {
    insta::assert_snapshot!(Site::new("").shown(&["up", "--salvage", "--only", "console"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: --salvage repairs the job store, but --only or jobs.listen = "off" excludes it
    "#);
}

#[test]
fn unknown_part_is_a_usage_error() {
    insta::assert_snapshot!(Site::new("").shown(&["up", "--only", "jobs,web"]), @r"
    exit: 64
    -- stdout
    -- stderr
    error: invalid value 'web' for '--only <PART>'
      [possible values: jobs, front, realtime, gems, workers, console]

    For more information, try '--help'.
    ");
}

fn start_parts(parts: &str) -> Weir {
    Site::new("").start_with(|command| {
        command.args(["--only", parts]);
    })
}

#[test]
fn killed_service_is_replaced_without_refused_connections() {
    let mut weir = Weir::start();
    let (jobs, console) = (weir.jobs(), weir.console());
    for _ in 0..3 {
        let killed = weir.service();
        rustix::process::kill_process(killed, Signal::KILL).expect("killed");
        // Whoever connects now waits in the backlog and is served by the next one.
        TcpStream::connect(console).expect("not refused");
        assert!(Client::connect_without_command(jobs).greeting.starts_with("+HI {"));
        weir.wait_for_log("was killed by signal 9; restarting");
        assert_ne!(weir.service(), killed);
    }
    assert!(weir.stop().success());
}

#[test]
fn hanging_service_is_replaced() {
    let settings = "[supervisor]\nadvanced.alive_interval = \"20ms\"\nunresponsive_after = \"2s\"";
    let mut weir = Site::new(settings).start();
    let hanging = weir.service();
    rustix::process::kill_process(hanging, Signal::STOP).expect("stopped");
    // Whoever connects now waits in the backlog and is served by the next one.
    let console = TcpStream::connect(weir.console()).expect("not refused");
    weir.wait_for_log("does not answer; aborted");
    weir.wait_for_log("was killed by signal");
    assert!(Client::connect_without_command(weir.jobs()).greeting.starts_with("+HI {"));
    assert_ne!(weir.service(), hanging);
    assert!(!is_running(hanging));
    drop(console);
    assert!(weir.stop().success());
}

#[test]
fn sigterm_finishes_waiting_fetches_and_running_commands() {
    let mut weir = Site::new("[jobs.limits]\nadvanced.fetch_wait = \"1h\"").start();
    let mut client = Client::connect(weir.jobs());
    client.send("FETCH default");
    // The fetch waits once the server counts it.
    wait_until("the fetch waits", || {
        let status = weir.site.ok(&["status", "--json"]);
        status.contains("\"fetches_waiting\": 1")
    });
    weir.signal(Signal::TERM);
    assert_eq!(client.reply(), "nil", "answered, not cut off");
    assert_eq!(client.reply(), "", "then closed");
    assert!(weir.wait().success());
}

#[test]
fn sigint_shuts_down_gracefully() {
    let mut weir = Weir::start();
    weir.signal(Signal::INT);
    assert!(weir.wait().success());
    let socket = weir.data_dir().join("weir.sock");
    assert!(!socket.exists(), "the admin socket is gone");
}

#[test]
fn second_signal_stops_immediately() {
    let mut weir = Weir::start();
    let service = weir.service();
    // A service that is stopped (SIGSTOP) drains for ever.
    rustix::process::kill_process(service, Signal::STOP).expect("stopped");
    weir.signal(Signal::TERM);
    weir.wait_for_log("stopping");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(2));
    assert!(!is_running(service));
}

#[test]
fn service_is_killed_at_its_shutdown_deadline() {
    let settings = "shutdown_deadline = \"1ms\"\n[supervisor]\nkill_after = \"1ms\"";
    let mut weir = Site::new(settings).start();
    let service = weir.service();
    rustix::process::kill_process(service, Signal::STOP).expect("stopped");
    weir.signal(Signal::TERM);
    weir.wait_for_log("still running at its deadline; killed");
    assert_eq!(weir.wait().code(), Some(2));
    assert!(!is_running(service));
}

#[test]
fn orphaned_service_ends_and_the_next_weir_starts() {
    let weir = Weir::start();
    let service = weir.service();
    let site = weir.kill_parent();
    let next = site.start();
    assert!(!is_running(service), "the folder was free, so its holder is gone");
    assert!(next.stop().success());
}

#[test]
fn port_in_use_is_reported_with_its_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"{address}\"\nstore = \"memory\"\n[console]\nlisten = \"127.0.0.1:0\"\n"
    ));
    let output = site.run(&["up"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    let pid = std::process::id();
    assert!(error.contains(&format!("jobs.listen: {address} is in use by pid {pid}")), "{error}");
}

#[test]
fn all_ports_in_use_are_reported_and_no_socket_is_left() {
    let taken = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [jobs, console] = taken.each_ref().map(|taken| taken.local_addr().expect("its address"));
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"{jobs}\"\nstore = \"memory\"\n[console]\nlisten = \"{console}\"\n"
    ));
    let output = site.run(&["up"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("2 addresses cannot be used:"), "{error}");
    for address in
        [format!("jobs.listen: {jobs} is in use"), format!("console.listen: {console} is")]
    {
        assert!(error.contains(&address), "{error}");
    }
    assert!(!site.path().join("data/weir.sock").exists());
}

/// As after a kill: the kernel has not closed the port yet, and no process has it open.
#[test]
fn port_without_a_visible_owner_is_retried() {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let taken = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("made");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    rustix::net::bind(&taken, &any).expect("bound");
    let address = rustix::net::getsockname(&taken).expect("its address");
    let address = SocketAddr::try_from(address).expect("of TCP");
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"{address}\"\nstore = \"memory\"\n[console]\nlisten = \"127.0.0.1:0\"\n"
    ));
    let mut command = program();
    command.current_dir(site.path()).arg("up").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut weir = command.spawn().expect("started");
    let mut log = BufReader::new(weir.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let told = log.find(|line| line.contains("in use by an unknown process"));
    assert!(told.is_some_and(|line| line.contains(&address.to_string())));
    drop(taken);
    let mut ready = String::new();
    let mut output = BufReader::new(weir.stdout.take().expect("piped"));
    output.read_line(&mut ready).expect("a line");
    assert!(ready.starts_with("weir ready"), "{ready}");
    let pid = Pid::from_child(&weir);
    rustix::process::kill_process(pid, Signal::TERM).expect("told");
    let rest = std::thread::spawn(move || log.count());
    assert!(weir.wait().expect("ended").success());
    rest.join().expect("read");
}

#[test]
fn log_format_json_is_applied() {
    let mut weir = Site::new("").start_with(|command| {
        command.args(["--log", "json"]);
    });
    let line = weir.wait_for_log("ready");
    let json: serde_json::Value = serde_json::from_str(&line).expect("one object a line");
    assert_eq!(json["child"], "service");
    assert!(weir.stop().success());
}

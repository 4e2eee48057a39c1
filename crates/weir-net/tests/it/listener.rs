use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use weir_base::listen_address::ListenAddress;
use weir_net::listener::{BindOptions, ListenError, Listener};
use weir_net::unix_path;

fn bind(address: &str) -> Result<Listener, ListenError> {
    Listener::bind(&address.parse().expect("an address"), BindOptions::default())
}

fn tcp_port(listener: &Listener) -> u16 {
    match listener.address().expect("an address") {
        ListenAddress::Tcp(address) => address.port(),
        ListenAddress::Unix(path) => panic!("{path:?} is no TCP address"),
    }
}

#[test]
fn port_zero_binds_a_free_port() {
    let listener = bind("127.0.0.1:0").expect("bound");
    let port = tcp_port(&listener);
    assert_ne!(port, 0);
    TcpStream::connect(("127.0.0.1", port)).expect("connects before anybody accepts");
}

#[test]
fn ipv6_addresses_can_be_bound() {
    let listener = bind("[::1]:0").expect("bound");
    TcpStream::connect(("::1", tcp_port(&listener))).expect("connects");
}

#[test]
fn an_address_in_use_names_its_process() {
    let first = bind("127.0.0.1:0").expect("bound");
    let address = first.address().expect("an address").to_string();
    let error = bind(&address).expect_err("in use").to_string();
    let pid = std::process::id();
    assert!(error.starts_with(&format!("{address} is in use by pid {pid} (")), "{error}");
    assert!(error.ends_with("stop that process or choose another address"), "{error}");
}

#[test]
fn an_address_of_another_machine_is_rejected_with_advice() {
    // 192.0.2.0/24 is reserved for documentation: no machine has it.
    let error = bind("192.0.2.1:7419").expect_err("not here").to_string();
    assert_eq!(
        error,
        "192.0.2.1:7419 is not an address of this machine; 0.0.0.0 or [::] means all of them"
    );
}

#[test]
fn an_inherited_listener_keeps_its_backlog() {
    let listener = bind("127.0.0.1:0").expect("bound");
    let mut client = TcpStream::connect(("127.0.0.1", tcp_port(&listener))).expect("connects");
    let inherited = listener.as_fd().try_clone_to_owned().expect("a second descriptor");
    drop(listener);
    let Listener::Tcp(adopted) = Listener::adopt("jobs", inherited).expect("adopted") else {
        panic!("a TCP listener stays one");
    };
    adopted.set_nonblocking(false).expect("blocking");
    let (mut served, _) = adopted.accept().expect("the waiting connection");
    client.write_all(b"x").expect("written");
    let mut byte = [0];
    served.read_exact(&mut byte).expect("read");
    assert_eq!(&byte, b"x");
}

#[test]
fn a_descriptor_that_does_not_listen_is_rejected() {
    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("a file"));
    let error = Listener::adopt("jobs", file).expect_err("no socket");
    assert_eq!(error.to_string(), "inherited descriptor jobs is not a listening stream socket");
    let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    assert!(Listener::adopt("jobs", one.into()).is_err());
}

#[test]
fn a_unix_socket_is_private_and_replaces_a_stale_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weir.sock");
    let address = ListenAddress::Unix(path.clone());
    drop(Listener::bind(&address, BindOptions::default()).expect("bound"));
    assert!(path.exists(), "the file stays behind");
    let listener = Listener::bind(&address, BindOptions::default()).expect("bound again");
    let mode = std::fs::metadata(&path).expect("its file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    unix_path::connect(&path).expect("connects");
    let error = Listener::bind(&address, BindOptions::default()).expect_err("in use");
    assert!(matches!(error, ListenError::InUse { .. }), "{error}");
    drop(listener);
}

#[test]
fn a_unix_path_longer_than_the_kernel_limit_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep: PathBuf = std::iter::once(folder.path().to_owned())
        .chain((0..8).map(|_| PathBuf::from("a-folder-with-a-long-name")))
        .collect();
    std::fs::create_dir_all(&deep).expect("made");
    let path = deep.join("weir.sock");
    assert!(path.as_os_str().len() > unix_path::PATH_BYTES_MAX);
    let address = ListenAddress::Unix(path.clone());
    let _listener = Listener::bind(&address, BindOptions::default()).expect("bound");
    unix_path::connect(&path).expect("connects");
}

#[test]
fn a_unix_socket_name_that_is_too_long_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = ListenAddress::Unix(folder.path().join("n".repeat(120)));
    let error = Listener::bind(&address, BindOptions::default()).expect_err("too long");
    assert!(error.to_string().contains("choose a shorter name"), "{error}");
}

fn bind_group(address: &str, count: usize) -> Result<Vec<Listener>, ListenError> {
    Listener::bind_group(&address.parse().expect("an address"), count, BindOptions::default())
}

#[test]
fn sockets_of_a_group_share_a_port_and_its_connections() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let group = bind_group(address, 3).expect("bound");
        let ports: Vec<_> = group.iter().map(tcp_port).collect();
        assert_eq!(ports, [ports[0]; 3]);
        let ip = address.rsplit_once(':').expect("a port").0;
        let clients: Vec<_> =
            (0..90).map(|_| TcpStream::connect(format!("{ip}:{}", ports[0]))).collect();
        assert!(clients.iter().all(Result::is_ok));
        for listener in &group {
            let Listener::Tcp(listener) = listener else { panic!("a TCP listener") };
            let accepted = std::iter::from_fn(|| listener.accept().ok()).count();
            assert!((1..90).contains(&accepted), "{accepted} of 90");
        }
    }
}

#[test]
fn a_group_does_not_join_a_foreign_group() {
    let alone = bind("127.0.0.1:0").expect("bound");
    let group = bind_group("127.0.0.1:0", 2).expect("bound");
    let half = group.into_iter().next_back().expect("a socket");
    for occupied in [alone, half] {
        let address = occupied.address().expect("an address").to_string();
        let pid = std::process::id();
        let in_use = format!("{address} is in use by pid {pid} (");
        for count in [1, 2] {
            let error = bind_group(&address, count).expect_err("in use").to_string();
            assert!(error.starts_with(&in_use), "{error}");
        }
        assert!(bind(&address).expect_err("in use").to_string().starts_with(&in_use));
    }
}

#[test]
fn a_group_can_be_bound_again_after_connections() {
    let group = bind_group("127.0.0.1:0", 2).expect("bound");
    let address = group[0].address().expect("an address").to_string();
    for listener in &group {
        let Listener::Tcp(listener) = listener else { panic!("a TCP listener") };
        let client = TcpStream::connect(&address).expect("connects");
        // Whichever socket got it: the server's end closes first and stays in TIME_WAIT.
        drop(listener.accept());
        drop(client);
    }
    drop(group);
    assert_eq!(bind_group(&address, 2).expect("bound again").len(), 2);
}

#[test]
fn a_group_on_a_unix_socket_duplicates_one_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = format!("unix:{}", folder.path().join("weir.sock").display());
    let group = bind_group(&address, 2).expect("bound");
    let _client = unix_path::connect(&folder.path().join("weir.sock")).expect("connects");
    let [Listener::Unix(_), Listener::Unix(second)] = group.as_slice() else {
        panic!("two unix sockets")
    };
    second.accept().expect("either can accept");
    assert!(bind_group(&address, 2).is_err(), "in use");
}

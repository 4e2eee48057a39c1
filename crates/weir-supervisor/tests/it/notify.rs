use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use weir_supervisor::notify::Notify;

fn receive(socket: &UnixDatagram) -> String {
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut buffer = [0; 500];
    let bytes = socket.recv(&mut buffer).expect("a datagram");
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

#[test]
fn a_socket_file_receives_every_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    let notify = Notify::connect(path.as_os_str(), Some(Duration::from_secs(7))).expect("made");
    assert_eq!(notify.watchdog(), Some(Duration::from_secs(7)));
    notify.ready("serving");
    let pid = std::process::id();
    assert_eq!(receive(&socket), format!("READY=1\nSTATUS=serving\nMAINPID={pid}\n"));
    notify.reloading();
    assert!(receive(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    notify.send_watchdog();
    assert_eq!(receive(&socket), "WATCHDOG=1\n");
    notify.stopping();
    assert_eq!(receive(&socket), "STOPPING=1\n");
}

#[test]
fn an_abstract_socket_is_found_by_its_name() {
    let name = format!("weir-notify-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("bound");
    Notify::connect(format!("@{name}").as_ref(), None).expect("made").stopping();
    assert_eq!(receive(&socket), "STOPPING=1\n");
}

#[test]
fn a_missing_notify_socket_is_ignored() {
    let notify = Notify::connect("/nonexistent/notify".as_ref(), None).expect("made");
    notify.ready("serving");
    Notify::disabled().ready("serving");
}

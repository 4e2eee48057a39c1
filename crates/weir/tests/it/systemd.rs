use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use crate::process::TEST_TIMEOUT;
use crate::weir::Site;

/// Signs of life come all the while; among so many, what is waited for must be.
const MESSAGES_MAX: usize = 100;

struct Systemd {
    socket: UnixDatagram,
}

impl Systemd {
    fn wait_for(&self, text: &str) -> String {
        let mut buffer = [0; 500];
        for _ in 0..MESSAGES_MAX {
            let bytes = self.socket.recv(&mut buffer).unwrap_or_else(|_| panic!("never {text:?}"));
            let message = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
            if message.contains(text) {
                return message;
            }
        }
        panic!("{text:?} was not among {MESSAGES_MAX} messages");
    }
}

#[test]
fn systemd_is_notified_of_every_state() {
    let site = Site::new("[supervisor]\nadvanced.alive_interval = \"10ms\"");
    let path = site.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let systemd = Systemd { socket };
    let mut weir = site.start_with(|command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "2000000");
    });
    let ready = systemd.wait_for("READY=1");
    assert!(ready.contains(&format!("MAINPID={}\n", weir.pid().as_raw_nonzero())), "{ready}");
    systemd.wait_for("WATCHDOG=1");
    weir.signal(Signal::HUP);
    systemd.wait_for("RELOADING=1");
    systemd.wait_for("READY=1");
    weir.signal(Signal::TERM);
    systemd.wait_for("STOPPING=1");
    assert!(weir.wait().success());
}

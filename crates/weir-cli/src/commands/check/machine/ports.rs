//! The addresses of the settings.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use weir_config::Settings;

use super::machine_check::MachineCheck;

/// Binds each address for a moment. `is_running`: a Weir runs with the same `data_dir`, so its addresses are in use.
pub(super) fn check(settings: &Settings, is_running: bool) -> Vec<MachineCheck> {
    let addresses = settings.addresses().into_iter();
    addresses.map(|(setting, address)| check_address(&setting, address, is_running)).collect()
}

fn check_address(setting: &str, address: SocketAddr, is_running: bool) -> MachineCheck {
    let Err(error) = TcpListener::bind(address) else {
        return MachineCheck::fine(setting, format!("{address} is free"));
    };
    match error.kind() {
        ErrorKind::AddrInUse if is_running => {
            MachineCheck::fine(setting, format!("{address} is in use, and Weir is running"))
        }
        ErrorKind::AddrInUse => MachineCheck::problem(
            setting,
            format!(
                "another process listens on {address}; `ss -ltnp 'sport = :{}'` names it. Stop it, or change {setting}",
                address.port()
            ),
        ),
        ErrorKind::AddrNotAvailable => MachineCheck::problem(
            setting,
            format!("this machine does not have the address {}; change {setting}", address.ip()),
        ),
        ErrorKind::PermissionDenied => MachineCheck::problem(
            setting,
            format!(
                "this user may not listen on port {}; use a port above 1023, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit",
                address.port()
            ),
        ),
        _ => MachineCheck::problem(setting, format!("cannot listen on {address}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_in_use_is_a_problem_unless_weir_is_running() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let taken = check_address("jobs.listen", address, false);
        assert!(taken.has_problem() && taken.text.contains("ss -ltnp"), "{taken:?}");
        assert!(!check_address("jobs.listen", address, true).has_problem());
        drop(listener);
        assert!(!check_address("jobs.listen", address, false).has_problem());
    }

    #[test]
    fn address_of_another_machine_is_a_problem() {
        // TEST-NET-1 (RFC 5737) belongs to no machine.
        let other = check_address("jobs.listen", SocketAddr::from(([192, 0, 2, 1], 7419)), true);
        assert!(other.has_problem() && other.text.contains("192.0.2.1"), "{other:?}");
    }
}

//! `weir check --machine`: whether Weir can run with these settings on this machine, as this user.
//!
//! The checks change nothing that lasts: they write and remove one small file in `data_dir`, and bind each address for
//! a moment.

mod data_dir;
mod machine_check;
mod ports;
mod system;

use weir_base::clock::Clock;
use weir_config::Settings;

pub(super) use self::machine_check::MachineCheck;
use crate::data_dir::lock;
use crate::output;

/// Checks this machine. A Weir that runs with the same `data_dir` is no problem: its ports count as free.
pub(super) fn check(settings: &Settings) -> Vec<MachineCheck> {
    let running = lock::running(&settings.data_dir);
    let mut checks = vec![system::program(running), system::kernel(), system::open_files(settings)];
    checks.extend(data_dir::check(&settings.data_dir, &Clock::system()));
    checks.extend(ports::check(settings, running.is_some()));
    checks
}

/// Prints one line for each check.
pub(super) fn print(checks: &[MachineCheck]) {
    if checks.is_empty() {
        return;
    }
    let row = |check: &MachineCheck| {
        vec![check.name.clone(), check.outcome.word().to_owned(), check.text.clone()]
    };
    let rows: Vec<_> = checks.iter().map(row).collect();
    output::line("");
    output::table(&["CHECK OF THIS MACHINE", "OUTCOME", "DETAIL"], &rows);
}

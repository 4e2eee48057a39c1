//! Who runs a command.

use weir_config::environment;

/// Returns who runs this command, for records of changes.
pub(crate) fn operator() -> String {
    match environment::variable("SUDO_USER").or_else(|| environment::variable("USER")) {
        Some(user) => format!("command line ({user})"),
        None => "command line".to_owned(),
    }
}

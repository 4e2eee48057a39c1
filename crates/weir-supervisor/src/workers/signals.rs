//! Signals by name, as in settings and commands.

use std::fmt;
use std::str::FromStr;

use rustix::process::Signal;

/// A signal that may be sent to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSignal(pub(crate) Signal);

/// The name is not that of a permitted signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no signal for workers; there are: {known}", known = known())]
pub struct UnknownSignal(String);

/// Signals that application servers use. SIGKILL and SIGSTOP are excluded: the parent kills by
/// itself, and a stopped worker would only look stuck.
const KNOWN: [(&str, Signal); 10] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("ABRT", Signal::ABORT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("WINCH", Signal::WINCH),
];

impl WorkerSignal {
    /// The default stop signal.
    pub const TERM: Self = Self(Signal::TERM);
}

impl FromStr for WorkerSignal {
    type Err = UnknownSignal;

    /// Parses `USR1`, `SIGUSR1` or `usr1`.
    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        known.map(|(_, signal)| Self(*signal)).ok_or_else(|| UnknownSignal(text.to_owned()))
    }
}

impl fmt::Display for WorkerSignal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = KNOWN.iter().find(|(_, signal)| *signal == self.0);
        formatter.write_str(known.map_or("?", |(name, _)| name))
    }
}

fn known() -> String {
    KNOWN.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_round_trip_through_their_names() {
        for text in ["USR1", "SIGUSR1", "usr1", "SigUsr1"] {
            let signal: WorkerSignal = text.parse().expect(text);
            assert_eq!(signal, WorkerSignal(Signal::USR1));
            assert_eq!(signal.to_string(), "USR1");
        }
    }

    #[test]
    fn an_invalid_signal_name_lists_the_valid_ones() {
        for text in ["KILL", "9", "", "SIG"] {
            let error = text.parse::<WorkerSignal>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text:?} is no signal for workers")), "{error}");
            assert!(error.ends_with("TTIN, TTOU, WINCH"), "{error}");
        }
    }
}

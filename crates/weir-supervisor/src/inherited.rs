//! The child's side: inherited descriptors by name, and status messages to the parent.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::system;

/// The environment variable that names the descriptors: `jobs=3,console=4`.
pub const VARIABLE: &str = "WEIR_DESCRIPTORS";
/// The pipe on which a child sends [`ChildStatus`]s.
pub(crate) const STATUS: &str = "status";
/// The [control channel](crate::control).
pub(crate) const CONTROL: &str = "control";
/// The pipe that reaches end of file when the parent ends.
pub(crate) const LIFE: &str = "life";

/// A status message from a child to its parent, one word a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// The service serves everything.
    Ready,
    /// The service serves all but what only one process can hold at a time (a store). A service
    /// that replaces another sends it: from then on the other may end. [`ChildStatus::Ready`]
    /// follows, or may be sent instead.
    Standby,
    /// A sign of life. The parent forwards it to systemd's watchdog.
    Alive,
    /// The reloaded settings are in effect.
    Reloaded,
}

impl ChildStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Standby => "standby",
            Self::Alive => "alive",
            Self::Reloaded => "reloaded",
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let statuses = [Self::Ready, Self::Standby, Self::Alive, Self::Reloaded];
        statuses.into_iter().find(|status| status.as_str() == line)
    }
}

/// Inherited descriptors that were not taken yet.
#[derive(Debug, Default)]
pub struct Inherited {
    descriptors: BTreeMap<String, OwnedFd>,
}

/// An error while taking inherited descriptors.
#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    /// The text is not `name=number,..`.
    #[error("{VARIABLE} is malformed at {0:?}; it is set by the parent, not by hand")]
    Malformed(String),
    /// The descriptor cannot be taken over.
    #[error("descriptor {number} ({name}) can't be taken over: {source}")]
    Descriptor { name: String, number: i32, source: io::Error },
    /// The parent did not hand over a required descriptor.
    #[error("the parent handed over no descriptor named {0}")]
    Missing(String),
}

impl Inherited {
    /// Takes over the descriptors in `text`, the value of [`VARIABLE`]. Call it once per process.
    pub fn take_over(text: &str) -> Result<Self, InheritError> {
        let mut descriptors = BTreeMap::new();
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let malformed = || InheritError::Malformed(entry.to_owned());
            let (name, number) = entry.split_once('=').ok_or_else(malformed)?;
            let number: i32 = number.parse().map_err(|_| malformed())?;
            let name = name.to_owned();
            let descriptor = match system::take_descriptor(number) {
                Ok(descriptor) => descriptor,
                Err(source) => {
                    return Err(InheritError::Descriptor { name, number, source });
                }
            };
            descriptors.insert(name, descriptor);
        }
        Ok(Self { descriptors })
    }

    /// Takes the descriptor called `name`; None if the parent handed over none.
    pub fn take(&mut self, name: &str) -> Option<OwnedFd> {
        self.descriptors.remove(name)
    }

    /// Takes the descriptor called `name`, or returns [`InheritError::Missing`].
    pub fn expect(&mut self, name: &str) -> Result<OwnedFd, InheritError> {
        self.take(name).ok_or_else(|| InheritError::Missing(name.to_owned()))
    }

    /// Takes the pipe for status messages to the parent.
    pub fn status(&mut self) -> Result<Status, InheritError> {
        self.expect(STATUS).map(Status)
    }

    /// Takes the [control channel](crate::control), if the parent runs workers. The socket is
    /// blocking; an async runtime must make it non-blocking.
    pub fn control(&mut self) -> Option<UnixStream> {
        self.take(CONTROL).map(UnixStream::from)
    }

    /// Takes the life pipe, which reaches end of file when the parent ends for any reason.
    pub fn life_pipe(&mut self) -> Result<OwnedFd, InheritError> {
        self.expect(LIFE)
    }
}

/// Sends status messages to the parent.
#[derive(Debug)]
pub struct Status(OwnedFd);

impl Status {
    /// Sends `status`. Errors are ignored: the life pipe reports a parent that is gone, and a
    /// parent that does not read still has older statuses in the pipe.
    pub fn report(&self, status: ChildStatus) {
        let _ = rustix::io::write(&self.0, format!("{}\n", status.as_str()).as_bytes());
    }
}

/// Returns the value of [`VARIABLE`] for `names` at 3, 4, 5 ..
pub(crate) fn describe<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let entries: Vec<String> = (system::FIRST_DESCRIPTOR..)
        .zip(names)
        .map(|(number, name)| format!("{name}={number}"))
        .collect();
    entries.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_descriptors_are_described_in_order() {
        assert_eq!(describe(["jobs", "console"].into_iter()), "jobs=3,console=4");
    }

    #[test]
    fn malformed_descriptor_lists_are_rejected() {
        let error = |text: &str| Inherited::take_over(text).expect_err(text).to_string();
        assert!(error("jobs").contains("malformed at \"jobs\""));
        assert!(error("jobs=x").contains("malformed"));
        assert!(error("jobs=1").contains("a standard stream"));
        assert!(error("jobs=999999").contains("Bad file descriptor"));
        assert!(Inherited::take_over("").expect("nothing").expect("jobs").is_err());
    }
}

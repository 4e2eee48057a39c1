//! The owner of reservations: a node since its last start.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use tokio::time::Instant;

/// Characters of a node's name.
const NODE_CHARACTERS: usize = 12;

/// The name under which reservations are held, and until when the lease lasts by this node's own
/// clock, which no clock change moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseOwner {
    pub(super) node: String,
    pub(super) epoch: u64,
    pub(super) lease_until: Instant,
}

impl LeaseOwner {
    /// Returns the field of a reservation: `node-epoch:number`.
    pub(super) fn field(&self, number: u64) -> String {
        format!("{self}:{number}")
    }
}

impl fmt::Display for LeaseOwner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.node, self.epoch)
    }
}

/// Splits the field of a reservation into its owner and its number.
pub(super) fn parse_field(field: &str) -> Option<(&str, u64)> {
    let (owner, number) = field.rsplit_once(':')?;
    Some((owner, number.parse().ok()?))
}

/// Returns the node's name from `file`, which is made with a random one if it is missing.
pub(super) fn node_name(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Ok(name) if is_node_name(name.trim()) => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let name = format!("{:012x}", fastrand::u64(..1 << (4 * NODE_CHARACTERS)));
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = fs::File::create(file)?;
    file.write_all(name.as_bytes())?;
    file.sync_all()?;
    Ok(name)
}

fn is_node_name(name: &str) -> bool {
    name.len() == NODE_CHARACTERS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data/node_id");
        let name = node_name(&file).unwrap();
        assert!(is_node_name(&name), "{name}");
        assert_eq!(node_name(&file).unwrap(), name);
        fs::write(&file, "half").unwrap();
        assert_ne!(node_name(&file).unwrap(), "half");
    }

    #[test]
    fn a_field_names_owner_and_number() {
        assert_eq!(parse_field("0123456789ab-7:42"), Some(("0123456789ab-7", 42)));
        for odd in ["", "a", "a-1:", "a-1:x"] {
            assert_eq!(parse_field(odd), None, "{odd}");
        }
    }
}

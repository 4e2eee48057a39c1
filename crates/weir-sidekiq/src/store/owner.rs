//! The owner of reservations: a node since its last start.

use std::fmt;

use tokio::time::Instant;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_names_owner_and_number() {
        assert_eq!(parse_field("0123456789ab-7:42"), Some(("0123456789ab-7", 42)));
        for odd in ["", "a", "a-1:", "a-1:x"] {
            assert_eq!(parse_field(odd), None, "{odd}");
        }
    }
}

//! Members of `custom` that Faktory Enterprise implements and Weir ignores. They are passed to the
//! worker, and counted because a client that sets them relies on them.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A member of `custom` that Weir ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoredMember {
    UniqueFor,
    ExpiresAt,
}

impl IgnoredMember {
    /// All members, in the order of their discriminants.
    pub(crate) const ALL: [Self; 2] = [Self::UniqueFor, Self::ExpiresAt];

    /// Returns the member's name in jobs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::UniqueFor => "unique_for",
            Self::ExpiresAt => "expires_at",
        }
    }

    /// Returns a phrase that says how the behavior differs from what a client expects.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::UniqueFor => "such jobs are not unique",
            Self::ExpiresAt => "such jobs do not expire",
        }
    }
}

/// The number of jobs that had each member.
pub(crate) type IgnoredCounts = [u64; IgnoredMember::ALL.len()];

#[derive(Deserialize)]
struct Custom {
    unique_for: Option<IgnoredAny>,
    expires_at: Option<IgnoredAny>,
}

/// Counts the ignored members of a job's `custom`. Parses it only if it contains such a name, which
/// is rare.
pub(super) fn count(custom: &str, counts: &mut IgnoredCounts) {
    if !IgnoredMember::ALL.iter().any(|member| custom.contains(member.name())) {
        return;
    }
    let Ok(custom) = serde_json::from_str::<Custom>(custom) else { return };
    for (member, value) in [
        (IgnoredMember::UniqueFor, custom.unique_for),
        (IgnoredMember::ExpiresAt, custom.expires_at),
    ] {
        counts[member as usize] += u64::from(value.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_members_are_counted() {
        for (custom, expected) in [
            ("{}", [0, 0]),
            (r#"{"unique_for":60}"#, [1, 0]),
            (r#"{"expires_at":"2030-01-01T00:00:00Z", "unique_for": 1}"#, [1, 1]),
            (r#"{"unique_for":null,"x":{"expires_at":1},"y":"unique_for"}"#, [0, 0]),
        ] {
            let mut counts = IgnoredCounts::default();
            count(custom, &mut counts);
            assert_eq!(counts, expected, "{custom}");
        }
    }
}

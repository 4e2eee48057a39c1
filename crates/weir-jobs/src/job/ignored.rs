//! Members of `custom` that Faktory Enterprise obeys and Weir does not: they are kept for the worker, and
//! counted, since a client that sets them relies on them.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A member of `custom` that changes nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoredMember {
    UniqueFor,
    ExpiresAt,
}

impl IgnoredMember {
    /// All of them, in the order of their discriminants.
    pub(crate) const ALL: [Self; 2] = [Self::UniqueFor, Self::ExpiresAt];

    /// As jobs have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::UniqueFor => "unique_for",
            Self::ExpiresAt => "expires_at",
        }
    }

    /// What happens instead of what a client may expect.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::UniqueFor => "such jobs are not unique",
            Self::ExpiresAt => "such jobs do not expire",
        }
    }
}

/// How many jobs had each.
pub(crate) type IgnoredCounts = [u64; IgnoredMember::ALL.len()];

#[derive(Deserialize)]
struct Custom {
    unique_for: Option<IgnoredAny>,
    expires_at: Option<IgnoredAny>,
}

/// Counts those of a job's `custom`. Nearly none has them: only those are parsed.
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
    fn members_are_counted_where_they_mean_something() {
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

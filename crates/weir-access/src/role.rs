//! Roles of the console's users and of API tokens.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_settings::Choice;

/// What a user or a token may do. Each role may do what the ones before it may.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    Choice,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads everything except the audit log.
    #[default]
    Viewer,
    /// Also acts on jobs, queues, workers, channels and gems.
    Operator,
    /// Also empties queues and sets, restarts Weir, manages API keys and sessions, and reads the audit log.
    Admin,
}

impl Role {
    /// All roles, from the one that may do least.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];
}

/// The word in the settings.
impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_and_have_the_same_names_everywhere() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.word());
        }
    }
}

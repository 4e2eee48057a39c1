//! The sender of a request, identified.

use std::net::IpAddr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::role::Role;

/// Who sent a request. It is among the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of a user, `token NAME` for a token, or that of the Unix user on the socket.
    pub user: Arc<str>,
    pub role: Role,
    pub via: Via,
    /// None: the request came over the socket.
    pub address: Option<IpAddr>,
}

/// The role of a caller is not sufficient.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{user} has the role {role}, and this needs the role {needed}")]
pub struct ForbiddenError {
    pub user: Arc<str>,
    pub role: Role,
    pub needed: Role,
}

impl Caller {
    /// Checks that the role is sufficient.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, needed: Role) -> Result<(), ForbiddenError> {
        if self.role >= needed {
            return Ok(());
        }
        Err(ForbiddenError { user: Arc::clone(&self.user), role: self.role, needed })
    }
}

/// The way of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// A page of the console.
    #[default]
    Console,
    /// `/v1` on the console's port.
    Api,
    /// The socket in `data_dir`: the command line, and programs of the same user.
    Socket,
}

impl Via {
    /// The name in JSON and on pages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Api => "api",
            Self::Socket => "socket",
        }
    }
}

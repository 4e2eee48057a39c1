//! What the forms of a page need: the CSRF token, and whether the visitor may send them. Forms that a visitor may not send
//! are not shown.

use weir_access::{Caller, Via, change};

use super::accounts::Identity;

/// The CSRF token of a visitor, and the role that decides which forms are shown.
#[derive(Clone, Debug)]
pub(crate) struct FormAccess {
    pub(crate) csrf: String,
    pub(crate) identity: Identity,
}

impl FormAccess {
    /// Returns whether the visitor may send the form to this path.
    pub(crate) fn may(&self, path: &str) -> bool {
        self.missing(path).is_none()
    }

    /// Returns whether the visitor may clear queues.
    pub(crate) fn may_clear(&self) -> bool {
        self.missing_for("/queues/act", &[("action", "clear")]).is_none()
    }

    /// Returns why the visitor may not send the form to this path. None: they may.
    pub(crate) fn missing(&self, path: &str) -> Option<String> {
        self.missing_for(path, &[])
    }

    /// Returns why the visitor may not send a form with these fields. None: they may.
    pub(crate) fn missing_for(&self, path: &str, fields: &[(&str, &str)]) -> Option<String> {
        let needed = change::role_of_form(path, fields);
        let Identity { name, role } = self.identity.clone();
        let caller = Caller { user: name, role, via: Via::Console, address: None };
        caller.check(needed).err().map(|error| format!("{error}."))
    }
}

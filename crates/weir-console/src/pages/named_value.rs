//! A line of a list of facts.

/// A value with its name, both as people read them.
pub(crate) struct NamedValue {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

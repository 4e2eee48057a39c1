//! A line of a list of facts.

/// A name and a value, both formatted.
pub(crate) struct NamedValue {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

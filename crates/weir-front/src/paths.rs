//! Paths of URLs.

/// Returns whether `path` is `folder` or below it: `/shop/cart` is below `/shop`, `/shopping` is
/// not.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

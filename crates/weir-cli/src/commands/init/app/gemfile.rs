//! Versions of gems in Gemfile.lock.

use std::collections::BTreeMap;

/// The gems that a Gemfile.lock pins.
#[derive(Debug, Default)]
pub(super) struct Gems(BTreeMap<String, String>);

impl Gems {
    /// Reads lines such as `    puma (5.6.5)`: those with four spaces are the pinned gems, those with more their
    /// dependencies.
    pub(super) fn parse(lock: &str) -> Self {
        let gem = |line: &str| {
            let line = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '))?;
            let (name, version) = line.trim_end().strip_suffix(')')?.split_once(" (")?;
            let plain = |text: &str| {
                text.chars().all(|it| it.is_ascii_alphanumeric() || "._-".contains(it))
            };
            (plain(name) && plain(version)).then(|| (name.to_owned(), version.to_owned()))
        };
        Self(lock.lines().filter_map(gem).collect())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns those of `names` that are pinned, such as "puma 5.6.5".
    pub(super) fn versions(&self, names: &[&str]) -> Vec<String> {
        let version = |name: &&str| Some(format!("{name} {}", self.0.get(*name)?));
        names.iter().filter_map(version).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_gems_are_told_from_dependencies() {
        let lock = "GEM\n  remote: https://rubygems.org/\n  specs:\n    puma (5.6.5)\n      nio4r (~> 2.0)\n    \
                    sidekiq (6.4.1)\n\nDEPENDENCIES\n  puma (~> 5.6)\n";
        let gems = Gems::parse(lock);
        assert_eq!(gems.versions(&["puma", "nio4r", "sidekiq"]), ["puma 5.6.5", "sidekiq 6.4.1"]);
        assert!(!Gems::parse("\u{0}(((\n    a (").has("a"));
    }
}

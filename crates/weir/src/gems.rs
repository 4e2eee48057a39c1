//! The paths of the gem index, for routing.

use std::sync::Arc;

use weir_gems::Gems;

/// The listeners and the paths of the gem index.
#[derive(Clone, Debug)]
pub(crate) struct GemsMounts {
    pub(crate) index: Arc<Gems>,
    /// The listener that serves only gems.
    pub(crate) own_listener: Option<usize>,
    /// Another listener, and the prefix of the paths of gems there.
    pub(crate) mounted: Option<(usize, Arc<str>)>,
}

impl GemsMounts {
    /// Returns the prefix of the paths of gems if `path` is one of them.
    pub(crate) fn mount_of(&self, listener: usize, path: &str) -> Option<Arc<str>> {
        if self.own_listener == Some(listener) {
            return Some(Arc::default());
        }
        let (_, mount) = self.mounted.as_ref().filter(|(at, _)| *at == listener)?;
        let rest = path.strip_prefix(&**mount)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| Arc::clone(mount))
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Clock;
    use weir_gems::store::{GemStore, SqliteSettings, SqliteStore};
    use weir_gems::{Files, GemsMetrics, GemsParts};

    use super::*;

    fn places(folder: &std::path::Path) -> GemsMounts {
        let clock = Clock::system();
        let settings = SqliteSettings::new(folder.join("index.db"));
        let store = SqliteStore::open(&settings, clock.now()).expect("a store");
        let index = Gems::new(GemsParts {
            store: GemStore::from(store),
            files: Files::open(folder.join("files")).expect("a folder"),
            settings: Arc::default(),
            clock,
            metrics: GemsMetrics::register(&mut prometheus_client::registry::Registry::default()),
            switches: Arc::default(),
        });
        GemsMounts { index, own_listener: Some(2), mounted: Some((0, "/gems".into())) }
    }

    #[test]
    fn paths_below_the_mount_belong_to_the_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = places(folder.path());
        let mount = |listener, path| places.mount_of(listener, path);
        for path in ["/gems", "/gems/", "/gems/versions", "/gems/no-such-thing"] {
            assert_eq!(mount(0, path).as_deref(), Some("/gems"), "{path}");
        }
        for path in ["/", "/gemstone", "/gem", "/versions"] {
            assert_eq!(mount(0, path), None, "{path}");
        }
        assert_eq!(mount(1, "/gems/versions"), None);
        assert_eq!(mount(2, "/versions").as_deref(), Some(""));
        assert_eq!(mount(2, "/app/key").as_deref(), Some(""));
    }
}

//! Index of the gems that depend on a gem. It is built in memory on first use and updated with the
//! changes in `/versions` since then.

use hashbrown::HashMap;

use crate::dependency_api::Fragment;
use crate::index::text::Text;
use crate::store::{GemStore, StoreError, TextKind};
use crate::view::Dependents;

/// Number of gems to read from the store at once.
const PAGE_GEMS: usize = 500;
/// Number of changed names beyond which the index is rebuilt, because each changed name needs a
/// lookup.
const CHANGED_MAX: usize = 20_000;

/// The index; it takes about 20 MiB for all of rubygems.org.
#[derive(Debug, Default)]
pub(crate) struct DependentsIndex {
    /// A tokio mutex, held while the store is read.
    known: tokio::sync::Mutex<Option<Known>>,
}

/// The index as of one state of `/versions`.
#[derive(Debug)]
struct Known {
    generation: u64,
    length: u64,
    gems: Graph,
}

/// Numbered names and the dependencies between them.
#[derive(Debug, Default)]
struct Graph {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    /// For each number, the gems that it depends on.
    needs: Vec<Box<[u32]>>,
    /// For each number, the gems that depend on it.
    needed_by: Vec<Vec<u32>>,
}

impl DependentsIndex {
    /// Returns up to `names_max` names of gems that depend on this one in any release, in order.
    pub(super) async fn of(
        &self,
        store: &GemStore,
        name: &str,
        names_max: usize,
    ) -> Result<Dependents, StoreError> {
        let text = store.text(TextKind::Versions).await?;
        let mut known = self.known.lock().await;
        let gems = match known.take() {
            Some(before) if before.generation == text.generation => {
                before.follow(store, &text).await?
            }
            _ => Graph::read(store).await?,
        };
        let (generation, length) = (text.generation, text.length());
        let Known { gems, .. } = known.insert(Known { generation, length, gems });
        Ok(gems.dependents(name, names_max))
    }
}

impl Known {
    /// Updates the graph with the gems that were appended to `/versions` since.
    async fn follow(self, store: &GemStore, text: &Text) -> Result<Graph, StoreError> {
        let mut gems = self.gems;
        let tail: Vec<u8> = text.range(self.length..text.length()).flatten().collect();
        let tail = String::from_utf8_lossy(&tail);
        let mut names: Vec<_> = tail.lines().filter_map(|line| line.split(' ').next()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > CHANGED_MAX {
            return Graph::read(store).await;
        }
        for page in names.chunks(PAGE_GEMS) {
            let found = store.fragments(page).await?;
            for name in page.iter().filter(|name| found.iter().all(|(it, _)| it != *name)) {
                gems.set_needs(name, &[]);
            }
            for (name, content) in found {
                gems.set(&name, &content)?;
            }
        }
        Ok(gems)
    }
}

impl Graph {
    async fn read(store: &GemStore) -> Result<Self, StoreError> {
        let (mut gems, mut next) = (Self::default(), Some(0));
        while let Some(from) = next {
            let page = store.fragment_page(from, PAGE_GEMS).await?;
            for (name, content) in &page.gems {
                gems.set(name, content)?;
            }
            next = page.next;
            // Other tasks on this thread wait for one page at most.
            tokio::task::yield_now().await;
        }
        Ok(gems)
    }

    fn set(&mut self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let fragment = Fragment::read(content)?;
        let mut needs: Vec<u32> = fragment.needed().map(|name| self.number(name)).collect();
        needs.sort_unstable();
        needs.dedup();
        self.set_needs(name, &needs);
        Ok(())
    }

    /// Sets the dependencies of a name, which must be sorted and distinct.
    fn set_needs(&mut self, name: &str, needs: &[u32]) {
        let gem = self.number(name);
        let before = std::mem::replace(&mut self.needs[gem as usize], needs.into());
        for other in before.iter().filter(|other| needs.binary_search(other).is_err()) {
            self.needed_by[*other as usize].retain(|it| *it != gem);
        }
        for other in needs.iter().filter(|other| before.binary_search(other).is_err()) {
            self.needed_by[*other as usize].push(gem);
        }
    }

    /// Returns the number of a name, adding it if it is new.
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        self.needs.push(Box::default());
        self.needed_by.push(Vec::new());
        number
    }

    fn dependents(&self, name: &str, names_max: usize) -> Dependents {
        let numbers = self.numbers.get(name).map(|it| &*self.needed_by[*it as usize]);
        let numbers = numbers.unwrap_or_default();
        let mut names: Vec<_> = numbers.iter().map(|it| &*self.names[*it as usize]).collect();
        names.sort_unstable();
        let total = names.len() as u64;
        names.truncate(names_max);
        Dependents { names: names.into_iter().map(str::to_owned).collect(), total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependency_api::write_fragment;
    use crate::release::{Checksum, Identity, Release};
    use weir_base::clock::Timestamp;

    fn fragment(dependencies: &[&str]) -> Vec<u8> {
        let release = |(number, text): (usize, &&str)| Release {
            identity: Identity {
                number: number.to_string().parse().unwrap(),
                platform: "ruby".parse().unwrap(),
            },
            dependencies: text.parse().unwrap(),
            checksum: Checksum([1; 32]),
            ruby: None,
            rubygems: None,
            created_at: Timestamp::from_millis(1),
        };
        let releases: Vec<_> = dependencies.iter().enumerate().map(release).collect();
        write_fragment(&releases)
    }

    #[test]
    fn who_needs_whom_follows_what_releases_say_now() {
        let mut gems = Graph::default();
        let of = |gems: &Graph, name| gems.dependents(name, 2);
        for (name, dependencies) in [
            ("a", &["rack:>= 0", "rack:>= 1,rake:>= 0"][..]),
            ("b", &["rack:>= 0"]),
            ("c", &["rack:>= 0"]),
        ] {
            gems.set(name, &fragment(dependencies)).unwrap();
        }
        let rack = of(&gems, "rack");
        assert_eq!((rack.names.join(" ").as_str(), rack.total), ("a b", 3));
        // It is listed once for all its releases, and no longer when no release depends on it.
        gems.set("a", &fragment(&["rake:>= 0"])).unwrap();
        gems.set("b", &fragment(&[])).unwrap();
        gems.set("d", &fragment(&["a:>= 0"])).unwrap();
        assert_eq!(of(&gems, "rack").names, ["c"]);
        assert_eq!(
            (of(&gems, "rake").names, of(&gems, "a").names),
            (vec!["a".into()], vec!["d".into()])
        );
        assert_eq!(of(&gems, "nobody").total, 0);
    }
}

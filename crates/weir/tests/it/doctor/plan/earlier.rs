//! What an earlier plan has written and the next one does not have.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{code, error, plan};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a plan for these queues, and returns the output.
    fn write(&self, queues: &[&str], more: &[&str]) -> String {
        let shown = self.0.path().display().to_string();
        let queues = queues.iter().flat_map(|queue| ["--queue", queue]).collect::<Vec<_>>();
        let common = ["--cores", "8", "--memory", "16GiB", "--write", &shown, "--yes"];
        let output = plan(&[&queues[..], &common, more].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        error(&output)
    }
}

fn disabled(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.trim().strip_prefix("systemctl disable --now "))
}

const BOTH: [&str; 2] = ["default=1,0.1", "mailers=1,0.1"];

#[test]
fn obsolete_unit_is_listed_and_removed_only_on_request() {
    let folder = Folder::new();
    assert_eq!(disabled(&folder.write(&BOTH, &[])), None);
    std::fs::write(folder.path("puma.service"), "# mine\n").unwrap();
    let said = folder.write(&BOTH[..1], &[]);
    assert_eq!(disabled(&said), Some("sidekiq-mailers"), "{said}");
    let left = folder.path("sidekiq-mailers.service");
    assert!(said.contains(&format!("kept: {}", left.display())) && left.exists());
    let said = folder.write(&BOTH[..1], &["--prune"]);
    assert_eq!(disabled(&said), Some("sidekiq-mailers"), "{said}");
    assert!(said.contains(&format!("removed {}", left.display())) && !left.exists());
    assert!(
        folder.path("puma.service").exists() && folder.path("sidekiq-default.service").exists()
    );
    assert_eq!(disabled(&folder.write(&BOTH[..1], &["--prune"])), None, "it is said once");
}

#[test]
fn enabled_unit_is_kept_until_disabled() {
    let folder = Folder::new();
    folder.write(&BOTH, &[]);
    let left = folder.path("sidekiq-mailers.service");
    std::fs::create_dir(folder.path("multi-user.target.wants")).unwrap();
    let enabled = folder.path("multi-user.target.wants/sidekiq-mailers.service");
    symlink(&left, &enabled).unwrap();
    let said = folder.write(&BOTH[..1], &["--prune"]);
    assert!(said.contains("is enabled; disable it first") && left.exists(), "{said}");
    std::fs::remove_file(enabled).unwrap();
    folder.write(&BOTH[..1], &["--prune"]);
    assert!(!left.exists());
}

#[test]
fn obsolete_instances_are_listed() {
    let folder = Folder::new();
    folder.write(&["push=90,0.5"], &["--streaming", "3x7"]);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
    assert!(text("sidekiq-push@.service").contains(" sidekiq-push@4"));
    let said = folder.write(&["push=60,0.5"], &["--streaming", "1x7", "--prune"]);
    let gone = disabled(&said).unwrap();
    let expected = "mastodon-streaming@4001 mastodon-streaming@4002 sidekiq-push@4";
    assert_eq!(gone, expected);
}

#[test]
fn foreign_drop_in_is_not_removed() {
    let folder = Folder::new();
    folder.write(&BOTH, &[]);
    let named = folder.path("puma.service.d");
    std::fs::rename(folder.path("mastodon-web.service.d"), &named).unwrap();
    let said = folder.write(&BOTH, &["--prune"]);
    assert!(named.join("weir.conf").exists() && disabled(&said).is_none(), "{said}");
}

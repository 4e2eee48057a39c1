//! `weir gems mirror` where no Weir runs: whatever settings it finds, the policy of the index that it
//! writes into holds.

use std::path::Path;

use super::{GEMS, import, line, site};
use crate::weir::{Site, Weir};

const PRIVATE: &str = "private acme-*\n";

/// Starts an upstream with a name that is private in the mirror.
fn upstream() -> (Weir, String) {
    let upstream = site(GEMS).start();
    import(&upstream.site, &(line("acme-web", &["9.9"]) + &line("rack", &["1.0"])));
    let url = format!("http://{}", upstream.gems());
    (upstream, url)
}

fn verify_output(site: &Site) -> String {
    let text = site.ok(&["gems", "verify"]);
    text.split(';').next().unwrap_or_default().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn stored_policy_applies_to_commands_without_settings() {
    let (upstream, url) = upstream();
    let index = site(&format!(
        "{GEMS}[gems.mirror]\npolicy = \"policy\"\n[[gems.mirror.upstreams]]\nname = \"one\"\n\
         url = \"{url}\"\n"
    ));
    std::fs::write(index.path().join("policy"), PRIVATE).expect("written");
    index.ok(&["gems", "mirror"]);
    assert!(
        verify_output(&index).starts_with("sound: 1 gem, 1 release"),
        "{}",
        verify_output(&index)
    );
    // From elsewhere: what was in force last.
    let (elsewhere, data) = (site(""), index.path().join("data"));
    let shown = elsewhere.shown(&["gems", "mirror", &url, "--data-dir", text(&data)]);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert!(shown.contains("using the policy that was last used for this index"), "{shown}");
    assert!(
        verify_output(&index).starts_with("sound: 1 gem, 1 release"),
        "{}",
        verify_output(&index)
    );
    // Here, and by the file's name: that of the settings.
    for more in [&["--data-dir", "data"][..], &["--config", "weir.toml", "--data-dir", "data"]] {
        let shown = index.shown(&[&["gems", "mirror", &url][..], more].concat());
        assert!(shown.contains("one: nothing new") && !shown.contains("last used"), "{shown}");
    }
    let other = ["gems", "mirror", "http://127.0.0.1:1", "--data-dir", "data"];
    let shown = index.shown(&other);
    assert!(shown.contains("is not in gems.mirror.upstreams"), "{shown}");
    index.write("nonsense");
    let shown = index.shown(&other);
    assert!(
        shown.starts_with("exit: 2\n") && shown.contains("may contain the policy of"),
        "{shown}"
    );
    assert!(upstream.stop().success());
}

#[test]
fn index_with_own_gems_requires_a_policy() {
    let (upstream, url) = upstream();
    let index = site(GEMS);
    import(&index, &line("ours", &["1.0"]));
    let mirror = |more: &[&str]| index.shown(&[&["gems", "mirror", &url][..], more].concat());
    insta::assert_snapshot!(mirror(&[]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: the index has gems of your own (ours), but no policy that says which names never come from an upstream. Write a policy and name it with --policy FILE, for example with the line `private acme-*`, or with the line `none` if all other names may come from upstreams
    ");
    assert!(
        verify_output(&index).starts_with("sound: 1 gem, 1 release"),
        "{}",
        verify_output(&index)
    );
    std::fs::write(index.path().join("empty"), "").expect("written");
    for file in ["none", "empty", "/dev/zero"] {
        let shown = mirror(&["--policy", file]);
        let expected = format!("exit: 2\n-- stdout\n-- stderr\nerror: --policy {file}: ");
        assert!(shown.starts_with(&expected), "{shown}");
    }
    std::fs::write(index.path().join("policy"), PRIVATE).expect("written");
    let shown = mirror(&["--policy", "policy"]);
    assert!(shown.contains("2 names at the upstream, 1 of them rejected"), "{shown}");
    assert!(
        verify_output(&index).starts_with("sound: 2 gems, 2 releases"),
        "{}",
        verify_output(&index)
    );
    // It is kept.
    import(&upstream.site, &(line("acme-api", &["9.9"]) + &line("rake", &["1.0"])));
    assert!(mirror(&[]).contains("4 names at the upstream, 2 of them rejected"), "{}", mirror(&[]));
    assert!(
        verify_output(&index).starts_with("sound: 3 gems, 3 releases"),
        "{}",
        verify_output(&index)
    );
    assert!(upstream.stop().success());
    // What fails is told on standard error, and advises nothing.
    let shown = mirror(&[]);
    assert!(shown.starts_with("exit: 2\n-- stdout\n-- stderr\n"), "{shown}");
    assert!(shown.contains("cannot connect") && !shown.contains("add to weir.toml"), "{shown}");
}

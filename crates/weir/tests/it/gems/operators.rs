//! What operators find, do and check.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{GEMS, client, import, line, site};
use crate::http::get;
use crate::weir::Site;

#[test]
fn operators_can_find_yank_and_verify_releases() {
    let weir = site(GEMS).start();
    let lines = line("rack", &["1.0", "2.0"]) + &line("Rake", &["13.0"]) + &line("erb", &["1"]);
    import(&weir.site, &lines);
    assert_eq!(weir.site.ok(&["gems", "list", "--search", "RA"]), "Rake\nrack\n");
    assert_eq!(weir.site.ok(&["gems", "list", "--limit", "2"]), "Rake\nerb\n");
    insta::assert_snapshot!(weir.site.shown(&["gems", "info", "rack"]), @r"
    exit: 0
    -- stdout
    VERSION  PLATFORM  FILE       SHA256        NEEDS
    2.0      ruby      elsewhere  abababababab  rake (>= 13)
    1.0      ruby      elsewhere  abababababab  rake (>= 13)
    -- stderr
    2 of 2
    ");
    insta::assert_snapshot!(weir.site.shown(&["gems", "yank", "rack", "1.0"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: Yank rack 1.0 (ruby)? It can't be pushed again. Standard input is no terminal: confirm with --yes
    ");
    weir.site.ok(&["gems", "yank", "rack", "1.0", "--yes"]);
    insta::assert_snapshot!(weir.site.shown(&["gems", "yank", "rack", "1.0", "--yes"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: The version 1.0 has already been yanked.
    ");
    insta::assert_snapshot!(weir.site.shown(&["gems", "yank", "rack", "3", "--yes"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: The version 3 does not exist. (`weir gems info NAME` lists what there is)
    ");
    let nobody = weir.site.shown(&["gems", "yank", "nope", "1", "--yes"]);
    let unknown = weir.site.shown(&["gems", "info", "nope"]);
    for told in [nobody, unknown] {
        assert!(told.contains("(`weir gems list --search TEXT` finds names; "), "{told}");
    }
    let before = get(weir.gems(), "/versions", "").1;
    assert_eq!(before.lines().count(), 6, "a line for the yank: {before}");
    weir.site.ok(&["gems", "rebaseline"]);
    assert_eq!(get(weir.gems(), "/versions", "").1.lines().count(), 5);
    insta::assert_snapshot!(weir.site.shown(&["gems", "verify"]), @r"
    exit: 0
    -- stdout
    sound: 3 gems, 3 releases
    -- stderr
    ");
    let site = weir.end();
    // The store needs no Weir.
    let sound: serde_json::Value =
        serde_json::from_str(&site.ok(&["gems", "verify", "--fix", "--json"])).expect("JSON");
    assert_eq!((&sound["gems"], &sound["is_fixed"]), (&3.into(), &false.into()));
    // As many as there are in lists.
    let weir = site.start();
    weir.site.ok(&["gems", "yank", "erb", "1", "--yes"]);
    assert_eq!(weir.site.ok(&["gems", "list"]), "Rake\nrack\n");
    let told = weir.site.ok(&["gems", "verify"]);
    assert_eq!(
        told,
        "sound: 2 gems, 2 releases; 1 more name without a release that is not yanked\n"
    );
    assert!(weir.stop().success());
}

#[test]
fn missing_files_are_reported() {
    let weir = site(GEMS).start();
    client::push(weir.gems(), &client::key(&weir), "shop", "1.0");
    import(&weir.site, &(line("rack", &["1.0", "2.0", "3.0"]) + &line("rake", &["13.0"])));
    let (status, told) = get(weir.gems(), "/gems/rack-2.0.gem", "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(told.starts_with("the file of rack-2.0 is not here, though "), "{told}");
    let (_, unknown) = get(weir.gems(), "/gems/rack-9.0.gem", "");
    assert_eq!(unknown, "there is no release \"rack-9.0\" here\n");
    insta::assert_snapshot!(weir.site.shown(&["gems", "verify", "--files"]), @r"
    exit: 0
    -- stdout
    sound: 3 gems, 5 releases
    sound: 1 file
    not here: 4 files of imported releases (rack-1.0, rack-2.0, rack-3.0 and 1 more); clients get 404 unless gems.files_url is set to their address
    -- stderr
    ");
    let folder = weir.data_dir().join("gems/files");
    let file = files_below(&folder).pop().expect("a file");
    std::fs::write(file, "damaged").expect("written");
    let shown = weir.site.shown(&["gems", "verify", "--files"]);
    assert!(shown.starts_with("exit: 1\n"), "{shown}");
    let shown = weir.site.shown(&["gems", "verify", "--files", "--fix"]);
    assert!(shown.starts_with("exit: 2\n") && shown.contains("from a backup"), "{shown}");
    assert!(weir.stop().success());
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let (folders, mut files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| files_below(folder)));
    files.retain(|file| file.extension().is_some_and(|it| it == "gem"));
    files
}

#[test]
fn invalid_line_aborts_an_import() {
    let site = site(GEMS);
    let text = line("rack", &["1.0"]) + "{\"name\":\"b c\",\"versions\":[]}\n" + &line("d", &["1"]);
    std::fs::write(site.path().join("gems.jsonl"), text).expect("written");
    insta::assert_snapshot!(site.shown(&["gems", "import", "gems.jsonl"]), @r#"
    exit: 2
    -- stdout
    1 release imported, 1 new gem; 0 existed already
    -- stderr
    error: line 2: the name "b c" has ' '; letters, digits, '-', '_' and '.' are allowed; the gems before it are imported. Correct the line and import the file again; releases that exist already are unchanged
    "#);
    let mode = std::fs::metadata(site.path().join("data")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "as weir up makes it");

    let elsewhere = Site::new("");
    insta::assert_snapshot!(elsewhere.shown(&["gems", "import", "gems.jsonl"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: gems are not enabled: add a table [gems] to weir.toml, or name a data_dir with --data-dir
    ");
    insta::assert_snapshot!(elsewhere.shown(&["gems", "verify", "--data-dir", "data"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: there is no gem index at data/gems/index.db; name its data_dir with --data-dir or --config
    ");
}

//! docs/reference says what the code does.

use crate::weir::Site;

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/reference/{name}.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_settings_page_is_up_to_date() {
    let fresh = Site::new("").ok(&["reference", "settings"]);
    assert!(page("settings") == fresh, "docs/reference/settings.md is out of date: make docs");
}

#[test]
fn the_command_line_page_is_up_to_date() {
    let fresh = Site::new("").ok(&["reference", "cli"]);
    assert!(page("cli") == fresh, "docs/reference/cli.md is out of date: make docs");
}

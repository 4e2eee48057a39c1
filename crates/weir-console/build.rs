//! Makes the folder of the browser bundle, so that a build without the bundle works, and builds
//! again when the bundle changes.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    std::fs::create_dir_all(Path::new(&root).join("assets"))?;
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=assets");
    Ok(())
}

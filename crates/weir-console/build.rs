//! Takes the browser bundle into the build, or empty files instead of it, so that a build without the bundle works.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    let (root, out) = (variable("CARGO_MANIFEST_DIR"), variable("OUT_DIR"));
    let assets = Path::new(&root).join("assets");
    std::fs::create_dir_all(&assets)?;
    for name in ["app.js", "app.css"] {
        let content = match std::fs::read(assets.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            content => content.unwrap_or_default(),
        };
        std::fs::write(Path::new(&out).join(name), content)?;
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=assets");
    Ok(())
}

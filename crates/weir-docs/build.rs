//! Packs docs/ into one compressed file. `src/pack.rs` reads it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Pages, and pictures that they may show.
const PACKED: [&str; 3] = ["md", "svg", "png"];

fn main() -> io::Result<()> {
    let variable = |name| PathBuf::from(std::env::var_os(name).unwrap_or_default());
    let docs = variable("CARGO_MANIFEST_DIR").join("../../docs");
    let mut files = Vec::new();
    collect(&docs, &mut files)?;
    files.sort();
    let pack = File::create(variable("OUT_DIR").join("docs.pack"))?;
    let mut pack = ZlibEncoder::new(pack, Compression::best());
    for file in files {
        let content = fs::read(&file)?;
        let path = file.strip_prefix(&docs).map_err(io::Error::other)?;
        writeln!(pack, "{} {}", path.display(), content.len())?;
        pack.write_all(&content)?;
    }
    pack.finish()?;
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", docs.display());
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if PACKED.iter().any(|it| path.extension().is_some_and(|other| other == *it)) {
            files.push(path);
        }
    }
    Ok(())
}

//! Compresses the OpenAPI document for `GET /v1/openapi.json`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() -> io::Result<()> {
    let variable = |name| PathBuf::from(std::env::var_os(name).unwrap_or_default());
    let document = variable("CARGO_MANIFEST_DIR").join("../../docs/reference/openapi.json");
    let packed = File::create(variable("OUT_DIR").join("openapi.json.z"))?;
    let mut packed = ZlibEncoder::new(packed, Compression::best());
    packed.write_all(&fs::read(&document)?)?;
    packed.finish()?;
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", document.display());
    Ok(())
}

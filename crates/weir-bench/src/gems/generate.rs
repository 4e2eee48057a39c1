//! An index of the size and shape of rubygems.org's: the same file for the same seed.
//!
//! Versions of a gem are lognormal (median 3.5, sigma 1.45, at most 1,500); 35 % of the gems have no dependencies, the
//! others one and an exponential number more (mean 2.2), of gems that are the more likely the lower their number.
//! Checksums are those of nothing: the gems have no files.

use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use sha2::{Digest, Sha256};

const GEMS_MAX: u32 = 10_000_000;
const BUFFER_BYTES: usize = 1 << 20;
const VERSIONS_MEDIAN: f64 = 3.5;
const VERSIONS_SIGMA: f64 = 1.45;
const VERSIONS_MAX: f64 = 1_500.0;
const SHARE_WITHOUT_DEPENDENCIES: f64 = 0.35;
const MORE_DEPENDENCIES_MEAN: f64 = 2.2;
/// Exponent that favours gems of a low number as dependencies.
const POPULARITY: i32 = 6;
/// Number of consecutive versions with the same dependencies.
const VERSIONS_ALIKE: u32 = 5;

/// Writes `gems` lines to `file`; `-` is standard output.
pub(crate) fn run(file: &Path, gems: u32, seed: u64) -> Result<()> {
    ensure!((1..=GEMS_MAX).contains(&gems), "--gems {gems}: must be between 1 and {GEMS_MAX}");
    if file == Path::new("-") {
        return write(std::io::stdout().lock(), gems, seed);
    }
    let file_name = || file.display().to_string();
    let out = File::create(file).with_context(file_name)?;
    write(out, gems, seed).with_context(file_name)
}

fn write(out: impl Write, gems: u32, seed: u64) -> Result<()> {
    let mut random = Rng::with_seed(seed);
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    for gem in 0..gems {
        out.write_all(gem_line(&mut random, gem, gems).as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

fn gem_line(random: &mut Rng, gem: u32, gems: u32) -> String {
    let versions = VERSIONS_MEDIAN * (VERSIONS_SIGMA * random_normal(random)).exp();
    let versions = to_u32(versions.clamp(1.0, VERSIONS_MAX).round());
    let has_none = random.f64() < SHARE_WITHOUT_DEPENDENCIES;
    let more = -MORE_DEPENDENCIES_MEAN * (1.0 - random.f64()).ln();
    let count = if has_none { 0 } else { to_u32(1.0 + more) };
    let mut text = format!("{{\"name\":\"{}\",\"versions\":[", gem_name(gem));
    let mut dependencies = String::new();
    for version in 0..versions {
        if version % VERSIONS_ALIKE == 0 {
            dependencies = dependency_list(random, count, gems);
        }
        if version > 0 {
            text.push(',');
        }
        push_version(&mut text, gem, version, &dependencies);
    }
    text + "]}\n"
}

fn push_version(text: &mut String, gem: u32, version: u32, dependencies: &str) {
    let (major, minor, patch) = (version / 50, version / 5 % 10, version % 5);
    let sha256 = hex::encode(Sha256::digest(format!("{gem} {version}")));
    let year = 2010 + version / 100;
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "{{\"number\":\"{major}.{minor}.{patch}\",\"sha256\":\"{sha256}\",\
         \"dependencies\":[{dependencies}],\"ruby\":\">= 2.7.0\",\
         \"created_at\":\"{year}-01-02T00:00:00Z\"}}"
    );
}

/// Returns a list like `["rack-rack0",">= 0.0"],..`, in the order of the gems.
fn dependency_list(random: &mut Rng, count: u32, gems: u32) -> String {
    let draw = |_| to_u32(f64::from(gems) * random.f64().powi(POPULARITY));
    let mut chosen: Vec<u32> = (0..count).map(draw).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let all = chosen.iter().map(|gem| format!("[\"{}\",\">= {}.0\"]", gem_name(*gem), gem % 7));
    all.collect::<Vec<_>>().join(",")
}

fn gem_name(gem: u32) -> String {
    const WORDS: [&str; 8] =
        ["rack", "active", "rspec", "simple", "fast", "cloud", "logger", "omniauth"];
    format!("{}-{}{gem}", WORDS[gem as usize % 8], WORDS[gem as usize / 8 % 8])
}

/// Returns a normally distributed number (Box-Muller transform).
fn random_normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn to_u32(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn generated(gems: u32, seed: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, gems, seed).expect("written");
        out
    }

    #[test]
    fn index_is_determined_by_the_seed() {
        assert_eq!(generated(50, 1), generated(50, 1));
        assert_ne!(generated(50, 1), generated(50, 2));
    }

    #[test]
    fn index_has_the_shape_of_rubygems_org() {
        let text = String::from_utf8(generated(5_000, 1)).expect("text");
        let gems: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(gems.len(), 5_000);
        let versions: usize =
            gems.iter().map(|gem| gem["versions"].as_array().map_or(0, Vec::len)).sum();
        // 3.5 exp(1.45^2 / 2) = 10.0 on average.
        assert!((40_000..60_000).contains(&versions), "{versions}");
        let has_none = |gem: &&Value| gem["versions"][0]["dependencies"] == Value::Array(vec![]);
        let none = gems.iter().filter(has_none).count();
        assert!((1_600..1_900).contains(&none), "{none} of 5,000 without dependencies");
        let names: Vec<&str> = gems.iter().filter_map(|gem| gem["name"].as_str()).collect();
        for dependency in gems[4_999]["versions"][0]["dependencies"].as_array().expect("a list") {
            assert!(names.contains(&dependency[0].as_str().expect("a name")));
        }
    }
}

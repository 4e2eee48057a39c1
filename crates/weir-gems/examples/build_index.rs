//! An index of real size: for profiles, and to see times and memory.
//!
//! `build_index generate GEMS > FILE` writes releases as JSON lines, always the same;
//! `build_index import FILE DATABASE` adds them to a store; `build_index verify DATABASE` computes
//! everything that follows from the releases anew and compares, `build_index fix DATABASE` also
//! writes what differs. DATABASE is a file of SQLite, or `postgres://..`. Each says how long it took,
//! and how much memory was used at most.

#![expect(clippy::print_stdout, reason = "a tool at a terminal")]
#![expect(clippy::unwrap_used, reason = "a tool at a terminal")]

use std::fs::{File, read_to_string};
use std::io::{BufReader, BufWriter, Write};

use sha2::{Digest, Sha256};
use weir_base::clock::{Clock, Timestamp};
use weir_gems::import_file::{ImportFile, ImportLimits};
use weir_gems::store::{
    PostgresMetrics, PostgresSettings, PostgresStore, Repair, SqliteSettings, SqliteStore, Store,
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let clock = Clock::system();
    let start = clock.now();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["generate", gems] => return generate(gems.parse().unwrap()),
        [rest @ .., database] if database.starts_with("postgres") => {
            let settings = PostgresSettings::new(database.parse().unwrap());
            let metrics = PostgresMetrics::default();
            run(PostgresStore::open(&settings, clock.clone(), metrics).unwrap(), rest, start).await;
        }
        [rest @ .., database] => {
            run(SqliteStore::open(&SqliteSettings::new(database), start).unwrap(), rest, start)
                .await;
        }
        [] => run_nothing(),
    }
    let status = read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{:.1} s, {peak}", clock.now().since(start).as_secs_f64());
}

async fn run(store: impl Store, arguments: &[&str], start: Timestamp) {
    match arguments {
        ["import", file] => {
            let input = BufReader::with_capacity(1 << 20, File::open(file).unwrap());
            let gems = ImportFile::new(input, ImportLimits::default(), start);
            let gems = gems.map(|gem| gem.unwrap());
            println!("{:?}", store.import(gems, start).await.unwrap());
        }
        ["verify"] => println!("{:?}", store.verify(Repair::Leave, start).await.unwrap()),
        ["fix"] => println!("{:?}", store.verify(Repair::Fix, start).await.unwrap()),
        _ => run_nothing(),
    }
}

fn run_nothing() {
    println!("generate GEMS | import FILE DATABASE | verify DATABASE | fix DATABASE");
}

/// Versions per gem are lognormal (median 3.5, sigma 1.45, at most 1,500), 35 % have no
/// dependencies, the others 1 + exponential (mean 2.2) on gems of low rank.
fn generate(gems: u32) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    for gem in 0..gems {
        let versions = (3.5 * (1.45 * normal(&mut random)).exp()).clamp(1.0, 1_500.0).round();
        let has_none = random.f64() < 0.35;
        let count = 1.0 - 2.2 * (1.0 - random.f64()).ln();
        let mut rows = Vec::new();
        let mut dependencies = String::new();
        for version in 0..whole(versions) {
            if version % 5 == 0 {
                let count = if has_none { 0 } else { whole(count) };
                dependencies = list(&mut random, count, gems);
            }
            let sum = hex::encode(Sha256::digest(format!("{gem} {version}")));
            rows.push(format!(
                "{{\"number\":\"{}.{}.{}\",\"sha256\":\"{sum}\",\"dependencies\":[{dependencies}],\
                 \"ruby\":\">= 2.7.0\",\"created_at\":\"20{:02}-01-02T00:00:00Z\"}}",
                version / 50,
                version / 5 % 10,
                version % 5,
                10 + version / 100
            ));
        }
        writeln!(out, "{{\"name\":\"{}\",\"versions\":[{}]}}", name(gem), rows.join(",")).unwrap();
    }
}

fn list(random: &mut fastrand::Rng, count: u32, gems: u32) -> String {
    let mut ranks: Vec<u32> =
        (0..count).map(|_| whole(f64::from(gems) * random.f64().powi(6))).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let all = ranks.iter().map(|rank| format!("[\"{}\",\">= {}.0\"]", name(*rank), rank % 7));
    all.collect::<Vec<_>>().join(",")
}

fn name(gem: u32) -> String {
    const WORDS: [&str; 8] =
        ["rack", "active", "rspec", "simple", "fast", "cloud", "logger", "omniauth"];
    format!("{}-{}{gem}", WORDS[gem as usize % 8], WORDS[gem as usize / 8 % 8])
}

/// Box and Muller.
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn whole(number: f64) -> u32 {
    number as u32
}

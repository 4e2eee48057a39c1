//! Builds the Rust tests and runs their executables, as many at once as there are cores. `cargo test` runs one after
//! the other, and most tests wait for servers and clocks.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// A message of `cargo --message-format=json`; only those of executables have all members.
#[derive(Debug, Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug)]
struct Executable {
    path: PathBuf,
    /// Its crate: tests find their files from there.
    folder: PathBuf,
}

impl Executable {
    /// Returns whether its tests start the whole product.
    fn is_of_product(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        self.folder.ends_with("crates/weir") && name.is_some_and(|name| name.starts_with("it-"))
    }
}

/// Prints the output of every executable and returns whether all tests passed.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let mut executables = build(root)?;
    // The last one is taken first. The largest have the most tests.
    executables.sort_by_key(|it| {
        (it.is_of_product(), fs::metadata(&it.path).map_or(0, |metadata| metadata.len()))
    });
    let waiting = Mutex::new(executables);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let libraries = libraries(root)?;
    let work = || {
        let mut passed = true;
        while let Some(executable) = next() {
            passed &= execute(&executable, &libraries)?;
        }
        anyhow::Ok(passed)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(work)).collect();
        let mut passed = true;
        for thread in threads {
            passed &= thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(passed)
    })
}

fn build(root: &Path) -> anyhow::Result<Vec<Executable>> {
    let output = Command::new("cargo")
        .args(["test", "--workspace", "--locked", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo test")?;
    ensure!(output.status.success(), "the tests do not compile");
    parse(&String::from_utf8(output.stdout)?)
}

fn parse(messages: &str) -> anyhow::Result<Vec<Executable>> {
    let mut executables = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("a message of cargo")?;
        if let Message { executable: Some(path), manifest_path: Some(manifest), profile } = message
            && profile.is_some_and(|profile| profile.test)
        {
            let folder = manifest.parent().context("a manifest without a folder")?.to_owned();
            executables.push(Executable { path, folder });
        }
    }
    Ok(executables)
}

/// Returns the folder of the compiler's libraries, which tests of procedural macros load.
fn libraries(root: &Path) -> anyhow::Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .current_dir(root)
        .output()
        .context("rustc")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn execute(executable: &Executable, libraries: &Path) -> anyhow::Result<bool> {
    let Executable { path, folder } = executable;
    let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = [libraries.to_owned()].into_iter().chain(env::split_paths(&others));
    let output = Command::new(path)
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .env("LD_LIBRARY_PATH", env::join_paths(folders)?)
        .env("RUST_TEST_THREADS", tests_at_once(executable))
        .stdin(Stdio::null())
        .output()
        .with_context(|| path.display().to_string())?;
    print(path, &output);
    Ok(output.status.success())
}

/// Returns how many tests of an executable run at once. Those of the whole product take longer than all others together,
/// and most of them wait for servers and clocks: half as many more as there are cores.
fn tests_at_once(executable: &Executable) -> OsString {
    let threads = if executable.is_of_product() { (cores() * 3).div_ceil(2) } else { cores() };
    env::var_os("RUST_TEST_THREADS").unwrap_or_else(|| threads.to_string().into())
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Prints everything at once, because several executables run.
fn print(path: &Path, Output { status, stdout, stderr }: &Output) {
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes));
    println!("     Running {}\n{stdout}{stderr}", path.display());
    if !status.success() && !stdout.contains("test result: FAILED") {
        println!("test result: FAILED. 0 passed; 1 failed; {status}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executables_of_tests_are_listed() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","profile":{"test":true},"executable":"/t/a-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/b/Cargo.toml","profile":{"test":false},"executable":"/t/b"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/c/Cargo.toml","profile":{"test":true},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let executables = parse(messages).unwrap();
        assert_eq!(executables.len(), 1);
        assert_eq!(executables[0].path, Path::new("/t/a-1"));
        assert_eq!(executables[0].folder, Path::new("/a"));
        assert!(!executables[0].is_of_product());
        let product =
            |path: &str| Executable { path: path.into(), folder: "/r/crates/weir".into() };
        assert!(product("/t/it-1").is_of_product() && !product("/t/weir-1").is_of_product());
    }
}

//! `weir-bench forecasts`: runs that cannot be made.

use std::process::Command;

fn run(flags: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    let output = command.arg("forecasts").args(flags).output().expect("weir-bench runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn impossible_runs_are_refused() {
    let (code, stderr) = run(&["--rounds", "0", "--sidekiq-rounds", "0"]);
    assert!(code == Some(2) && stderr.contains("there is nothing to measure"), "{stderr}");
    let (code, stderr) = run(&["--within-min", "1.5"]);
    assert!(code == Some(2) && stderr.contains("--within-min 1.5"), "{stderr}");
    let (code, stderr) = run(&["--weir", "/nowhere/weir"]);
    assert!(code == Some(2) && stderr.contains("starting /nowhere/weir (--weir)"), "{stderr}");
}

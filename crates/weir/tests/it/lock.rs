use std::os::unix::fs::PermissionsExt;

use crate::process::output_of;
use crate::weir::{Weir, program};

#[test]
fn second_weir_is_rejected_with_the_owners_pid() {
    let weir = Weir::start();
    let second = weir.site.run(&["up"]);
    assert_eq!(second.status.code(), Some(2));
    let error = String::from_utf8_lossy(&second.stderr);
    let pid = weir.pid().as_raw_nonzero();
    assert!(error.contains(&format!("is in use by pid {pid}; stop that process")), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn data_dir_and_socket_are_private() {
    let weir = Weir::start();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(mode(&weir.data_dir()), 0o700);
    assert_eq!(mode(&weir.data_dir().join("weir.sock")), 0o600);
    assert!(weir.stop().success());
}

#[test]
fn long_data_dir_path_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("a-long-name/".repeat(12));
    let site = crate::weir::Site::new("");
    let deep = deep.to_str().expect("text").to_owned();
    let weir = site.start_with(|command| {
        command.args(["--data-dir", &deep]);
    });
    let status = output_of(program().args(["status", "--data-dir", &deep]));
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(weir.stop().success());
}

#[test]
fn unusable_data_dir_is_named_with_its_whole_path() {
    let site = crate::weir::Site::new("");
    std::fs::write(site.path().join("file"), "").expect("written");
    let output = site.run(&["up", "--data-dir", "file/data"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let path = site.path().join("file/data").display().to_string();
    assert!(error.contains(&path) && error.contains("with --data-dir or data_dir"), "{error}");
}

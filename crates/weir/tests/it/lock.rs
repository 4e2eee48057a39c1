use std::os::unix::fs::PermissionsExt;

use crate::weir::{Weir, program};

#[test]
fn a_second_weir_is_kept_off_the_folder_and_told_who_has_it() {
    let weir = Weir::start();
    let second = weir.site.run(&["up"]);
    assert_eq!(second.status.code(), Some(2));
    let error = String::from_utf8_lossy(&second.stderr);
    let pid = weir.pid().as_raw_nonzero();
    assert!(error.contains(&format!("is in use by pid {pid}; stop it")), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn the_folder_and_the_socket_are_for_this_user_alone() {
    let weir = Weir::start();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(mode(&weir.data_dir()), 0o700);
    assert_eq!(mode(&weir.data_dir().join("weir.sock")), 0o600);
    assert!(weir.stop().success());
}

#[test]
fn a_data_folder_with_a_long_path_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("a-long-name/".repeat(12));
    let site = crate::weir::Site::new("");
    let deep = deep.to_str().expect("text").to_owned();
    let weir = site.start_with(|command| {
        command.args(["--data-dir", &deep]);
    });
    let status = program().args(["status", "--data-dir", &deep]).output().expect("runs");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(weir.stop().success());
}

#[test]
fn a_damaged_store_stops_the_start_and_salvage_keeps_what_holds() {
    let site = crate::weir::Site::new("");
    // A small segment: an unoptimised build looks at every byte of a damaged one slowly.
    site.write(
        "[jobs]\nlisten = \"127.0.0.1:0\"\n[jobs.limits]\nsegment_bytes = \"2MiB\"\nreserve_bytes = \"1MiB\"\n\
         [console]\nlisten = \"127.0.0.1:0\"\n",
    );
    let weir = site.start();
    for jid in ["it-job-0001", "it-job-0002", "it-job-0003"] {
        weir.site.ok(&["jobs", "push", "Hello", "[\"a payload to be found\"]", "--jid", jid]);
    }
    let site = weir.kill_parent();
    damage_second(&site.path().join("data/jobs"), b"it-job-0002");
    let refused = crate::weir::program().current_dir(site.path()).arg("up").output().expect("runs");
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("is damaged at offset") && error.contains("--salvage"), "{error}");

    let weir = site.start_with(|command| {
        command.arg("--salvage");
    });
    let jobs = weir.site.ok(&["jobs", "list", "default"]);
    assert!(jobs.contains("it-job-0001") && jobs.contains("it-job-0003"), "{jobs}");
    assert!(!jobs.contains("it-job-0002"), "{jobs}");
    assert!(weir.stop().success());
}

/// Flips a bit of the record that holds `text`, once the service has let go of the folder.
fn damage_second(folder: &std::path::Path, text: &[u8]) {
    let lock = folder.parent().expect("data_dir").join("weir.lock");
    let lock = std::fs::File::open(lock).expect("a lock file");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let mut bytes = std::fs::read(&path).expect("a file");
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text) {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).expect("written");
            return;
        }
    }
    panic!("no file holds the record");
}

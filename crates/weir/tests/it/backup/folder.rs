//! The folder of backups: what is deleted from it, which users may write to it, and what is not
//! taken from the data directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use super::refused::{JIDS, backed_up, error_of};
use super::{run_json, text};
use crate::process::output_of;
use crate::weir::program;

/// A user other than root, which need not exist.
const USER: u32 = 12_345;

/// A part that fails to be served must not make `--keep` delete the last backup of it.
#[test]
fn the_last_backup_with_jobs_is_not_deleted() {
    let (site, backups, first) = backed_up();
    let first = first.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
    fs::rename(site.path().join("data/jobs"), site.path().join("away")).expect("moved");
    let keep = ["backup", text(backups.path()), "--keep", "1"];
    let names =
        |made: &serde_json::Value| (made["deleted"].to_string(), made["not_deleted"].to_string());
    let (deleted, left) = names(&run_json(site.path(), &keep));
    assert_eq!(deleted, "[]");
    assert!(left.contains(&first) && left.contains("no later one has jobs"), "{left}");
    // A later backup of all parts makes both superfluous.
    fs::rename(site.path().join("away"), site.path().join("data/jobs")).expect("moved");
    let (deleted, left) = names(&run_json(site.path(), &keep));
    assert!(deleted.contains(&first) && left == "[]", "{deleted}, {left}");
    assert_eq!(super::restored_jids(backups.path(), &[]), JIDS.map(str::to_owned).into());
}

/// The older folder of a clock that was ahead has the later name.
#[test]
fn the_newest_backup_is_the_last_that_was_made() {
    let (site, backups, first) = backed_up();
    fs::rename(&first, backups.path().join("2999-01-01T00-00-00Z")).expect("renamed");
    let weir = site.start();
    weir.site.ok(&["jobs", "push", "Hello", "[]", "--jid", "it-job-0004"]);
    weir.site.ok(&["backup", text(backups.path())]);
    assert!(weir.stop().success());
    assert_eq!(super::restored_jids(backups.path(), &[]).len(), JIDS.len() + 1);
}

#[test]
fn only_the_user_can_read_a_backup() {
    let (site, backups, _) = backed_up();
    fs::set_permissions(backups.path(), fs::Permissions::from_mode(0o755)).expect("changed");
    let second = format!(
        "umask 022; exec {} backup {}",
        text(Path::new(program().get_program())),
        text(backups.path())
    );
    let mut shell = std::process::Command::new("bash");
    assert!(output_of(shell.current_dir(site.path()).args(["-c", &second])).status.success());
    let mut folders = vec![backups.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry")) {
            let mode = entry.metadata().expect("metadata").mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            files += 1;
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(files > 4, "{files}");
}

/// Files of root would make all backups of that user fail. Needs root.
#[test]
fn root_makes_no_backup_in_a_folder_of_another_user() {
    let (site, backups, backup) = backed_up();
    if fs::metadata(&backup).expect("metadata").uid() != 0 {
        return;
    }
    chown(backups.path(), Some(USER), Some(USER)).expect("changed");
    let error = error_of(&site, &["backup", text(backups.path())], 2);
    assert!(error.contains("belongs to another user"), "{error}");
    assert!(error.contains(&format!("setpriv --reuid {USER}")), "{error}");
    let left = fs::read_dir(backups.path()).expect("a folder").count();
    assert_eq!(left, 3, "the backup and two locks");
}

/// What an earlier version or a person left there, and this user can't delete. Needs root.
#[test]
fn a_leftover_that_cannot_be_deleted_does_not_stop_backups() {
    let (_, backups, backup) = backed_up();
    if fs::metadata(&backup).expect("metadata").uid() != 0 {
        return;
    }
    let data = tempfile::tempdir().expect("a folder");
    let leftover = backups.path().join(".pruned-old/data");
    fs::create_dir_all(&leftover).expect("made");
    fs::write(leftover.join("file"), "").expect("written");
    for path in
        [data.path(), backups.path(), &backups.path().join("lock"), &backups.path().join("readers")]
    {
        chown(path, Some(USER), Some(USER)).expect("changed");
    }
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups"]);
    command.arg(program().get_program()).current_dir(data.path());
    let output =
        output_of(command.args(["backup", text(backups.path()), "--data-dir", text(data.path())]));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    assert!(error.contains("warning: cannot delete"), "{error}");
}

/// A symbolic link of the service's user must not put a file of root into a backup.
#[test]
fn symbolic_links_in_data_dir_are_not_followed() {
    let (site, backups, _) = backed_up();
    site.write_file("secret", b"a secret");
    symlink(site.path().join("secret"), site.path().join("data/jobs/damaged.log")).expect("linked");
    let error = error_of(&site, &["backup", text(backups.path())], 2);
    assert!(error.contains("damaged.log: it is a symbolic link"), "{error}");
}

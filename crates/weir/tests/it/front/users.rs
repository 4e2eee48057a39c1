//! Workers that run as another user.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::BASE;
use super::processes::{APP, listed, serving, until};
use crate::weir::Site;

/// Says `READY=1` where it is told to, and stays.
const DIGGER: &str = "import os, socket, time; \
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', os.environ['NOTIFY_SOCKET']); \
    time.sleep(1000)";

#[test]
fn workers_of_another_user_reach_their_sockets_though_data_dir_is_closed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = Site::new("");
    // The app's own folder; Weir makes its data_dir in it by itself.
    std::fs::set_permissions(site.path(), Permissions::from_mode(0o755)).expect("set");
    std::fs::write(site.path().join("app.py"), APP).expect("written");
    let folder = site.path().display();
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\nuser = \"nobody\"\nfolder = \"{folder}\"\n\
         command = [\"python3\", \"app.py\", \"{{socket}}\"]\n\
         [workers.digger]\nuser = \"nobody\"\nready_notify = true\n\
         command = [\"python3\", \"-c\", \"{DIGGER}\"]\n"
    ));
    let weir = site.start();
    until(|| serving(&weir).len() == 1);
    let pid = *serving(&weir).first().expect("one");
    let owner = std::fs::metadata(format!("/proc/{pid}")).expect("it runs").uid();
    assert_ne!(owner, 0, "it is somebody else's process");
    until(|| weir.site.ok(&["workers", "list", "--json"]).contains("\"state\": \"running\""));
    let mode = std::fs::metadata(weir.data_dir()).expect("there").mode();
    assert_eq!(mode & 0o777, 0o700);
    let worker = &listed(&weir)["workers"][0];
    let socket = worker["address"].as_str().expect("an address").strip_prefix("unix:");
    let socket = std::path::PathBuf::from(socket.expect("a path"));
    let of_weir = socket.ancestors().nth(2).expect("a folder").to_owned();
    let of_group = std::fs::metadata(of_weir.join("shop")).expect("there");
    assert_eq!((of_group.mode() & 0o777, of_group.uid()), (0o700, owner));
    assert!(weir.stop().success());
    assert!(!of_weir.exists(), "nothing is left of it");
}

//! Workers that run as another user.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::BASE;
use super::processes::{APP, listed, serving_pids, wait_until_true};
use crate::weir::{Site, Weir};

/// Says `READY=1` where it is told to, and stays.
const DIGGER: &str = "import os, socket, time; \
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', os.environ['NOTIFY_SOCKET']); \
    time.sleep(1000)";

#[test]
fn workers_of_another_user_reach_their_sockets() {
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
    wait_until_true(|| serving_pids(&weir).len() == 1);
    let pid = *serving_pids(&weir).first().expect("one");
    let owner = std::fs::metadata(format!("/proc/{pid}")).expect("it runs").uid();
    assert_ne!(owner, 0, "it is somebody else's process");
    wait_until_true(|| {
        weir.site.ok(&["workers", "list", "--json"]).contains("\"state\": \"running\"")
    });
    let mode = std::fs::metadata(weir.data_dir()).expect("there").mode();
    assert_eq!(mode & 0o777, 0o700);
    let worker = &listed(&weir)["workers"][0];
    let socket = worker["address"].as_str().expect("an address").strip_prefix("unix:");
    let socket = PathBuf::from(socket.expect("a path"));
    let of_weir = socket.ancestors().nth(2).expect("a folder").to_owned();
    let of_group = std::fs::metadata(socket.parent().expect("a folder")).expect("there");
    assert_eq!((of_group.mode() & 0o777, of_group.uid()), (0o700, owner));
    assert!(weir.stop().success());
    assert!(!of_weir.exists(), "nothing is left of it");
}

/// Writes settings with two apps and a group of job workers. The workers of the group and of the first app run as
/// `user`.
fn write_settings(site: &Site, user: Option<&str>) {
    let folder = site.path().display();
    let user = user.map(|user| format!("user = \"{user}\"\n")).unwrap_or_default();
    let app = |name: &str, more: &str| {
        format!(
            "[[front.apps]]\nname = \"{name}\"\nhosts = [\"{name}\"]\nfolder = \"{folder}\"\n\
             command = [\"python3\", \"app.py\", \"{{socket}}\"]\n{more}"
        )
    };
    site.write(&format!(
        "{BASE}{}{}[workers.digger]\n{user}ready_notify = true\n\
         command = [\"python3\", \"-c\", \"{DIGGER}\"]\n",
        app("shop", &user),
        app("blog", "")
    ));
}

fn group_row(weir: &Weir, group: &str) -> Value {
    let all = weir.site.ok(&["workers", "list", "--json"]);
    let all: Value = serde_json::from_str(&all).expect("JSON");
    let rows = all.as_array().expect("a list");
    rows.iter().find(|row| row["name"] == group).expect("its row").clone()
}

/// Returns the pid and the user of the only process of a group.
fn process(weir: &Weir, group: &str) -> (i64, u32) {
    let pid = group_row(weir, group)["workers"][0]["pid"].as_i64().expect("a pid");
    (pid, std::fs::metadata(format!("/proc/{pid}")).expect("it runs").uid())
}

fn folder_of_socket(weir: &Weir, group: &str) -> PathBuf {
    let row = group_row(weir, group);
    let address = row["workers"][0]["address"].as_str().expect("an address");
    let socket = Path::new(address.strip_prefix("unix:").expect("a path"));
    assert!(socket.exists(), "{address} is gone");
    socket.parent().expect("a folder").to_owned()
}

#[test]
fn upgrade_changes_the_user_of_workers() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = Site::new("");
    std::fs::set_permissions(site.path(), Permissions::from_mode(0o755)).expect("set");
    std::fs::write(site.path().join("app.py"), APP).expect("written");
    write_settings(&site, None);
    let weir = site.start();
    let all_run = |weir: &Weir| {
        wait_until_true(|| {
            let is_up =
                |group| group_row(weir, group)["workers"][0]["state"].as_str().map(str::to_owned);
            ["shop", "blog", "digger"].map(is_up)
                == ["serving", "serving", "running"].map(|state| Some(state.to_owned()))
        });
    };
    all_run(&weir);
    let (mut users, mut folders) = (vec![process(&weir, "shop").1], Vec::new());
    for user in [Some("nobody"), Some("daemon"), None] {
        let (before, folder) = (process(&weir, "shop"), folder_of_socket(&weir, "shop"));
        write_settings(&weir.site, user);
        weir.site.ok(&["upgrade"]);
        assert_eq!(process(&weir, "shop"), before, "nobody is replaced by that");
        assert_eq!(folder_of_socket(&weir, "shop"), folder);
        let of_folder = std::fs::metadata(&folder).expect("it is still there");
        assert_eq!(of_folder.uid(), before.1, "its worker may still enter it");
        for group in ["shop", "blog", "digger"] {
            let before = process(&weir, group).0;
            weir.site.ok(&["workers", "restart", group]);
            wait_until_true(|| group_row(&weir, group)["rolling"] != "running (0 done)");
            assert_eq!(group_row(&weir, group)["rolling"], "finished", "{group} as {user:?}");
            assert_ne!(process(&weir, group).0, before);
        }
        all_run(&weir);
        assert_eq!(process(&weir, "blog").1, users[0]);
        assert_eq!(process(&weir, "shop").1, process(&weir, "digger").1);
        users.push(process(&weir, "shop").1);
        let of_weir = folder_of_socket(&weir, "blog").parent().expect("a folder").to_owned();
        folders.extend(user.map(|_| of_weir));
    }
    assert!(users[0] == users[3] && users[1] != users[0] && users[2] != users[1], "{users:?}");
    assert!(weir.stop().success());
    assert!(folders.iter().all(|folder| !folder.exists()), "something is left of {folders:?}");
}

use rustix::process::Signal;

use crate::faktory::Client;
use crate::weir::Site;

const BEFORE: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
                      [console]\nlisten = \"127.0.0.1:0\"\n";

#[test]
fn reload_applies_changes_and_lists_the_rest() {
    let site = Site::new("");
    site.write(BEFORE);
    let mut weir = site.start();
    let mut client = Client::connect(weir.jobs());
    assert_eq!(client.run_command("FLUSH").get(..4), Some("-ERR"));
    let after = "data_dir = \"elsewhere\"\n[jobs]\nlisten = \"127.0.0.1:1\"\nstore = \"memory\"\n\
                 fsync = \"never\"\nallow_flush = true\n[jobs.queues.pull]\nconcurrency = 2\n\
                 [console]\nlisten = \"127.0.0.1:0\"\npage_size = 1\n";
    // A mistake: nothing changes.
    weir.site.write(after);
    weir.signal(Signal::HUP);
    weir.wait_for_log("console.page_size is not a setting");
    assert_eq!(client.run_command("FLUSH").get(..4), Some("-ERR"));
    // Without it: what can change does.
    weir.site.write(&after.replace("page_size = 1\n", ""));
    weir.signal(Signal::HUP);
    let needs = [
        ("data_dir", "a stop and a start"),
        ("jobs.fsync", "`weir restart`"),
        ("jobs.listen", "`weir upgrade`"),
    ];
    for (setting, what) in needs {
        weir.wait_for_log(&format!("{setting} changed: needs {what}"));
    }
    weir.wait_for_log("settings reloaded");
    assert_eq!(client.run_command("FLUSH"), "+OK");
    assert!(weir.stop().success());
}

#[test]
fn reload_applies_a_new_password() {
    let site = Site::new("");
    let with_password =
        BEFORE.replace("[console]", "password = { file = \"password\" }\n[console]");
    std::fs::write(site.path().join("password"), "one").expect("written");
    site.write(&with_password);
    let mut weir = site.start();
    assert!(
        Client::connect_without_command(weir.jobs()).greeting.contains("\"s\":"),
        "a salt: a password is asked for"
    );
    weir.site.write(BEFORE);
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    Client::connect(weir.jobs());
    assert!(weir.stop().success());
}

#[test]
fn restarted_service_uses_the_last_valid_settings() {
    let site = Site::new("");
    site.write(BEFORE);
    let mut weir = site.start();
    weir.site.write(&BEFORE.replace("[console]", "allow_flush = true\n[console]"));
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    weir.site.write("not even TOML");
    let (killed, data_dir) = (weir.service(), weir.data_dir());
    rustix::process::kill_process(killed, Signal::KILL).expect("killed");
    weir.wait_for_log("restarting");
    let mut client = Client::connect(weir.jobs());
    assert_eq!(client.run_command("FLUSH"), "+OK");
    assert!(data_dir.exists());
    assert!(weir.stop().success());
}

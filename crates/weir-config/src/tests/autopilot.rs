use weir_autopilot::{ManagedSystem, Mode};

use super::*;

const DATABASE: &str = "[observe.postgres]\nurl = \"postgres://weir@127.0.0.1/app\"\n";

#[test]
fn the_autopilot_is_off_unless_it_is_set() {
    assert_eq!(settings("").autopilot.mode, Mode::Off);
    let set = settings(&format!("{DATABASE}[autopilot]\nmode = \"on\"\nmanage = [\"jobs\"]\n"));
    assert_eq!((set.autopilot.mode, set.autopilot.manage), (Mode::On, vec![ManagedSystem::Jobs]));
}

#[test]
fn it_needs_a_database_and_a_list_of_what_it_may_change() {
    let error = errors("[autopilot]\nmode = \"advise\"\n");
    assert!(error.contains("autopilot.mode: needs [observe.postgres]"), "{error}");
    // It is neither observed nor a place for the lease.
    let error = errors("[autopilot]\nmode = \"on\"\nmanage = [\"jobs\"]\n");
    assert!(error.contains("the lease that lets only one autopilot act"), "{error}");
    let error = errors(&format!("{DATABASE}[autopilot]\nmode = \"on\"\n"));
    assert!(error.contains("add manage = [\"jobs\"], or use mode = \"advise\""), "{error}");
    let error = errors(&format!("{DATABASE}[autopilot]\nmanage = [\"sidekiq\"]\n"));
    assert!(error.contains("\"sidekiq\" cannot be managed; \"jobs\" can"), "{error}");
}

#[test]
fn on_is_rejected_with_a_store_in_redis() {
    let redis = "[jobs]\nstore = { redis = [{ url = \"redis://127.0.0.1:6379/0\" }] }\n";
    let with = |mode: &str| {
        format!("{redis}{DATABASE}[autopilot]\nmode = \"{mode}\"\nmanage = [\"jobs\"]\n")
    };
    let error = errors(&with("on"));
    assert!(error.contains("\"on\" needs the embedded store"), "{error}");
    assert_eq!(settings(&with("advise")).autopilot.mode, Mode::Advise);
}

use weir_autopilot::{JobSystem, ManagedSystem, Mode};

use super::*;

const DATABASE: &str = "[observe.postgres]\nurl = \"postgres://weir@127.0.0.1/app\"\n";
const REDIS: &str = "[[observe.redis]]\nurl = \"redis://127.0.0.1:6379/0\"\n";
const SIDEKIQ: &str =
    "[workers.sidekiq]\ncommand = [\"sidekiq\", \"-c\", \"{concurrency}\"]\nconcurrency = 10\n";

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

#[test]
fn groups_of_workers_are_managed_if_their_threads_can_be_changed() {
    let with = |more: &str| format!("{DATABASE}{REDIS}{SIDEKIQ}{more}");
    let set = settings(&with("[autopilot]\nmode = \"on\"\nmanage = [\"workers.sidekiq\"]\n"));
    assert_eq!(set.autopilot_system(), JobSystem::Sidekiq);
    for (autopilot, expected) in [
        ("mode = \"on\"\n", "add manage = [\"workers.NAME\"]"),
        (
            "mode = \"on\"\nmanage = [\"workers.sidkiq\"]\n",
            "\"workers.sidkiq\": there is no [workers.sidkiq]; there are workers.sidekiq",
        ),
        ("mode = \"on\"\nmanage = [\"workers.sidekiq\", \"jobs\"]\n", "are two systems of jobs"),
        (
            "watch = \"jobs\"\nmanage = [\"workers.sidekiq\"]\n",
            "is not what autopilot.manage lists",
        ),
        ("watch = \"sidekiq\"\nmanage = [\"jobs\"]\n", "is not what autopilot.manage lists"),
        ("manage = [\"workers.\"]\n", "\"workers.\" cannot be managed"),
    ] {
        let error = errors(&with(&format!("[autopilot]\n{autopilot}")));
        assert!(error.contains(expected), "{autopilot}: {error}");
    }
    let managed = "[autopilot]\nmode = \"on\"\nmanage = [\"workers.sidekiq\"]\n";
    let error = errors(&format!("{DATABASE}{SIDEKIQ}{managed}"));
    assert!(error.contains("seen through [[observe.redis]]"), "{error}");
    let plain = "[workers.sidekiq]\ncommand = [\"sidekiq\"]\n";
    let error = errors(&format!("{DATABASE}{REDIS}{plain}{managed}"));
    assert!(error.contains("has no concurrency; set concurrency"), "{error}");
}

#[test]
fn what_is_watched_follows_from_what_is_managed_and_observed() {
    let system = |text: &str| settings(&format!("{DATABASE}{text}")).autopilot_system();
    assert_eq!(system("[autopilot]\nmode = \"advise\"\n"), JobSystem::JobServer);
    assert_eq!(system(&format!("{REDIS}[autopilot]\nmode = \"advise\"\n")), JobSystem::Sidekiq);
    let jobs = "[autopilot]\nmode = \"advise\"\nwatch = \"jobs\"\n";
    assert_eq!(system(&format!("{REDIS}{jobs}")), JobSystem::JobServer);
    let jobs = "[autopilot]\nmode = \"on\"\nmanage = [\"jobs\"]\n";
    assert_eq!(system(&format!("{REDIS}{jobs}")), JobSystem::JobServer);
    let store = "[jobs]\nstore = { redis = [{ url = \"redis://127.0.0.1:6379/0\" }] }\n";
    assert_eq!(system(&format!("{store}{REDIS}")), JobSystem::JobServer);
    let error = errors(&format!("{DATABASE}[autopilot]\nmode = \"advise\"\nwatch = \"sidekiq\"\n"));
    assert!(error.contains("autopilot.watch: Sidekiq's jobs are seen through"), "{error}");
}

#[test]
fn jobs_are_moved_in_one_redis_for_a_group_that_can_serve_them() {
    let able = "[workers.sidekiq]\ncommand = [\"sidekiq\", \"-c\", \"{concurrency}\", \"{queues}\"]\nconcurrency = 10\n\
        queues = [\"default\"]\n";
    let with = |workers: &str, more: &str| {
        format!("{DATABASE}{REDIS}{workers}[autopilot]\nmove_jobs = true\n{more}")
    };
    let manage = "manage = [\"workers.sidekiq\"]\n";
    let groups = settings(&with(able, manage)).limited_groups();
    let shown: Vec<_> = groups.iter().map(|it| (it.name.as_str(), it.processes)).collect();
    assert_eq!(shown, [("sidekiq-limited", 0)]);
    let twice = format!("{able}[workers.sidekiq-limited]\ncommand = [\"x\"]\n");
    let shards = format!("{REDIS}{}", with(able, manage));
    for (text, expected) in [
        (with(able, ""), "autopilot.move_jobs: autopilot.manage lists no \"workers.NAME\""),
        (with(SIDEKIQ, manage), "[workers.sidekiq] can't serve the queue of a limited job type"),
        (with(&twice, manage), "no other group or app"),
        (shards, "works with one Redis, and [[observe.redis]] has 2"),
    ] {
        let error = errors(&text);
        assert!(error.contains(expected), "{error}");
    }
}

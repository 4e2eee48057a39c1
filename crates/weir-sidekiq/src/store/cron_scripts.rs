//! The scripts of cron jobs (`crons`).

use redis::Script;

use super::scripts::{Pair, with_features};

/// The scripts of cron jobs.
#[derive(Debug)]
pub(super) struct CronScripts {
    pub(super) register: Script,
    pub(super) run: Pair,
    pub(super) claim: Script,
    pub(super) done: Script,
    pub(super) set: Script,
}

impl Default for CronScripts {
    fn default() -> Self {
        macro_rules! with_state {
            ($($file:literal),+) => {
                concat!(
                    include_str!("scripts/cron_state.lua"),
                    $(include_str!(concat!("scripts/", $file))),+
                )
            };
        }
        macro_rules! run {
            () => {
                with_state!("cron_run.lua", "push.lua", "cron_end.lua")
            };
        }
        Self {
            register: Script::new(with_state!("cron_register.lua")),
            run: Pair::new(run!(), with_features!(run!())),
            claim: Script::new(with_state!("cron_claim.lua")),
            done: Script::new(with_state!("cron_done.lua")),
            set: Script::new(with_state!("cron_set.lua")),
        }
    }
}

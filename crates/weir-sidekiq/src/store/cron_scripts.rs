//! The scripts of cron jobs (`crons`).

use redis::Script;

/// The scripts of cron jobs.
#[derive(Debug)]
pub(super) struct CronScripts {
    pub(super) register: Script,
    pub(super) run: Script,
    pub(super) claim: Script,
    pub(super) done: Script,
    pub(super) set: Script,
}

impl Default for CronScripts {
    fn default() -> Self {
        macro_rules! with_state {
            ($($file:literal),+) => {
                Script::new(concat!(
                    include_str!("scripts/cron_state.lua"),
                    $(include_str!(concat!("scripts/", $file))),+
                ))
            };
        }
        Self {
            register: with_state!("cron_register.lua"),
            run: with_state!("cron_run.lua", "push.lua", "cron_end.lua"),
            claim: with_state!("cron_claim.lua"),
            done: with_state!("cron_done.lua"),
            set: with_state!("cron_set.lua"),
        }
    }
}

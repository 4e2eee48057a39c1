//! What one server reports of itself: memory, CPU time, commands.

use weir_advisor::observation::redis_field;
use weir_jobs::metrics::{CommandFigures, StoreServerFigures};

use super::command_kinds::kind_of;
use crate::server::CommandSample;

/// The sections of `INFO` that are read.
pub(super) const INFO_SECTIONS: [&str; 3] = ["memory", "cpu", "commandstats"];
/// Commands that are read, those with the most time first. Redis has about 250.
const COMMANDS_MAX: usize = 300;

/// The texts of [`INFO_SECTIONS`].
#[derive(Debug)]
pub(super) struct ServerInfo {
    pub(super) memory: String,
    pub(super) cpu: String,
    pub(super) commands: String,
}

impl ServerInfo {
    pub(super) fn figures(&self) -> Option<StoreServerFigures> {
        let number = |name| redis_field(&self.memory, name).and_then(|value| value.parse().ok());
        Some(StoreServerFigures {
            memory_bytes: number("used_memory")?,
            memory_bytes_max: number("maxmemory").unwrap_or_default(),
            cpu_seconds: cpu_seconds(&self.cpu)?,
            commands: command_figures(&self.commands),
            ..StoreServerFigures::default()
        })
    }
}

/// Returns the CPU time of the thread that runs the commands, or of all where Redis does not
/// distinguish them.
fn cpu_seconds(info: &str) -> Option<f64> {
    let field = |name: &str| redis_field(info, name)?.parse::<f64>().ok();
    let sum = |names: [&str; 2]| Some(field(names[0])? + field(names[1])?);
    sum(["used_cpu_user_main_thread", "used_cpu_sys_main_thread"])
        .or_else(|| sum(["used_cpu_user", "used_cpu_sys"]))
}

fn command_figures(info: &str) -> Vec<CommandFigures> {
    let figures = |command: CommandSample| CommandFigures {
        kind: kind_of(&command.name),
        name: command.name,
        calls: command.calls,
        took: command.took,
    };
    CommandSample::parse(info, COMMANDS_MAX).into_iter().map(figures).collect()
}

//! Planned settings of Postgres that a file beside `postgresql.conf` would not put in force.

use serde::Serialize;

use crate::database_settings::Origin;
use crate::observation::Postgres;

use super::Plan;

/// A planned setting that comes from somewhere that wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overruled {
    /// The setting.
    pub name: &'static str,
    /// What wins over the file.
    pub by: String,
    /// What ends that.
    pub remedy: String,
}

/// Those of the plan's settings that something else sets now.
#[must_use]
pub fn overruled(postgres: &Postgres, plan: &Plan) -> Vec<Overruled> {
    let of = |name: &'static str| {
        let (by, remedy) = match Origin::of(postgres, name) {
            Origin::Main | Origin::SomeFile => return None,
            Origin::Included(file) => (
                file.to_owned(),
                format!("take {name} out of it, or include postgresql-weir.conf after it"),
            ),
            Origin::Altered => ("ALTER SYSTEM".to_owned(), format!("ALTER SYSTEM RESET {name};")),
            Origin::CommandLine => (
                "the command line of Postgres".to_owned(),
                format!("take -c {name} off that command line"),
            ),
            Origin::Role => (
                "ALTER ROLE or ALTER DATABASE".to_owned(),
                format!("psql shows where (\\drds): RESET {name} there"),
            ),
        };
        Some(Overruled { name, by, remedy })
    };
    // Its own file, where it is in force already, wins over nothing.
    let foreign = |it: &Overruled| !it.by.ends_with("/postgresql-weir.conf");
    plan.postgres.iter().filter_map(|setting| of(setting.name)).filter(foreign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::SettingOrigin;
    use crate::plan::{DatabaseWorkload, Layout, PostgresMachine, Storage, postgres_settings};

    fn origin(name: &str, source: &str, file: Option<&str>) -> SettingOrigin {
        let (name, source) = (name.to_owned(), source.to_owned());
        SettingOrigin { name, source, file: file.map(str::to_owned) }
    }

    #[test]
    fn what_wins_over_the_planned_file_is_said_with_what_ends_it() {
        let machine = PostgresMachine {
            memory_bytes: 8 << 30,
            cores: 4,
            connections: 200,
            workload: DatabaseWorkload::Oltp,
            storage: Storage::Ssd,
        };
        let plan = Plan {
            layout: Layout::default(),
            postgres: postgres_settings(&machine),
            redis: Vec::new(),
            proofs: Vec::new(),
        };
        let file = "configuration file";
        let origins = vec![
            origin("max_connections", file, Some("/data/postgresql.auto.conf")),
            origin("shared_buffers", "command line", None),
            origin("work_mem", file, Some("/etc/conf.d/tuned.conf")),
            origin("jit", file, Some("/etc/postgresql-weir.conf")),
            origin("random_page_cost", file, Some("/etc/postgresql.conf")),
            origin("log_statement", file, Some("/data/postgresql.auto.conf")),
        ];
        let postgres = Postgres { origins, ..Postgres::default() };
        let found = overruled(&postgres, &plan);
        let lines: Vec<_> = found.iter().map(|it| (it.name, it.remedy.as_str())).collect();
        let expected = [
            ("max_connections", "ALTER SYSTEM RESET max_connections;"),
            ("shared_buffers", "take -c shared_buffers off that command line"),
            ("work_mem", "take work_mem out of it, or include postgresql-weir.conf after it"),
        ];
        assert_eq!(lines, expected);
    }
}

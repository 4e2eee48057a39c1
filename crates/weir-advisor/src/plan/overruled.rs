//! Finds planned Postgres settings that would have no effect in a file next to `postgresql.conf`.

use serde::Serialize;

use crate::database_settings::Origin;
use crate::observation::{ConnectionLimit, DatabaseObservation, SettingException};

use super::Plan;

/// A planned setting that is overridden elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overruled {
    /// Name of the setting.
    pub name: &'static str,
    /// The source that overrides the file.
    pub by: String,
    /// How to remove the override.
    pub remedy: String,
}

/// Returns the settings of the plan that are overridden now.
#[must_use]
pub fn overruled(postgres: &DatabaseObservation, plan: &Plan) -> Vec<Overruled> {
    let of = |name: &'static str| {
        let (by, remedy) = match Origin::of(postgres, name) {
            Origin::Main | Origin::SomeFile => return None,
            Origin::Included(file) => (
                file.to_owned(),
                format!("remove {name} from it, or include postgresql-weir.conf after it"),
            ),
            Origin::Altered => ("ALTER SYSTEM".to_owned(), format!("ALTER SYSTEM RESET {name};")),
            Origin::CommandLine => (
                "the command line of Postgres".to_owned(),
                format!("remove -c {name} from that command line"),
            ),
            // Reported below with a remedy, if the exceptions are visible.
            Origin::Role if postgres.exceptions.known().is_some() => return None,
            Origin::Role => (
                "ALTER ROLE or ALTER DATABASE".to_owned(),
                format!("psql shows where (\\drds): RESET {name} there"),
            ),
        };
        Some(Overruled { name, by, remedy })
    };
    // A file that this plan wrote earlier is no override.
    let foreign = |it: &Overruled| !it.by.ends_with("/postgresql-weir.conf");
    let files = plan.postgres.iter().filter_map(|setting| of(setting.name)).filter(foreign);
    files.chain(exceptions(postgres, plan)).collect()
}

/// Returns the settings and connection limits of roles and databases that override the plan.
fn exceptions<'a>(
    postgres: &'a DatabaseObservation,
    plan: &'a Plan,
) -> impl Iterator<Item = Overruled> + 'a {
    let known = postgres.exceptions.known();
    let setting = move |name: &'static str| {
        let of = move |it: &SettingException| Overruled {
            name,
            by: format!("{} SET {name} = '{}'", it.holder.alter(), it.value),
            remedy: format!("{} RESET {name};", it.holder.alter()),
        };
        known.into_iter().flat_map(move |known| known.of(name)).map(of)
    };
    // The planned connections are within `max_connections`, so they fit 32 bits.
    let connections = u32::try_from(plan.layout.connections()).unwrap_or(u32::MAX);
    let limit = move |limit: &ConnectionLimit| {
        // A role without sessions may be unrelated to the application.
        let is_used = limit.holder.database.is_some() || limit.open > 0;
        (is_used && limit.connections < connections).then(|| Overruled {
            name: "max_connections",
            by: limit.line(limit.connections).trim_end_matches(';').to_owned(),
            remedy: limit.line(connections),
        })
    };
    let limits = known.into_iter().flat_map(|known| &known.limits).filter_map(limit);
    plan.postgres.iter().flat_map(move |planned| setting(planned.name)).chain(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Exceptions, Fact, Holder, SettingOrigin};
    use crate::plan::{
        DatabaseWorkload, PostgresMachine, ProcessLayout, Storage, postgres_settings,
    };

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
            layout: ProcessLayout { pooler_connections: Some(40), ..ProcessLayout::default() },
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
        let shop = || Holder { role: Some("shop".to_owned()), database: None };
        let app = Holder { role: None, database: Some("app".to_owned()) };
        let limit = |holder, connections, open| ConnectionLimit { holder, connections, open };
        let exceptions = Exceptions {
            settings: vec![SettingException {
                holder: shop(),
                name: "work_mem".to_owned(),
                value: "1GB".to_owned(),
            }],
            limits: vec![limit(shop(), 5, 0), limit(app, 9, 0)],
        };
        let exceptions = Fact::Known(exceptions);
        let postgres =
            DatabaseObservation { origins, exceptions, ..DatabaseObservation::default() };
        let found = overruled(&postgres, &plan);
        let lines: Vec<_> = found.iter().map(|it| (it.name, it.remedy.as_str())).collect();
        let expected = [
            ("max_connections", "ALTER SYSTEM RESET max_connections;"),
            ("shared_buffers", "remove -c shared_buffers from that command line"),
            ("work_mem", "remove work_mem from it, or include postgresql-weir.conf after it"),
            ("work_mem", r#"ALTER ROLE "shop" RESET work_mem;"#),
            ("max_connections", r#"ALTER DATABASE "app" CONNECTION LIMIT 40;"#),
        ];
        assert_eq!(lines, expected);
    }
}

//! What is known of the application before the plan.

use anyhow::bail;

use crate::commands::init::app::addresses::{self, DatabasePlace, RedisPlace};
use crate::commands::init::app::findings::Findings;
use crate::commands::init::app::folder::AppFolder;
use crate::commands::init::app::gemfile::Gems;
use crate::commands::init::app::mastodon_version::{self, MastodonVersion};
use crate::commands::init::app::options::AppOptions;
use crate::commands::init::app::queues;
use crate::commands::init::app::today::{RunBy, Today};
use crate::commands::plan::check::foreign::environment::{Environment, FileSyntax};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::init) enum RubyKind {
    Mastodon,
    Rails,
}

/// Everything that is known of the application before the plan.
pub(in crate::commands::init) struct RubyApp<'a> {
    pub(in crate::commands::init) kind: RubyKind,
    pub(in crate::commands::init) folder: &'a AppFolder,
    pub(in crate::commands::init) options: &'a AppOptions,
    pub(in crate::commands::init) version: Option<MastodonVersion>,
    pub(in crate::commands::init) gems: Gems,
    pub(in crate::commands::init) today: Today,
    pub(in crate::commands::init) redis: Result<RedisPlace, String>,
    pub(in crate::commands::init) database: DatabasePlace,
    pub(in crate::commands::init) queues: Vec<String>,
    pub(in crate::commands::init) has_sidekiq: bool,
}

impl RubyKind {
    pub(in crate::commands::init) const fn name(self) -> &'static str {
        match self {
            Self::Mastodon => "mastodon",
            Self::Rails => "rails",
        }
    }

    pub(in crate::commands::init) const fn title(self) -> &'static str {
        match self {
            Self::Mastodon => "Mastodon",
            Self::Rails => "Rails",
        }
    }

    /// Commands that run it where nothing else says so.
    fn commands(self, gems: &Gems) -> Vec<(&'static str, &'static str)> {
        let mut commands = vec![("web", "bundle exec puma -C config/puma.rb")];
        if self == Self::Mastodon {
            commands.push(("streaming", "node ./streaming"));
        }
        if self == Self::Mastodon || gems.has("sidekiq") {
            commands.push(("sidekiq", "bundle exec sidekiq"));
        }
        commands
    }
}

impl<'a> RubyApp<'a> {
    pub(in crate::commands::init) fn read(
        kind: RubyKind,
        folder: &'a AppFolder,
        options: &'a AppOptions,
        findings: &mut Findings,
    ) -> anyhow::Result<Self> {
        let lock = folder.read("Gemfile.lock", findings);
        let gems = Gems::parse(lock.as_deref().unwrap_or_default());
        let named = gems.versions(&["rails", "puma", "unicorn", "sidekiq", "sidekiq-scheduler"]);
        match lock {
            Some(_) => findings.read.push(format!("Gemfile.lock ({})", named.join(", "))),
            None => findings.not_read.push("Gemfile.lock: it is not here".to_owned()),
        }
        let commands = kind.commands(&gems);
        let today = Today::read(folder, &options.units, options.from, &commands, findings)?;
        let is_empty = lock.is_none() && today.units.is_empty() && today.compose.is_none();
        if is_empty {
            bail!(
                "{} has no Gemfile.lock, no compose file, and no unit starts there; name the folder of the \
                 application: weir init {} FOLDER",
                folder.shown(),
                kind.name()
            );
        }
        let version =
            (kind == RubyKind::Mastodon).then(|| version(folder, &today, findings)).flatten();
        let of_version = match kind {
            RubyKind::Mastodon => mastodon_version::queues(version),
            RubyKind::Rails => Vec::new(),
        };
        let has_sidekiq =
            kind == RubyKind::Mastodon || gems.has("sidekiq") || today.workers().next().is_some();
        let queues = match has_sidekiq {
            true => queues::queues(folder, Some(&today), &of_version, findings),
            false => Vec::new(),
        };
        let environment = environment(folder, findings);
        let (redis, database) = (addresses::redis(&environment), addresses::database(&environment));
        Ok(Self {
            kind,
            folder,
            options,
            version,
            gems,
            today,
            redis,
            database,
            queues,
            has_sidekiq,
        })
    }

    pub(in crate::commands::init) fn title(&self) -> String {
        let version = self.version.map(|it| format!(" {it}")).unwrap_or_default();
        let run_by = match self.today.run_by {
            RunBy::Systemd => "run by systemd",
            RunBy::Compose => "run by docker compose",
            RunBy::Commands => "run by commands",
        };
        format!("{}{version} in {}, {run_by}", self.kind.title(), self.folder.shown())
    }
}

/// Returns Mastodon's version, from its code or from the tag of its image.
fn version(folder: &AppFolder, today: &Today, findings: &mut Findings) -> Option<MastodonVersion> {
    const FILE: &str = "lib/mastodon/version.rb";
    let in_code = folder.read(FILE, findings).and_then(|text| MastodonVersion::in_ruby(&text));
    if in_code.is_some() {
        findings.read.push(FILE.to_owned());
        return in_code;
    }
    let names = today.deployment.iter().flat_map(|it| &it.programs).map(|(name, _)| name);
    let mut images = names.filter_map(|name| today.compose.as_ref()?.image(name));
    let in_image = images.find_map(MastodonVersion::in_image);
    if in_image.is_none() {
        findings.not_read.push(format!(
            "Mastodon's version: {FILE} is not here or has another form, and no image has a version as its tag; \
             assumed: it has all queues that Mastodon ever had"
        ));
    }
    in_image
}

/// Reads the variables of the application. Only addresses, names and numbers are used.
fn environment(folder: &AppFolder, findings: &mut Findings) -> Environment {
    let mut environment = Environment::default();
    for name in [".env", ".env.production"] {
        if let Some(text) = folder.read(name, findings) {
            environment.read_lines(&text, FileSyntax::Dotenv);
            findings.read.push(format!("{name} (addresses and numbers; no secret is copied)"));
        }
    }
    environment
}

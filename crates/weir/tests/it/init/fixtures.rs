//! Folders of applications as `weir init` finds them.

use std::path::PathBuf;

use crate::weir::Site;

pub(super) const SECRET: &str = "hunter2-of-this-app";

pub(super) const ENVIRONMENT: &str = "# Mastodon\nLOCAL_DOMAIN=social.example\nREDIS_HOST=localhost\nREDIS_PORT=6379\n\
    DB_HOST=/var/run/postgresql\nDB_USER=mastodon\nDB_NAME=mastodon_production\nDB_PASS=hunter2-of-this-app\n\
    SECRET_KEY_BASE=hunter2-of-this-app\nOTP_SECRET='hunter2-of-this-app'\nSMTP_PASSWORD=hunter2-of-this-app\n";

/// Weights, and a template in a place that does not matter.
pub(super) const SIDEKIQ_4_4: &str = "---\n:concurrency: 5\n:queues:\n  - [default, 8]\n  - [push, 6]\n  - [ingress, 4]\n  \
    - [mailers, 2]\n  - pull\n  - scheduler\n  - fasp\n\n:scheduler:\n  :listened_queues_only: true\n:schedule:\n  vacuum:\n    \
    cron: '<%= Random.rand(0..59) %> <%= Random.rand(3..5) %> * * *'\n    class: Scheduler::VacuumScheduler\n    queue: scheduler\n";

pub(super) const PUMA: &str = "persistent_timeout ENV.fetch('PERSISTENT_TIMEOUT', 20).to_i\n\
    max_threads_count = ENV.fetch('MAX_THREADS', 5).to_i\nmin_threads_count = ENV.fetch('MIN_THREADS', max_threads_count).to_i\n\
    threads min_threads_count, max_threads_count\n\
    if ENV['SOCKET']\n  bind \"unix://#{ENV['SOCKET']}\"\nelse\n  \
    bind \"tcp://#{ENV.fetch('BIND', '127.0.0.1')}:#{ENV.fetch('PORT', 3000)}\"\nend\n\
    environment ENV.fetch('RAILS_ENV') { 'development' }\nworkers     ENV.fetch('WEB_CONCURRENCY') { 2 }.to_i\n\
    preload_app!\non_worker_boot do\n  nil\nend\nplugin :tmp_restart\n";

const LOCK_4_4: &str = "GEM\n  remote: https://rubygems.org/\n  specs:\n    puma (6.6.0)\n      nio4r (~> 2.0)\n    rails (8.0.2)\n    \
    sidekiq (7.3.9)\n      rack (>= 2.2.4)\n    sidekiq-scheduler (5.0.6)\n\nDEPENDENCIES\n  puma (~> 6.3)\n";

pub(super) const COMPOSE: &str = "services:\n  db:\n    image: postgres:14-alpine\n    shm_size: 256mb\n    \
    command: postgres -c max_connections=120 -c log_min_duration_statement=500\n    volumes:\n      \
    - ./postgres14:/var/lib/postgresql/data\n  redis:\n    image: redis:7-alpine\n    command: redis-server --save 60 1\n    \
    volumes:\n      - ./redis:/data\n  web:\n    image: ghcr.io/mastodon/mastodon:v4.2.10\n    env_file: .env.production\n    \
    command: bundle exec puma -C config/puma.rb\n    ports:\n      - '127.0.0.1:3000:3000'\n  streaming:\n    \
    image: ghcr.io/mastodon/mastodon:v4.2.10\n    env_file: .env.production\n    command: node ./streaming\n    ports:\n      \
    - '127.0.0.1:4000:4000'\n  sidekiq:\n    image: ghcr.io/mastodon/mastodon:v4.2.10\n    env_file: .env.production\n    \
    command: bundle exec sidekiq\n";

/// The folders `app` and `units`.
pub(super) struct App {
    pub(super) site: Site,
}

impl App {
    pub(super) fn new() -> Self {
        let site = Site::new("");
        for folder in ["app", "units"] {
            std::fs::create_dir_all(site.path().join(folder)).expect("made");
        }
        Self { site }
    }

    /// Mastodon 4.4 as its guide installs it.
    pub(super) fn mastodon_with_units() -> Self {
        let app = Self::new();
        app.write("Gemfile.lock", LOCK_4_4);
        app.write("config/sidekiq.yml", SIDEKIQ_4_4);
        app.write("config/puma.rb", PUMA);
        app.write(".env.production", ENVIRONMENT);
        // The compose file of the repository is there as well.
        app.write("docker-compose.yml", COMPOSE);
        app.version(4, 4);
        let bundle = "/opt/mastodon/.rbenv/shims/bundle exec";
        app.unit("mastodon-web", &format!("{bundle} puma -C config/puma.rb"),
            "Environment=\"PORT=3000\"\nEnvironment=\"LD_PRELOAD=libjemalloc.so\"\nEnvironment=OTHER_SECRET=hunter2-of-this-app\n");
        app.unit(
            "mastodon-sidekiq",
            &format!("{bundle} sidekiq -c 25"),
            "Environment=\"DB_POOL=25\"\nEnvironment=\"MALLOC_ARENA_MAX=2\"\n",
        );
        app.unit("mastodon-streaming@", "/usr/bin/node ./streaming", "Environment=\"PORT=%i\"\n");
        let wanting = "[Unit]\nWants=mastodon-streaming@4000.service\n[Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=yes\n";
        std::fs::write(app.units().join("mastodon-streaming.service"), wanting).expect("written");
        std::fs::write(app.units().join("ssh.service"), "[Service]\nExecStart=/usr/sbin/sshd -D\n")
            .expect("written");
        app
    }

    pub(super) fn path(&self) -> PathBuf {
        self.site.path().join("app")
    }

    pub(super) fn units(&self) -> PathBuf {
        self.site.path().join("units")
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    pub(super) fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }

    pub(super) fn read(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.path().join(name)).expect("it was written");
        text.replace(&self.site.path().display().to_string(), "[folder]")
    }

    /// Writes the module that says which version it is.
    pub(super) fn version(&self, major: u32, minor: u32) {
        let method = |name: &str, value: u32| format!("    def {name}\n      {value}\n    end\n\n");
        let methods = [method("major", major), method("minor", minor), method("patch", 3)].concat();
        self.write(
            "lib/mastodon/version.rb",
            &format!("module Mastodon\n  module Version\n{methods}  end\nend\n"),
        );
    }

    /// Writes a unit that starts in the application's folder.
    pub(super) fn unit(&self, name: &str, command: &str, environment: &str) {
        let text = format!(
            "[Unit]\nDescription={name}\n\n[Service]\nType=simple\nUser=mastodon\nWorkingDirectory={}\n\
             Environment=\"RAILS_ENV=production\"\n{environment}ExecStart={command}\nTimeoutSec=15\nRestart=always\n",
            self.path().display()
        );
        std::fs::write(self.units().join(format!("{name}.service")), text).expect("written");
    }

    pub(super) fn shown(&self, arguments: &[&str]) -> String {
        self.site.shown(arguments)
    }

    pub(super) fn assert_no_secret(&self, files: &[&str]) {
        for file in files {
            let text = self.read(file);
            assert!(!text.contains(SECRET) && !text.contains("hunter2"), "{file}:\n{text}");
        }
    }
}

//! Commands and images that hold no connection of the application's, so that nothing of them is counted.

use super::environment::assignment;
use super::words::file_name;

/// Words that stand before a command.
const WRAPPERS: [&str; 11] = [
    "env",
    "exec",
    "bundle",
    "dotenv",
    "nice",
    "time",
    "timeout",
    "tini",
    "dumb-init",
    "setpriv",
    "--",
];

/// Servers, tools of a shell, and programs that build assets.
const PROGRAMS: [&str; 47] = [
    "true",
    "false",
    ":",
    "echo",
    "printf",
    "sleep",
    "tail",
    "cat",
    "rm",
    "mkdir",
    "cp",
    "mv",
    "ln",
    "chown",
    "chmod",
    "touch",
    "cd",
    "export",
    "set",
    "unset",
    "ulimit",
    "trap",
    "kill",
    "pkill",
    "pgrep",
    "test",
    "[",
    "nginx",
    "caddy",
    "haproxy",
    "memcached",
    "redis-server",
    "redis-sentinel",
    "valkey-server",
    "pgbouncer",
    "mysqld",
    "mailhog",
    "mailcatcher",
    "prometheus_exporter",
    "cron",
    "crond",
    "webpack",
    "webpack-dev-server",
    "shakapacker-dev-server",
    "vite",
    "esbuild",
    "tailwindcss",
];

/// Tasks of Rails and rake that end, or build assets: the reserve has the one connection that a migration takes.
const TASKS: [&str; 8] =
    ["db:", "assets:", "tailwindcss:", "css:", "javascript:", "webpacker:", "tmp:", "log:"];

/// Words of an image's name: "postgres" of "bitnami/postgres-exporter:1". What monitors or saves a database is
/// counted by the reserve.
const IMAGES: [&str; 38] = [
    "postgres",
    "postgresql",
    "postgis",
    "pgvector",
    "timescaledb",
    "pgbouncer",
    "pgcat",
    "redis",
    "valkey",
    "keydb",
    "dragonfly",
    "memcached",
    "nginx",
    "caddy",
    "traefik",
    "haproxy",
    "varnish",
    "elasticsearch",
    "opensearch",
    "meilisearch",
    "typesense",
    "kibana",
    "minio",
    "mysql",
    "mariadb",
    "mongo",
    "mongodb",
    "rabbitmq",
    "certbot",
    "acme",
    "mailhog",
    "mailpit",
    "mailcatcher",
    "selenium",
    "browserless",
    "chrome",
    "tor",
    "registry",
];

/// Returns whether a command uses no database connection.
pub(super) fn holds_nothing(words: &[String]) -> bool {
    let is_wrapper =
        |word: &&String| WRAPPERS.contains(&file_name(word)) || assignment(word).is_some();
    let mut words = words.iter().skip_while(is_wrapper);
    let Some(program) = words.next().map(|word| file_name(word)) else { return false };
    match program {
        "rails" | "rake" => {
            let is_other = |word: &str| word.starts_with('-') || word.contains('>');
            let mut tasks =
                words.filter(|word| !is_other(word) && assignment(word).is_none()).peekable();
            let is_task = |word: &String| TASKS.iter().any(|task| word.starts_with(task));
            tasks.peek().is_some() && tasks.all(is_task)
        }
        _ => PROGRAMS.contains(&program),
    }
}

/// Folders of programs that a distribution installs.
const SYSTEM: [&str; 6] = ["/usr/bin/", "/usr/sbin/", "/usr/lib/", "/bin/", "/sbin/", "/lib/"];
/// System programs that start other programs.
const STARTERS: [&str; 22] = [
    "sh", "bash", "dash", "zsh", "env", "sudo", "su", "runuser", "ruby", "bundle", "rails", "rake",
    "foreman", "node", "npm", "yarn", "python", "python3", "java", "php", "docker", "podman",
];

/// Returns whether a unit starts a program of the distribution, such as sshd.
pub(super) fn is_system_program(words: &[String]) -> bool {
    let Some(program) = words.first() else { return false };
    SYSTEM.iter().any(|folder| program.starts_with(folder))
        && !STARTERS.contains(&file_name(program))
}

/// Returns whether an image is that of a server or a tool, not of the application.
pub(super) fn is_other_image(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or(image);
    let name = file_name(name);
    // The text of a variable is not the name: `${REGISTRY_IMAGE}`.
    let name = name.split([':', '$']).next().unwrap_or(name);
    name.split(['-', '_', '.']).any(|word| IMAGES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_programs_are_recognised_by_their_folder() {
        for (program, expected) in [
            ("/usr/sbin/sshd", true),
            ("/lib/systemd/systemd-udevd", true),
            ("/usr/bin/ruby", false),
            ("/usr/bin/docker", false),
            ("/usr/local/bin/worker", false),
            ("sshd", false),
        ] {
            assert_eq!(is_system_program(&[program.to_owned()]), expected, "{program}");
        }
    }

    #[test]
    fn server_images_are_recognised_by_name() {
        for image in [
            "postgres:16-alpine",
            "docker.io/library/redis",
            "pgvector/pgvector:pg16",
            "bitnami/redis@sha256:00",
            "kkimurak/sameersbn-postgresql:17",
            "docker.elastic.co/elasticsearch/elasticsearch-oss:6.8",
            "nginxproxy/nginx-proxy",
            "localhost:5000/postgres",
            "elasticsearch:${VERSION:-9}",
        ] {
            assert!(is_other_image(image), "{image}");
        }
        for image in [
            "",
            "shop:redis",
            "redis/shop",
            "example/shop-streaming",
            "${REDIS_IMAGE}",
            "registry.example/shop:1",
            "tornado",
        ] {
            assert!(!is_other_image(image), "{image}");
        }
    }
}

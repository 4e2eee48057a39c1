//! What doctor and plan say about a Redis that keeps nothing, done word by word: a restart must find
//! every job.

use std::path::Path;
use std::process::Command;

use super::follow::command_of;
use super::redis_server::RedisServer;
use super::sidekiq::push;
use super::{code, json};
use crate::process::output_of;
use crate::weir::program;

const JOBS: usize = 40;

fn shell(command: &str) {
    let output = output_of(Command::new("timeout").args(["60", "sh", "-c", command]));
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Returns the number of jobs after `command` and a restart with the same configuration and files.
fn jobs_after_restart(command: impl Fn(&RedisServer, &Path) -> String) -> Option<usize> {
    let kept = tempfile::tempdir().unwrap();
    let conf = kept.path().join("redis.conf");
    std::fs::write(&conf, "").unwrap();
    let arguments = || vec![conf.display().to_string()];
    let redis = RedisServer::start_with(|_, _| arguments())?;
    push(&redis, "default", "Nap", JOBS, 1.0);
    shell(&command(&redis, kept.path()));
    let conf_text = std::fs::read_to_string(&conf).unwrap();
    assert!(conf_text.contains("appendonly yes"), "{conf_text}");
    let dir: Vec<String> =
        ::redis::cmd("CONFIG").arg("GET").arg("dir").query(&mut redis.client()).unwrap();
    let data = kept.path().join("data");
    // Files as a kill would leave them, not as a clean stop.
    shell(&format!("cp -a '{}' '{}'", dir[1], data.display()));
    drop(redis);
    // Its folder ended with it; the next one has its own.
    let lines = conf_text.lines().filter(|line| !line.starts_with("dir "));
    std::fs::write(&conf, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let redis = RedisServer::start_with(|folder, _| {
        shell(&format!("cp -a '{}'/appendonly* '{}'", data.display(), folder.display()));
        arguments()
    })?;
    Some(::redis::cmd("LLEN").arg("queue:default").query(&mut redis.client()).unwrap())
}

#[test]
fn doctors_remedy_makes_redis_persistent() {
    let left = jobs_after_restart(|redis, _| {
        let url = format!("redis://127.0.0.1:{}", redis.port);
        let advice = json(&["--redis", &url, "--window", "10ms"]);
        let findings = advice["findings"].as_array().expect("findings");
        let finding = findings.iter().find(|it| it["rule"] == "redis-persistence").expect("found");
        command_of(finding).to_owned()
    });
    assert_eq!(left.unwrap_or(JOBS), JOBS);
}

#[test]
fn planned_redis_settings_are_persistent() {
    let left = jobs_after_restart(|redis, folder| {
        let folder = folder.join("plan").display().to_string();
        let mut plan = program();
        plan.args(["plan", "--queue", "default=1,0.1", "--cores", "4", "--memory", "8GiB"]);
        let output = output_of(plan.args(["--write", &folder]));
        assert_eq!(code(&output), 0, "{output:?}");
        format!("sh '{folder}/redis-weir.sh' -h 127.0.0.1 -p {}", redis.port)
    });
    assert_eq!(left.unwrap_or(JOBS), JOBS);
}

#[test]
fn planned_redis_script_fails_without_access() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["CONFIG", "SET", "requirepass", "hunter2"]]);
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().display().to_string();
    let mut plan = program();
    plan.args(["plan", "--queue", "default=1,0.1", "--cores", "4", "--memory", "8GiB"]);
    let output = output_of(plan.args(["--write", &folder]));
    assert_eq!(code(&output), 0, "{output:?}");
    let script = |port: u16| format!("sh '{folder}/redis-weir.sh' -h 127.0.0.1 -p {port}");
    for password in [None, Some("hunter3")] {
        let (code, said) = run_in_shell(&script(redis.port), password);
        assert_eq!(code, Some(1), "it ends: {said}");
        assert!(said.contains("stopped; Redis replied: NOAUTH"), "{said}");
    }
    let (code, said) = run_in_shell(&script(1), None);
    assert_eq!(code, Some(1), "it ends: {said}");
    assert!(said.contains("stopped; Redis replied: nothing"), "{said}");
}

/// Returns the exit code and the output.
fn run_in_shell(command: &str, password: Option<&str>) -> (Option<i32>, String) {
    let mut shell = Command::new("timeout");
    shell.args(["30", "sh", "-c", command]).env_remove("REDISCLI_AUTH");
    if let Some(password) = password {
        shell.env("REDISCLI_AUTH", password);
    }
    let output = output_of(&mut shell);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn pasted_commands_fail_without_the_password() {
    let kept = tempfile::tempdir().unwrap();
    let conf = kept.path().join("redis.conf");
    std::fs::write(&conf, "").unwrap();
    let Some(redis) = RedisServer::start_with(|_, _| vec![conf.display().to_string()]) else {
        return;
    };
    redis.run(&[&["CONFIG", "SET", "requirepass", "hunter2"]]);
    let file = kept.path().join("password");
    std::fs::write(&file, "hunter2").unwrap();
    let (url, file) = (format!("redis://127.0.0.1:{}", redis.port), file.display().to_string());
    let arguments = ["--redis", &url, "--redis-password-file", &file, "--window", "10ms"];
    let advice = json(&arguments);
    let findings = advice["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|it| it["rule"] == "redis-persistence").expect("found");
    let next = command_of(finding);

    let (code, said) = run_in_shell(next, None);
    assert!(code.is_some_and(|code| code != 0 && code != 124), "it ends: {code:?} {said}");
    assert!(said.contains("REDISCLI_AUTH: must be set to the password"), "{said}");
    let (code, said) = run_in_shell(next, Some("hunter3"));
    assert_eq!(code, Some(1), "it ends: {said}");
    assert!(said.contains("WRONGPASS") || said.contains("NOAUTH"), "{said}");
    assert_eq!(run_in_shell(next, Some("hunter2")).0, Some(0));
    assert!(std::fs::read_to_string(&conf).unwrap().contains("appendonly yes"));
}

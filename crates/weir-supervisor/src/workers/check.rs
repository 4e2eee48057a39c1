//! Checks a group's specification before anything is started, and reports all mistakes at once.

use std::path::Path;
use std::time::Duration;

use super::blueprint::{built_in, resource_limits};
use super::run_folder::GroupFolder;
use super::spec::{GroupName, GroupSpec, PROCESSES_MAX, Readiness, SOCKETS_MAX, SocketKind};
use super::template::Template;
use crate::system::Identity;

/// Variables with which the parent describes inherited descriptors; settings may not set them.
pub(super) const RESERVED: [&str; 9] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    crate::inherited::VARIABLE,
    crate::selection::busy::FD_VARIABLE,
    crate::selection::busy::INDEX_VARIABLE,
];

/// A mistake in a group's specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("workers {group}: {setting}: {text}")]
pub struct GroupSpecError {
    pub group: GroupName,
    /// The name of the field of [`GroupSpec`].
    pub setting: &'static str,
    pub text: String,
}

type EnvironmentTemplates = Vec<(String, Template)>;

/// Returns all mistakes in `spec`, whose sockets would be below `run_folder`. Starts, binds and
/// creates nothing.
#[must_use]
pub fn spec_errors(spec: &GroupSpec, run_folder: &Path) -> Vec<GroupSpecError> {
    let mut found = Vec::new();
    let mut add = |setting, text: Option<String>| {
        found.extend(text.map(|text| GroupSpecError { group: spec.name.clone(), setting, text }));
    };
    add("command", command(spec));
    add("processes", processes(spec));
    for (name, value) in &spec.environment {
        add("environment", environment(name, value));
    }
    add("folder", folder(spec.folder.as_deref()));
    add("sockets", sockets(spec));
    add("variables", variables(spec));
    add("readiness", readiness(spec));
    for (setting, duration) in [
        ("start_deadline", spec.start_deadline),
        ("retry_after", spec.retry_after),
        ("restart", spec.restart.backoff_min),
    ] {
        add(setting, duration.is_zero().then(|| "must be more than zero".to_owned()));
    }
    add("watchdog", spec.watchdog.filter(Duration::is_zero).map(|_| "must not be zero".into()));
    let identity = identity(spec);
    let owner = identity.as_ref().ok().and_then(Option::as_ref);
    add("run_folder", GroupFolder::new(run_folder, &spec.name, owner).too_long());
    found.extend(parse(spec).err());
    found.extend(identity.err());
    found.extend(limits(spec));
    found
}

/// Parses the command and the environment as templates with this group's placeholders.
pub(super) fn parse(
    spec: &GroupSpec,
) -> Result<(Vec<Template>, EnvironmentTemplates), GroupSpecError> {
    let mut known = built_in(spec);
    known.extend(spec.variables.keys().cloned());
    let template = |setting: &'static str, text: &str| {
        let error = |text: String| GroupSpecError { group: spec.name.clone(), setting, text };
        let template = Template::parse(text).map_err(|_| {
            error(format!("{text:?} opens a brace and never closes it; write {{{{ for a brace"))
        })?;
        let unknown = template.placeholders().find(|name| !known.iter().any(|known| known == name));
        match unknown {
            Some(name) => Err(error(unknown_placeholder(name, &known))),
            None => Ok(template),
        }
    };
    let command = spec.command.iter().map(|argument| template("command", argument));
    let environment = spec
        .environment
        .iter()
        .map(|(name, value)| Ok((name.clone(), template("environment", value)?)));
    Ok((command.collect::<Result<_, _>>()?, environment.collect::<Result<_, _>>()?))
}

fn unknown_placeholder(name: &str, known: &[String]) -> String {
    let listed: Vec<String> = known.iter().map(|name| format!("{{{name}}}")).collect();
    format!(
        "unknown placeholder {{{name}}}; this group has {}; write {{{{ for a brace",
        listed.join(" ")
    )
}

/// Returns the identity that the workers run as. None: the parent's.
pub(super) fn identity(spec: &GroupSpec) -> Result<Option<Identity>, GroupSpecError> {
    let error = |setting, text: String| GroupSpecError { group: spec.name.clone(), setting, text };
    let setting = match (&spec.user, &spec.group) {
        (None, None) => return Ok(None),
        (Some(_), _) => "user",
        (None, Some(_)) => "group",
    };
    if !rustix::process::geteuid().is_root() {
        let text =
            "only root can start workers as another user; remove user, or start Weir as root";
        return Err(error(setting, text.to_owned()));
    }
    Identity::find(spec.user.as_deref(), spec.group.as_deref())
        .map(Some)
        .map_err(|text| error(setting, text))
}

fn command(spec: &GroupSpec) -> Option<String> {
    let has_nul = spec.command.iter().any(|argument| argument.contains('\0'));
    match spec.command.first() {
        None => Some("is empty; give the program and its arguments".into()),
        Some(program) if program.is_empty() => Some("the program's name is empty".into()),
        Some(_) => has_nul.then(|| "an argument contains a NUL byte".into()),
    }
}

fn processes(spec: &GroupSpec) -> Option<String> {
    (spec.processes > PROCESSES_MAX)
        .then(|| format!("{} are more than the {PROCESSES_MAX} of one group", spec.processes))
}

fn environment(name: &str, value: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("{name} is set by Weir itself; leave it out"));
    }
    let is_wrong = name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
    is_wrong.then(|| format!("{name:?} can't be set: no empty names, no '=', no NUL bytes"))
}

fn folder(folder: Option<&Path>) -> Option<String> {
    let folder = folder.filter(|folder| !folder.is_dir())?;
    Some(format!("{} is no folder", folder.display()))
}

fn sockets(spec: &GroupSpec) -> Option<String> {
    let count = match &spec.sockets {
        SocketKind::Inherited(sockets) => sockets.len(),
        SocketKind::Group(group) => group.plan().descriptors(),
        _ => return None,
    };
    if !(1..=SOCKETS_MAX).contains(&count) {
        return Some(format!("a worker inherits 1 to {SOCKETS_MAX} sockets, not {count}"));
    }
    let SocketKind::Inherited(sockets) = &spec.sockets else { return None };
    // sd_listen_fds_with_names(3): names are printable ASCII, and a colon separates them.
    let is_wrong = |name: &str| {
        name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
    };
    let wrong = sockets.iter().find(|socket| is_wrong(&socket.name))?;
    Some(format!("{:?} can't name a socket: printable characters without a colon", wrong.name))
}

fn variables(spec: &GroupSpec) -> Option<String> {
    let built_in = built_in(spec);
    let is_name = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !name.is_empty() && name.bytes().all(allowed)
    };
    spec.variables.iter().find_map(|(name, values)| {
        if built_in.contains(name) {
            Some(format!("{{{name}}} has a meaning already; choose another name"))
        } else if !is_name(name) {
            Some(format!("{name:?} can't name a placeholder: small letters, digits and _"))
        } else if values.iter().any(|value| value.contains('\0')) {
            Some(format!("a value of {{{name}}} contains a NUL byte"))
        } else {
            None
        }
    })
}

fn readiness(spec: &GroupSpec) -> Option<String> {
    match &spec.readiness {
        Readiness::Started(lived) if *lived >= spec.start_deadline => {
            Some("a worker would pass start_deadline before it has lived long enough".into())
        }
        Readiness::Line(text) if text.is_empty() => {
            Some("every line contains the empty text; give a part of the line to wait for".into())
        }
        Readiness::Probed if matches!(spec.sockets, SocketKind::None) => {
            Some("workers without sockets can't be probed".into())
        }
        _ => None,
    }
}

/// Checks the resource limits: only root may raise a hard limit.
fn limits(spec: &GroupSpec) -> Vec<GroupSpecError> {
    if rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let too_high =
        resource_limits(&spec.resource_limits).into_iter().filter_map(|(resource, limit)| {
            let hard = rustix::process::getrlimit(resource).maximum?;
            let text =
                format!("{resource:?}: {limit} is above the hard limit {hard}; raise that first");
            let error =
                GroupSpecError { group: spec.name.clone(), setting: "resource_limits", text };
            (limit > hard).then_some(error)
        });
    too_high.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(command: &[&str]) -> GroupSpec {
        let command = command.iter().map(|&argument| argument.to_owned()).collect();
        GroupSpec::new("shop".parse().expect("a name"), command)
    }

    fn texts(spec: &GroupSpec) -> Vec<String> {
        spec_errors(spec, Path::new("/run/weir")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unknown_placeholder_lists_the_known_ones() {
        let mut spec = spec(&["serve", "--port={port}", "{queues}"]);
        spec.variables.insert("queues".into(), vec!["a".into()]);
        assert_eq!(
            texts(&spec),
            ["workers shop: command: unknown placeholder {port}; this group has {index} {name} \
              {queues}; write {{ for a brace"]
        );
        spec.sockets = SocketKind::Port;
        assert_eq!(texts(&spec), Vec::<String>::new());
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let mut spec = spec(&["", "{"]);
        spec.processes = PROCESSES_MAX + 1;
        spec.environment = vec![("LISTEN_FDS".into(), "3".into()), ("A=".into(), String::new())];
        spec.folder = Some("/nonexistent".into());
        spec.sockets = SocketKind::Inherited(Vec::new());
        spec.variables.insert("index".into(), Vec::new());
        spec.readiness = Readiness::Line(String::new());
        spec.start_deadline = Duration::ZERO;
        spec.watchdog = Some(Duration::ZERO);
        let settings: Vec<&str> = spec_errors(&spec, Path::new(&"x".repeat(200)))
            .iter()
            .map(|found| found.setting)
            .collect();
        assert_eq!(
            settings,
            [
                "command",
                "processes",
                "environment",
                "environment",
                "folder",
                "sockets",
                "variables",
                "readiness",
                "start_deadline",
                "watchdog",
                "run_folder",
                "command"
            ]
        );
    }

    #[test]
    fn a_missing_user_is_named_in_the_error() {
        let mut spec = spec(&["serve"]);
        spec.user = Some("nobody-of-this-name".into());
        let texts = texts(&spec);
        let expected = if rustix::process::geteuid().is_root() {
            "workers shop: user: there is no user nobody-of-this-name"
        } else {
            "workers shop: user: only root can start workers as another user; remove user, or \
             start Weir as root"
        };
        assert_eq!(texts, [expected]);
    }

    #[test]
    fn group_names_are_short_and_plain() {
        for name in ["", "Shop", "a b", "a/b", "..", &"x".repeat(33)] {
            assert!(name.parse::<GroupName>().is_err(), "{name}");
        }
        assert!("shop_web-2".parse::<GroupName>().is_ok());
    }
}

//! A connection to a Redis.

use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, Pipeline, RedisError, TlsCertificates, Value};

use crate::address::RedisAddress;
use crate::client::{self, Login};
use crate::endpoint::RedisEndpoint;
use crate::error::{RedisConnectionError, SidekiqError};
use crate::error_kind::{self, RedisErrorKind};
use crate::explanation::Explanation;
use crate::grant;
use crate::greeting;
use crate::limits::SampleLimits;
use crate::network_error::NetworkErrorKind;
use crate::questions::{Question, READ_ONLY_ACL, ReadCommand, ReplyResult};
use crate::sentinel::{self, NamedPrimary};
use crate::snapshot::RejectedCommand;

/// A connection. Its own methods only read.
#[derive(Debug)]
pub struct RedisConnection {
    inner: MultiplexedConnection,
    name: String,
    address: RedisAddress,
    /// The primary, if Sentinels named it, and its address.
    primary: Option<(NamedPrimary, String)>,
    user: Option<String>,
    /// Whether a reply was received. A failure before that may mean that the port uses another
    /// protocol.
    has_replied: bool,
    /// All missing permissions, determined after the first rejected command.
    lacking: Option<String>,
}

impl RedisConnection {
    /// Connects within `connect_timeout`.
    ///
    /// # Errors
    /// Returns an error if a certificate or the password cannot be read, the server does not
    /// respond, or the login fails.
    pub async fn open(
        endpoint: &RedisEndpoint,
        limits: &SampleLimits,
    ) -> Result<Self, SidekiqError> {
        let name = endpoint.to_string();
        let certificates = client::certificates(&endpoint.tls)?;
        let (address, primary) = server_of(endpoint, certificates.as_ref(), limits).await?;
        let login = Login::of(endpoint.username.as_deref(), endpoint.password.as_ref());
        let login = login.map_err(|problem| SidekiqError::Password { name: name.clone(), problem });
        let timeout = limits.connect_timeout.saturating_add(limits.answer_timeout);
        let connecting = client::connect(target(&address), login?, certificates, limits);
        let inner = match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(unusable(&name, &address, &error, false).await.into()),
            Err(_) => return Err(SidekiqError::Deadline { name, after: timeout }),
        };
        let (user, has_replied, lacking) = (endpoint.username.clone(), false, None);
        let mut connection = Self { inner, name, address, primary, user, has_replied, lacking };
        if connection.primary.is_some() {
            connection.reject_replica().await?;
        }
        if endpoint.database != 0 {
            connection.select(endpoint.database).await?;
        }
        Ok(connection)
    }

    /// Rejects a server that Sentinels name although it is a replica. A user without permission for
    /// `INFO` gets the server that they name.
    async fn reject_replica(&mut self) -> Result<(), RedisConnectionError> {
        let info = redis::cmd("INFO").arg("replication").query_async(&mut self.inner).await;
        let info: String = match info {
            Ok(info) => info,
            Err(error) if error.is_io_error() => {
                return Err(unusable(&self.name, &self.address, &error, false).await);
            }
            Err(_) => return Ok(()),
        };
        if !info.lines().any(|line| line == "role:slave") {
            return Ok(());
        }
        let message = format!("{} has role:slave", self.master().unwrap_or_default());
        let explanation = Some(Explanation::of_failover());
        let (name, kind) = (self.name.clone(), RedisErrorKind::ReadOnly);
        Err(RedisConnectionError { name, kind, message, explanation })
    }

    /// Selects the database. The client library does so as well, but hides the code of an error.
    async fn select(&mut self, database: i64) -> Result<(), RedisConnectionError> {
        const COMMAND: &str = "SELECT";
        let selected = redis::cmd(COMMAND).arg(database).exec_async(&mut self.inner).await;
        let Err(error) = selected else {
            self.has_replied = true;
            return Ok(());
        };
        let RedisErrorKind::NoPermission { command } = RedisErrorKind::of(&error, COMMAND) else {
            return Err(unusable(&self.name, &self.address, &error, false).await);
        };
        // Without `SELECT`, missing permissions cannot be determined, so all are listed.
        let rules = format!("~* {READ_ONLY_ACL} +select");
        let grant = grant::line(self.user.as_deref(), &rules);
        let message = error_kind::message(&error);
        Err(RedisConnectionError::no_permission(&self.name, command, message, grant))
    }

    /// Returns the name used in errors and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `HOST:PORT` of the master named by Sentinel, or `None` if Sentinel is not used.
    #[must_use]
    pub fn master(&self) -> Option<&str> {
        self.primary.as_ref().map(|(_, address)| address.as_str())
    }

    /// Returns the primary that Sentinels named.
    pub(crate) fn primary(&self) -> Option<&NamedPrimary> {
        self.primary.as_ref().map(|(primary, _)| primary)
    }

    /// Returns the underlying connection, for writing.
    pub(crate) const fn inner(&mut self) -> &mut MultiplexedConnection {
        &mut self.inner
    }

    /// Sends the queries in one round trip. Each gets its own reply or error.
    pub(crate) async fn query(
        &mut self,
        questions: &[Question],
    ) -> Result<Vec<ReplyResult>, RedisConnectionError> {
        let replies = self.replies(questions).await?;
        let is_not_allowed =
            |it: &ReplyResult| it.as_ref().is_err_and(|rejected| rejected.grant.is_some());
        if self.lacking.is_none() && replies.iter().any(is_not_allowed) {
            self.lacking = Some(self.missing_grants().await?);
        }
        Ok(replies.into_iter().map(|it| it.map_err(|rejected| self.with_line(rejected))).collect())
    }

    /// Returns all permissions that the user lacks for a sample. Reporting one at a time would take
    /// a sample for each.
    async fn missing_grants(&mut self) -> Result<String, RedisConnectionError> {
        let questions = ReadCommand::ALL.map(ReadCommand::least);
        let replies = self.replies(&questions).await?;
        let mut rules: Vec<String> = Vec::new();
        for rule in replies.into_iter().filter_map(|reply| reply.err()?.grant) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        // In the documented order: keys before commands.
        rules.sort_by_key(|rule| !rule.starts_with('~'));
        Ok(rules.join(" "))
    }

    async fn replies(
        &mut self,
        questions: &[Question],
    ) -> Result<Vec<ReplyResult>, RedisConnectionError> {
        let mut pipeline = Pipeline::with_capacity(questions.len());
        for question in questions {
            pipeline.add_command(question.to_command());
        }
        pipeline.ignore_errors();
        let values: Vec<Value> = match pipeline.query_async(&mut self.inner).await {
            Ok(values) => values,
            Err(error) => {
                let has_replied = self.has_replied;
                return Err(unusable(&self.name, &self.address, &error, has_replied).await);
            }
        };
        self.has_replied = true;
        for value in &values {
            if let Value::ServerError(error) = value {
                let text = error.details().unwrap_or_default();
                unusable_by_reply(&self.name, error.code(), text).map_or(Ok(()), Err)?;
            }
        }
        let replies = questions.iter().zip(values);
        Ok(replies.map(|(question, value)| question.answer(value)).collect())
    }

    /// Completes the error with a command that grants all missing permissions to the connection's
    /// user.
    pub(crate) fn with_line(&self, rejected: RejectedCommand) -> RejectedCommand {
        let lacking = self.lacking.as_deref().unwrap_or_default();
        let line = |rule: String| {
            let is_among = lacking.split(' ').any(|it| it == rule);
            let rules = match (is_among, lacking.is_empty()) {
                (true, _) => lacking.to_owned(),
                (false, true) => rule,
                (false, false) => format!("{lacking} {rule}"),
            };
            grant::line(self.user.as_deref(), &rules)
        };
        RejectedCommand { grant: rejected.grant.map(line), ..rejected }
    }

    /// Converts a rejected indispensable command to an error.
    pub(crate) fn rejected(&self, rejected: RejectedCommand) -> RedisConnectionError {
        let RejectedCommand { command, reason, grant } = rejected;
        match grant {
            Some(grant) => RedisConnectionError::no_permission(&self.name, command, reason, grant),
            None => {
                let message = format!("{command}: {reason}");
                RedisConnectionError::new(&self.name, RedisErrorKind::Other, message)
            }
        }
    }
}

/// Returns the address of the server, and what Sentinels named.
async fn server_of(
    endpoint: &RedisEndpoint,
    certificates: Option<&TlsCertificates>,
    limits: &SampleLimits,
) -> Result<(RedisAddress, Option<(NamedPrimary, String)>), RedisConnectionError> {
    let RedisAddress::Sentinel(sentinel) = &endpoint.address else {
        return Ok((endpoint.address.clone(), None));
    };
    let named = sentinel::primary(sentinel, certificates, limits.connect_timeout).await;
    let named = named.map_err(|error| RedisConnectionError {
        name: endpoint.to_string(),
        explanation: Some(Explanation::of_sentinels(&error.kind)),
        kind: error.kind,
        message: error.message,
    })?;
    let (host, port, address) = (named.host.clone(), named.port, named.address());
    Ok((RedisAddress::Tcp { host, port, tls: sentinel.tls }, Some((named, address))))
}

fn target(address: &RedisAddress) -> ConnectionAddr {
    match address {
        RedisAddress::Tcp { host, port, tls } => client::tcp(host, *port, *tls),
        RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
        RedisAddress::Sentinel(_) => unreachable!("it was replaced by the server that it names"),
    }
}

/// Returns why no command gets a reply. A broken connection or a rejected password may be due to a
/// server that rejects every client; a new connection gets the error that it sends to them.
async fn unusable(
    name: &str,
    address: &RedisAddress,
    error: &RedisError,
    has_replied: bool,
) -> RedisConnectionError {
    use RedisErrorKind::{Network, Other, WrongPassword};
    let kind = RedisErrorKind::of(error, "");
    if matches!(kind, WrongPassword | Network(NetworkErrorKind::Closed) | Other) {
        let greeting = greeting::of(address).await;
        let reply = greeting.as_deref().and_then(|greeting| greeting.split_once(' '));
        if let Some(error) = reply.and_then(|(code, text)| unusable_by_reply(name, code, text)) {
            return error;
        }
    }
    let explanation = match kind {
        Network(kind) if !has_replied => Explanation::of_connecting(address, kind),
        _ => Explanation::of_state(&kind),
    };
    let message = error_kind::message(error);
    RedisConnectionError { name: name.to_owned(), kind, message, explanation }
}

/// Returns the error of a Redis that replies to all commands with this error.
fn unusable_by_reply(name: &str, code: &str, text: &str) -> Option<RedisConnectionError> {
    let kind = RedisErrorKind::of_reply(code, text, "");
    let error = RedisConnectionError::new(name, kind, format!("{code} {text}"));
    error.remedy().is_some().then_some(error)
}

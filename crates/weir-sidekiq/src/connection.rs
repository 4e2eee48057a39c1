//! A connection to a Redis.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use weir_redis::{
    ConnectOptions, NamedPrimary, RedisConnectionError, RedisEndpoint, RedisErrorKind,
    ServerConnection, error_kind, grant,
};

use crate::error::SidekiqError;
use crate::limits::SampleLimits;
use crate::questions::{Question, READ_ONLY_ACL, ReadCommand, ReplyResult};
use crate::snapshot::RejectedCommand;

/// A connection. Its own methods only read.
#[derive(Debug)]
pub struct RedisConnection {
    server: ServerConnection,
    /// The address of the primary, if Sentinels named it.
    master: Option<String>,
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
        let options = ConnectOptions {
            connect_timeout: limits.connect_timeout,
            reply_timeout: limits.answer_timeout,
            acl_rules: format!("~* {READ_ONLY_ACL}"),
        };
        let server = ServerConnection::open(endpoint, &options).await?;
        let master = server.primary().map(NamedPrimary::address);
        // A database other than 0 was selected, with a reply.
        let has_replied = endpoint.database != 0;
        Ok(Self { server, master, has_replied, lacking: None })
    }

    /// Returns the name used in errors and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        self.server.name()
    }

    /// Returns `HOST:PORT` of the master named by Sentinel, or `None` if Sentinel is not used.
    #[must_use]
    pub fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    /// Returns the primary that Sentinels named.
    pub(crate) const fn primary(&self) -> Option<&NamedPrimary> {
        self.server.primary()
    }

    /// Returns the underlying connection, for writing.
    pub(crate) const fn inner(&mut self) -> &mut MultiplexedConnection {
        self.server.inner()
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
        let values: Vec<Value> = match pipeline.query_async(self.server.inner()).await {
            Ok(values) => values,
            Err(error) => {
                return Err(self.server.unusable(&error, self.has_replied).await);
            }
        };
        self.has_replied = true;
        for value in &values {
            if let Value::ServerError(error) = value {
                let text = error.details().unwrap_or_default();
                self.server.unusable_by_reply(error.code(), text).map_or(Ok(()), Err)?;
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
            grant::line(self.server.user(), &rules)
        };
        RejectedCommand { grant: rejected.grant.map(line), ..rejected }
    }

    /// Converts the error of a script. `grant`: the permissions that it needs.
    pub(crate) fn script_failed(
        &self,
        error: &redis::RedisError,
        grant: &str,
    ) -> RedisConnectionError {
        let message = error_kind::message(error);
        match RedisErrorKind::of(error, "a script") {
            RedisErrorKind::NoPermission { command } => {
                let (reason, grant) = (message, Some(grant.to_owned()));
                self.rejected(self.with_line(RejectedCommand { command, reason, grant }))
            }
            kind => RedisConnectionError::new(self.name(), kind, message),
        }
    }

    /// Converts a rejected indispensable command to an error.
    pub(crate) fn rejected(&self, rejected: RejectedCommand) -> RedisConnectionError {
        let RejectedCommand { command, reason, grant } = rejected;
        match grant {
            Some(grant) => RedisConnectionError::no_permission(self.name(), command, reason, grant),
            None => {
                let message = format!("{command}: {reason}");
                RedisConnectionError::new(self.name(), RedisErrorKind::Other, message)
            }
        }
    }
}

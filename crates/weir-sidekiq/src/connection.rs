//! A connection to a Redis.

use std::fs;
use std::path::Path;

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo,
    Pipeline, RedisConnectionInfo, RedisError, TlsCertificates, TlsMode, Value,
};

use crate::away;
use crate::endpoint::{RedisAddress, RedisEndpoint, Sentinel, TlsFiles};
use crate::error::SidekiqError;
use crate::grant;
use crate::greeting;
use crate::limits::SampleLimits;
use crate::questions::{Question, READ_ONLY_ACL, ReadCommand, ReplyResult};
use crate::snapshot::RejectedCommand;
use crate::unready;

/// A connection. Its own methods only read.
#[derive(Debug)]
pub struct RedisConnection {
    inner: MultiplexedConnection,
    name: String,
    address: RedisAddress,
    /// `HOST:PORT` of the master, if Sentinel was used.
    master: Option<String>,
    user: Option<String>,
    /// Whether a reply was received. A failure before that may mean that the port uses another
    /// protocol.
    has_answered: bool,
    /// All missing permissions, determined after the first rejected command.
    lacking: Option<String>,
}

impl RedisConnection {
    /// Connects within `connect_timeout`.
    ///
    /// # Errors
    /// Returns an error if a certificate cannot be read, the server does not respond, or the login
    /// fails.
    pub async fn open(
        endpoint: &RedisEndpoint,
        limits: &SampleLimits,
    ) -> Result<Self, SidekiqError> {
        let name = endpoint.to_string();
        let certificates = certificates(&endpoint.tls)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limits.connect_timeout))
            .set_response_timeout(Some(limits.answer_timeout));
        let connecting = async {
            let client = client(endpoint, certificates).await?;
            let inner = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok((inner, client.get_connection_info().addr().to_string()))
        };
        let timeout = limits.connect_timeout.saturating_add(limits.answer_timeout);
        match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok((inner, reached))) => {
                let (address, user) = (endpoint.address.clone(), endpoint.username.clone());
                let master = matches!(address, RedisAddress::Sentinel(_)).then_some(reached);
                Ok(Self { inner, name, address, master, user, has_answered: false, lacking: None })
            }
            Ok(Err(error)) => {
                Err(never_there(name, &endpoint.address, endpoint.username.as_deref(), &error)
                    .await)
            }
            Err(_) => Err(SidekiqError::Deadline { name, after: timeout }),
        }
    }

    /// Returns the name used in errors and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `HOST:PORT` of the master named by Sentinel, or `None` if Sentinel is not used.
    #[must_use]
    pub fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    /// Returns the underlying connection, for writing.
    pub(crate) const fn inner(&mut self) -> &mut MultiplexedConnection {
        &mut self.inner
    }

    /// Sends the queries in one round trip. Each gets its own reply or error.
    pub(crate) async fn query(
        &mut self,
        questions: &[Question],
    ) -> Result<Vec<ReplyResult>, SidekiqError> {
        let answers = self.answers(questions).await?;
        let is_not_allowed =
            |it: &ReplyResult| it.as_ref().is_err_and(|refusal| refusal.grant.is_some());
        if self.lacking.is_none() && answers.iter().any(is_not_allowed) {
            self.lacking = Some(self.missing_grants().await?);
        }
        Ok(answers.into_iter().map(|it| it.map_err(|refusal| self.with_line(refusal))).collect())
    }

    /// Returns all permissions that the user lacks for a sample. Reporting one at a time would take
    /// a sample for each.
    async fn missing_grants(&mut self) -> Result<String, SidekiqError> {
        let questions = ReadCommand::ALL.map(ReadCommand::least);
        let answers = self.answers(&questions).await?;
        let mut rules: Vec<String> = Vec::new();
        for rule in answers.into_iter().filter_map(|answer| answer.err()?.grant) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        // In the documented order: keys before commands.
        rules.sort_by_key(|rule| !rule.starts_with('~'));
        Ok(rules.join(" "))
    }

    async fn answers(&mut self, questions: &[Question]) -> Result<Vec<ReplyResult>, SidekiqError> {
        let mut pipeline = Pipeline::with_capacity(questions.len());
        for question in questions {
            pipeline.add_command(question.to_command());
        }
        pipeline.ignore_errors();
        let values: Result<Vec<Value>, _> = pipeline.query_async(&mut self.inner).await;
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                let (name, user) = (self.name.clone(), self.user.as_deref());
                return Err(match self.has_answered {
                    true => why(name, &self.address, user, &error).await,
                    false => never_there(name, &self.address, user, &error).await,
                });
            }
        };
        self.has_answered = true;
        for value in &values {
            if let Value::ServerError(error) = value {
                self.must_be_ready(&format!("{} {}", error.code(), error.details().unwrap_or("")))?;
            }
        }
        let answers = questions.iter().zip(values);
        Ok(answers.map(|(question, value)| question.answer(value)).collect())
    }

    /// Completes the error with a command that grants all missing permissions to the connection's
    /// user.
    pub(crate) fn with_line(&self, refusal: RejectedCommand) -> RejectedCommand {
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
        RejectedCommand { grant: refusal.grant.map(line), ..refusal }
    }

    fn must_be_ready(&self, said: &str) -> Result<(), SidekiqError> {
        unready(&self.name, said).map_or(Ok(()), Err)
    }

    pub(crate) fn failed(&self, error: &RedisError) -> SidekiqError {
        failed(self.name.clone(), self.user.as_deref(), error)
    }

    /// Converts a rejected indispensable command to an error.
    pub(crate) fn refused(&self, refusal: RejectedCommand) -> SidekiqError {
        let (name, RejectedCommand { command, reason, grant }) = (self.name.clone(), refusal);
        match grant {
            Some(grant) => SidekiqError::Refused { name, command, reason, grant },
            None => SidekiqError::Connection { name, reason: format!("{command}: {reason}") },
        }
    }
}

fn unready(name: &str, said: &str) -> Option<SidekiqError> {
    unready::of(said).map(|trouble| SidekiqError::Unready {
        name: name.to_owned(),
        kind: trouble.kind,
        what: trouble.what,
        reason: said.trim().to_owned(),
        remedy: trouble.remedy,
    })
}

/// Returns the cause of a failure. A broken connection or a rejected password may be due to a
/// server that rejects every client. In that case, a new connection shows the server's message.
async fn why(
    name: String,
    address: &RedisAddress,
    user: Option<&str>,
    error: &RedisError,
) -> SidekiqError {
    let failed = failed(name.clone(), user, error);
    let is_told = match &failed {
        SidekiqError::Connection { .. } => error.is_connection_refusal() || error.is_timeout(),
        _ => error.kind() != ErrorKind::AuthenticationFailed,
    };
    if is_told {
        return failed;
    }
    let said = greeting::of(address).await;
    said.and_then(|said| unready(&name, &said)).unwrap_or(failed)
}

fn failed(name: String, user: Option<&str>, error: &RedisError) -> SidekiqError {
    let detail = error.detail().unwrap_or_default();
    let said = format!("{} {detail}", error.code().unwrap_or_default());
    if let Some(unready) = unready(&name, &said) {
        return unready;
    }
    if error.kind() == ErrorKind::AuthenticationFailed {
        // The client library does not return the server's message.
        return unready(&name, "WRONGPASS ").expect("it is one of the troubles");
    }
    if detail.contains("'select'") {
        // Without `SELECT`, missing permissions cannot be determined, so all are listed.
        let rules = format!("~* {READ_ONLY_ACL} +select");
        let (command, grant) = ("SELECT".to_owned(), grant::line(user, &rules));
        return SidekiqError::Refused { name, command, reason: detail.to_owned(), grant };
    }
    SidekiqError::Connection { name, reason: error.to_string() }
}

/// Returns why a connection failed, with the remedy.
async fn never_there(
    name: String,
    address: &RedisAddress,
    user: Option<&str>,
    error: &RedisError,
) -> SidekiqError {
    match why(name, address, user, error).await {
        SidekiqError::Connection { name, reason } => match away::of(address, error) {
            Some(away::Away { kind, what, remedy }) => {
                SidekiqError::Unready { name, kind, what, reason, remedy }
            }
            None => SidekiqError::Connection { name, reason },
        },
        other => other,
    }
}

async fn client(
    endpoint: &RedisEndpoint,
    certificates: Option<TlsCertificates>,
) -> Result<Client, RedisError> {
    let address = match &endpoint.address {
        RedisAddress::Tcp { host, port, tls } => tcp(host, *port, *tls),
        RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
        RedisAddress::Sentinel(sentinel) => {
            return by_sentinel(endpoint, sentinel, certificates).await;
        }
    };
    let info = address.into_connection_info()?.set_redis_settings(login(endpoint));
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

fn tcp(host: &str, port: u16, tls: bool) -> ConnectionAddr {
    if tls {
        let host = host.to_owned();
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.to_owned(), port)
    }
}

/// Disables `CLIENT SETINFO`, which the documented ACL does not allow.
fn login(endpoint: &RedisEndpoint) -> RedisConnectionInfo {
    let mut login =
        RedisConnectionInfo::default().set_db(endpoint.database).set_skip_set_lib_name();
    if let Some(username) = &endpoint.username {
        login = login.set_username(username);
    }
    if let Some(password) = &endpoint.password {
        login = login.set_password(password.expose());
    }
    login
}

async fn by_sentinel(
    endpoint: &RedisEndpoint,
    sentinel: &Sentinel,
    certificates: Option<TlsCertificates>,
) -> Result<Client, RedisError> {
    let addresses = sentinel.addresses.iter().map(|(host, port)| tcp(host, *port, sentinel.tls));
    let mut builder =
        SentinelClientBuilder::new(addresses, &sentinel.service, SentinelServerType::Master)?
            .set_client_to_redis_db(endpoint.database);
    if let Some(username) = &endpoint.username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = &endpoint.password {
        builder = builder.set_client_to_redis_password(password.expose());
    }
    if let Some(username) = &sentinel.username {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = &sentinel.password {
        builder = builder.set_client_to_sentinel_password(password.expose());
    }
    if sentinel.tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
        if let Some(certificates) = certificates {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
    }
    let found = builder.build()?.async_get_client().await?;
    let info = found.get_connection_info().clone();
    let login = info.redis_settings().clone().set_skip_set_lib_name();
    Client::open(info.set_redis_settings(login))
}

fn certificates(files: &TlsFiles) -> Result<Option<TlsCertificates>, SidekiqError> {
    if *files == TlsFiles::default() {
        return Ok(None);
    }
    let root_cert = files.authority.as_deref().map(read).transpose()?;
    let client_tls = match &files.client {
        None => None,
        Some((certificate, key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
    };
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}

fn read(path: &Path) -> Result<Vec<u8>, SidekiqError> {
    let failed = |source| SidekiqError::Certificate { path: path.display().to_string(), source };
    fs::read(path).map_err(failed)
}

//! Channel names, and what a channel's name says about it.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::excerpt::Excerpt;
use super::limits::PusherLimits;

/// The channel of one signed-in user has this prefix; the rest of its name is the user's id.
pub const SERVER_TO_USER_PREFIX: &str = "#server-to-user-";

/// A channel that keeps its last event has this behind the prefix that says who may subscribe.
const CACHE_PREFIX: &str = "cache-";

/// A channel's name: never empty, within the limit, of the protocol's characters. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName(Arc<str>);

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelNameError {
    /// Nothing there.
    #[error("the channel name is empty")]
    Empty,
    /// Longer than the limit.
    #[error("the channel name has {bytes} bytes; at most {max} are allowed")]
    TooLong { bytes: usize, max: usize },
    /// A character that the protocol has no place for.
    #[error(
        "channel '{}' has {character:?} at byte {position}; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        Excerpt(.name)
    )]
    Character { name: String, character: char, position: usize },
    /// The channel of a user, without the user.
    #[error("'{SERVER_TO_USER_PREFIX}' must be followed by a user's id")]
    NoUser,
    /// Prefixes, and no name behind them.
    #[error("channel '{prefix}' has no name: something must follow the prefix")]
    OnlyPrefix { prefix: String },
}

impl ChannelName {
    /// Checks `name` against the alphabet and the limit.
    ///
    /// # Errors
    /// What is wrong with the name, and where.
    pub fn parse(name: &str, limits: &PusherLimits) -> Result<Self, ChannelNameError> {
        check_length(name, limits.channel_name_bytes_max)?;
        match name.strip_prefix(SERVER_TO_USER_PREFIX) {
            Some("") => return Err(ChannelNameError::NoUser),
            // A user's id has more freedom than a channel's name: "auth0|5f7" is common.
            Some(_) => check_characters(name, |character| !character.is_control())?,
            None => check_characters(name, is_allowed)?,
        }
        if without_prefixes(name).is_empty() {
            return Err(ChannelNameError::OnlyPrefix { prefix: name.to_owned() });
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the name says about the channel.
    #[must_use]
    pub fn kind(&self) -> ChannelKind {
        ChannelKind::of(&self.0)
    }

    /// The user whose channel this is.
    #[must_use]
    pub fn server_to_user(&self) -> Option<&str> {
        self.0.strip_prefix(SERVER_TO_USER_PREFIX)
    }
}

impl Borrow<str> for ChannelName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn check_length(name: &str, max: usize) -> Result<(), ChannelNameError> {
    match name.len() {
        0 => Err(ChannelNameError::Empty),
        bytes if bytes > max => Err(ChannelNameError::TooLong { bytes, max }),
        _ => Ok(()),
    }
}

fn check_characters(name: &str, allowed: impl Fn(char) -> bool) -> Result<(), ChannelNameError> {
    match name.char_indices().find(|(_, character)| !allowed(*character)) {
        None => Ok(()),
        Some((position, character)) => {
            Err(ChannelNameError::Character { name: name.to_owned(), character, position })
        }
    }
}

/// What remains of a name behind the prefixes that say what the channel is.
fn without_prefixes(name: &str) -> &str {
    match Access::of(name) {
        (Access::ServerToUser, user) => user,
        (_, rest) => rest.strip_prefix(CACHE_PREFIX).unwrap_or(rest),
    }
}

const fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(character, '_' | '-' | '=' | '@' | ',' | '.' | ';')
}

/// Who may subscribe, and what a subscription means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Everybody.
    Public,
    /// Whom the application's server authorised.
    Private,
    /// The same, and subscribers see who else is there.
    Presence,
    /// The same as private; the data is encrypted between the application's server and its clients.
    Encrypted,
    /// A connection signed in as that user, and no other.
    ServerToUser,
}

/// What a channel's prefixes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelKind {
    /// Who may subscribe.
    pub access: Access,
    /// Whether the last event is kept for who subscribes later.
    pub caches: bool,
}

impl ChannelKind {
    /// Reads the prefixes of `name`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let (access, rest) = Access::of(name);
        Self { access, caches: access != Access::ServerToUser && rest.starts_with(CACHE_PREFIX) }
    }

    /// Whether a subscription carries a signature of the application's server.
    #[must_use]
    pub const fn needs_auth(self) -> bool {
        matches!(self.access, Access::Private | Access::Presence | Access::Encrypted)
    }

    /// Whether clients may send `client-` events. Not on encrypted channels: no library encrypts
    /// them, so their data would travel in clear text where subscribers expect none.
    #[must_use]
    pub const fn allows_client_events(self) -> bool {
        matches!(self.access, Access::Private | Access::Presence)
    }

    /// Whether it has members.
    #[must_use]
    pub const fn has_presence(self) -> bool {
        matches!(self.access, Access::Presence)
    }

    /// Whether `subscription_count` is sent: a presence channel's members tell already.
    #[must_use]
    pub const fn sends_subscription_count(self) -> bool {
        matches!(self.access, Access::Public | Access::Private | Access::Encrypted)
    }
}

impl Access {
    fn of(name: &str) -> (Self, &str) {
        const PREFIXES: [(&str, Access); 4] = [
            ("private-encrypted-", Access::Encrypted),
            ("private-", Access::Private),
            ("presence-", Access::Presence),
            (SERVER_TO_USER_PREFIX, Access::ServerToUser),
        ];
        PREFIXES
            .into_iter()
            .find_map(|(prefix, access)| Some((access, name.strip_prefix(prefix)?)))
            .unwrap_or((Self::Public, name))
    }
}

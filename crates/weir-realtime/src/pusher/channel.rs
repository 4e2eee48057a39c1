//! Channel names, and the kinds of channels that they denote.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::excerpt::Excerpt;
use super::limits::PusherLimits;

/// The prefix of a signed-in user's own channel. The user's id follows it.
pub const SERVER_TO_USER_PREFIX: &str = "#server-to-user-";

/// The beginning of the names of the channels that have the signed-in users of an app on all nodes. No client
/// and no server can use such a name.
pub(crate) const DIRECTORY_PREFIX: &str = "#users-";

/// The prefix of a cache channel, after the one that determines the access.
const CACHE_PREFIX: &str = "cache-";

/// A valid channel name: not empty, within the limit, with the protocol's characters only. Cheap to
/// clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName(Arc<str>);

/// Why a name was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelNameError {
    /// The name is empty.
    #[error("the channel name is empty")]
    Empty,
    /// The name is longer than the limit.
    #[error("the channel name has {bytes} bytes; at most {max} are allowed")]
    TooLong { bytes: usize, max: usize },
    /// The name has a character that the protocol does not allow.
    #[error(
        "channel '{}' has {character:?} at byte {position}; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        Excerpt(.name)
    )]
    Character { name: String, character: char, position: usize },
    /// The name is that of a user's channel, without the user.
    #[error("'{SERVER_TO_USER_PREFIX}' must be followed by a user's id")]
    NoUser,
    /// The name has only prefixes.
    #[error("channel '{prefix}' has no name: something must follow the prefix")]
    OnlyPrefix { prefix: String },
}

impl ChannelName {
    /// Validates `name`.
    ///
    /// # Errors
    /// Returns what is wrong with the name, and where.
    pub fn parse(name: &str, limits: &PusherLimits) -> Result<Self, ChannelNameError> {
        check_length(name, limits.channel_name_bytes_max)?;
        match name.strip_prefix(SERVER_TO_USER_PREFIX) {
            Some("") => return Err(ChannelNameError::NoUser),
            // User ids may have other characters than channel names: "auth0|5f7" is common.
            Some(_) => check_characters(name, |character| !character.is_control())?,
            None => check_characters(name, is_allowed)?,
        }
        if without_prefixes(name).is_empty() {
            return Err(ChannelNameError::OnlyPrefix { prefix: name.to_owned() });
        }
        Ok(Self(Arc::from(name)))
    }

    /// Returns the name of a part of the directory of signed-in users, which [`Self::parse`] rejects.
    pub(crate) fn of_directory(part: usize) -> Self {
        Self(format!("{DIRECTORY_PREFIX}{part}").into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the kind of channel that the name denotes.
    #[must_use]
    pub fn kind(&self) -> ChannelKind {
        ChannelKind::of(&self.0)
    }

    /// Returns the user's id if this is a user's own channel.
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

/// Returns the name without the prefixes that determine the kind.
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

/// Who may subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// All clients.
    Public,
    /// Clients that the application's server authorizes.
    Private,
    /// As private. Subscribers also see the other members.
    Presence,
    /// As private. Data is encrypted between the application's server and its clients.
    Encrypted,
    /// Connections that are signed in as the channel's user.
    ServerToUser,
}

/// The kind of a channel, from its name's prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelKind {
    /// The access that the prefix requires.
    pub access: Access,
    /// Whether the last event is stored for later subscribers.
    pub caches: bool,
}

impl ChannelKind {
    /// Parses the prefixes of `name`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let (access, rest) = Access::of(name);
        Self { access, caches: access != Access::ServerToUser && rest.starts_with(CACHE_PREFIX) }
    }

    /// Returns whether subscribing requires a signature of the application's server.
    #[must_use]
    pub const fn needs_auth(self) -> bool {
        matches!(self.access, Access::Private | Access::Presence | Access::Encrypted)
    }

    /// Returns whether clients may send `client-` events. They may not on encrypted channels: no
    /// library encrypts them, so their data would be sent unencrypted where subscribers don't
    /// expect it.
    #[must_use]
    pub const fn allows_client_events(self) -> bool {
        matches!(self.access, Access::Private | Access::Presence)
    }

    /// Returns whether the channel has members.
    #[must_use]
    pub const fn has_presence(self) -> bool {
        matches!(self.access, Access::Presence)
    }

    /// Returns whether subscribers receive `subscription_count`. A presence channel's members
    /// already show the count.
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

//! Users and tokens in effect: they change at a reload, and sessions whose user has changed end with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use weir_access::{PasswordHash, Role};
use weir_base::secret::Secret;

use super::token;
use crate::settings::access::{ADMIN, ANONYMOUS};
use crate::settings::{ConsoleSettings, ConsoleToken, ConsoleUser};

/// The users and tokens of the console. Cheap to clone; a reload changes all clones.
#[derive(Clone, Debug)]
pub struct Accounts(Arc<ArcSwap<AccountSet>>);

#[derive(Debug)]
struct AccountSet {
    password: Option<Secret>,
    users: BTreeMap<String, ConsoleUser>,
    token: Option<Secret>,
    tokens: BTreeMap<String, ConsoleToken>,
}

/// Who someone is, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
}

/// An identity with the password that proved it, as a digest. A session is valid as long as this is that of its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginProof {
    pub(crate) identity: Identity,
    password: [u8; 32],
}

/// How a password is checked.
#[derive(Clone, Debug)]
pub(crate) enum PasswordCheck {
    /// It is the shared password.
    Shared(Secret),
    Hash(PasswordHash),
    /// There is no such user. A hash is checked all the same, so that the time does not tell.
    NoSuchUser(Option<PasswordHash>),
}

/// A user as the page of users shows it.
#[derive(Clone, Debug)]
pub(crate) struct ListedAccount {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Where its password or token is set.
    pub(crate) setting: String,
    pub(crate) is_user: bool,
}

impl Accounts {
    /// Takes users and tokens from the settings.
    #[must_use]
    pub fn new(settings: &ConsoleSettings) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(AccountSet::new(settings))))
    }

    /// Replaces them. Returns the setting that needs a restart: the last login is not removed while the console may
    /// listen on an address that was chosen because there was one.
    pub fn reload(&self, settings: &ConsoleSettings) -> Option<String> {
        let fresh = AccountSet::new(settings);
        if self.has_login() && !fresh.has_login() {
            return Some("console".to_owned());
        }
        self.0.store(Arc::new(fresh));
        None
    }

    /// Returns whether visitors must log in.
    pub(crate) fn has_login(&self) -> bool {
        self.0.load().has_login()
    }

    /// Returns whether logins need a name.
    pub(crate) fn has_users(&self) -> bool {
        !self.0.load().users.is_empty()
    }

    pub(crate) fn has_tokens(&self) -> bool {
        let accounts = self.0.load();
        accounts.token.is_some() || !accounts.tokens.is_empty()
    }

    /// Returns how the password of a user is checked. No name means the one whose password is shared.
    pub(crate) fn check_for(&self, name: &str) -> PasswordCheck {
        let accounts = self.0.load();
        let user = accounts.users.get(name).and_then(|user| user.password_hash.clone());
        match (user, &accounts.password) {
            (Some(hash), _) => PasswordCheck::Hash(hash),
            (None, Some(password)) if name.is_empty() || name == ADMIN => {
                PasswordCheck::Shared(password.clone())
            }
            (None, _) => {
                let any = accounts.users.values().next();
                PasswordCheck::NoSuchUser(any.and_then(|user| user.password_hash.clone()))
            }
        }
    }

    /// Returns what proves a login of this user now. None: there is no such user.
    pub(crate) fn proof(&self, name: &str) -> Option<LoginProof> {
        let accounts = self.0.load();
        let (name, role, password) = match (accounts.users.get(name), &accounts.password) {
            (Some(user), _) => (name, user.role, user.password_hash.as_ref()?.expose()),
            (None, Some(password)) if name.is_empty() || name == ADMIN => {
                (ADMIN, Role::Admin, password.expose())
            }
            (None, _) => return None,
        };
        let identity = Identity { name: Arc::from(name), role };
        Some(LoginProof { identity, password: Sha256::digest(password).into() })
    }

    /// Returns whether a session with this login is still valid.
    pub(crate) fn is_current(&self, login: &LoginProof) -> bool {
        self.proof(&login.identity.name).is_some_and(|current| current == *login)
    }

    /// Returns the identity of a token. The time does not depend on which one it is.
    pub(crate) fn token(&self, sent: &str) -> Option<Identity> {
        let accounts = self.0.load();
        let named =
            accounts.tokens.iter().map(|(name, it)| (format!("token {name}"), it.role, &it.token));
        let shared = accounts.token.iter().map(|it| ("token".to_owned(), Role::Admin, it));
        let mut found = None;
        for (name, role, token) in shared.chain(named) {
            if token::constant_time_eq(token.expose(), sent) {
                found = found.or(Some(Identity { name: Arc::from(name), role }));
            }
        }
        found
    }

    /// Returns all users and tokens.
    pub(crate) fn list(&self) -> Vec<ListedAccount> {
        let accounts = self.0.load();
        let listed = |name: &str, role, setting: String, is_user| ListedAccount {
            name: name.to_owned(),
            role,
            setting,
            is_user,
        };
        let shared = accounts
            .password
            .iter()
            .map(|_| listed(ADMIN, Role::Admin, ConsoleSettings::PASSWORD.to_string(), true));
        let users = accounts
            .users
            .iter()
            .map(|(name, user)| listed(name, user.role, format!("console.users.{name}"), true));
        let token = accounts
            .token
            .iter()
            .map(|_| listed("token", Role::Admin, ConsoleSettings::TOKEN.to_string(), false));
        let tokens = accounts.tokens.iter().map(|(name, token)| {
            listed(&format!("token {name}"), token.role, format!("console.tokens.{name}"), false)
        });
        shared.chain(users).chain(token).chain(tokens).collect()
    }
}

impl AccountSet {
    fn new(settings: &ConsoleSettings) -> Self {
        Self {
            password: settings.password.clone(),
            users: settings.users.clone(),
            token: settings.token.clone(),
            tokens: settings.tokens.clone(),
        }
    }

    fn has_login(&self) -> bool {
        self.password.is_some() || !self.users.is_empty()
    }
}

impl Identity {
    /// A visitor of a console without logins.
    pub(crate) fn anonymous() -> Self {
        Self { name: Arc::from(ANONYMOUS), role: Role::Admin }
    }

    /// A visitor who has to log in first.
    pub(crate) fn stranger() -> Self {
        Self { name: Arc::from(ANONYMOUS), role: Role::Viewer }
    }
}

impl PasswordCheck {
    /// Checks a password. Takes memory and time: not for a thread that serves requests.
    pub(crate) fn accepts(&self, password: &str) -> bool {
        match self {
            Self::Shared(expected) => token::constant_time_eq(password, expected.expose()),
            Self::Hash(hash) => hash.matches(password),
            Self::NoSuchUser(hash) => {
                let _ = hash.as_ref().map(|hash| hash.matches(password));
                false
            }
        }
    }

    /// Returns whether the check is one that takes memory and time.
    pub(crate) const fn is_costly(&self) -> bool {
        matches!(self, Self::Hash(_) | Self::NoSuchUser(Some(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ConsoleSettings {
        let user = |password: &str, role| ConsoleUser {
            password_hash: Some(PasswordHash::of(password)),
            role,
        };
        ConsoleSettings {
            password: Some(Secret::new("shared")),
            users: BTreeMap::from([
                ("ann".to_owned(), user("of ann", Role::Viewer)),
                ("ben".to_owned(), user("of ben", Role::Operator)),
            ]),
            ..ConsoleSettings::default()
        }
    }

    #[test]
    fn each_password_is_that_of_its_user_only() {
        let accounts = Accounts::new(&settings());
        let accepts = |name: &str, password: &str| accounts.check_for(name).accepts(password);
        assert!(accepts("ann", "of ann") && accepts("ben", "of ben"));
        assert!(accepts("", "shared") && accepts("admin", "shared"));
        for (name, password) in
            [("ann", "of ben"), ("ann", "shared"), ("", "of ann"), ("eve", "shared")]
        {
            assert!(!accepts(name, password), "{name} {password}");
        }
        assert!(accounts.check_for("eve").is_costly(), "the time does not tell who exists");
        assert_eq!(accounts.proof("").map(|it| it.identity.role), Some(Role::Admin));
        assert_eq!(accounts.proof("ann").map(|it| it.identity.role), Some(Role::Viewer));
        assert!(accounts.proof("eve").is_none());
    }

    #[test]
    fn a_login_ends_with_its_user_role_or_password() {
        let accounts = Accounts::new(&settings());
        let (ann, shared) = (accounts.proof("ann").unwrap(), accounts.proof("").unwrap());
        let after = |change: fn(&mut ConsoleSettings)| {
            let mut changed = settings();
            changed.users = accounts.0.load().users.clone();
            change(&mut changed);
            let others = Accounts::new(&changed);
            (others.is_current(&ann), others.is_current(&shared))
        };
        assert_eq!(after(|_| {}), (true, true));
        assert_eq!(after(|it| drop(it.users.remove("ben"))), (true, true));
        assert_eq!(after(|it| drop(it.users.remove("ann"))), (false, true));
        assert_eq!(after(|it| it.users.get_mut("ann").unwrap().role = Role::Admin), (false, true));
        let rehashed = after(|it| {
            it.users.get_mut("ann").unwrap().password_hash = Some(PasswordHash::of("of ann"));
        });
        assert_eq!(rehashed, (false, true));
        assert_eq!(after(|it| it.password = Some(Secret::new("other"))), (true, false));
    }

    #[test]
    fn the_last_login_is_not_removed_by_a_reload() {
        let accounts = Accounts::new(&settings());
        let open = ConsoleSettings::default();
        assert_eq!(accounts.reload(&open).as_deref(), Some("console"));
        assert!(accounts.has_login());
        let shared_only = ConsoleSettings { password: Some(Secret::new("x")), ..open.clone() };
        assert_eq!(accounts.reload(&shared_only), None);
        assert!(!accounts.has_users());
        let accounts = Accounts::new(&open);
        assert_eq!(accounts.reload(&shared_only), None);
        assert!(accounts.has_login());
    }
}

//! Hashes of passwords: Argon2id, in the usual text form `$argon2id$v=19$m=..,t=..,p=..$SALT$HASH`.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

/// Limits of a hash's parameters. More memory or passes would let a few logins use up the machine; less would make
/// guessing cheap for a thief of the file. OWASP's weakest choice has 7 MiB.
const MEMORY_KIB: std::ops::RangeInclusive<u32> = 7 << 10..=256 << 10;
const PASSES: std::ops::RangeInclusive<u32> = 1..=20;
const LANES: std::ops::RangeInclusive<u32> = 1..=16;
const HASH_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// Longest accepted password; a longer form field is no password of a person.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

const SALT_BYTES: usize = 16;

/// A valid hash whose verification takes limited memory and time.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

/// Why a text is no usable hash. It never contains the text, which may be a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordHashError {
    #[error("this is no Argon2id hash; run `weir console hash-password` and paste its output")]
    NotAHash,
    #[error(
        "the hash was made by another algorithm than Argon2id; run `weir console hash-password`"
    )]
    OtherAlgorithm,
    #[error(
        "the hash has {name} = {value}, and {min} to {max} are accepted; run `weir console hash-password`"
    )]
    Parameter { name: &'static str, value: usize, min: usize, max: usize },
}

impl PasswordHash {
    /// Hashes a password with a random salt and the parameters that OWASP recommends. Takes 19 MiB and tens of
    /// milliseconds: not for a thread that serves requests.
    ///
    /// # Panics
    /// If the system has no random numbers: no hash would be safe.
    #[must_use]
    pub fn of(password: &str) -> Self {
        let mut salt = [0_u8; SALT_BYTES];
        getrandom::fill(&mut salt).expect("the system gives random numbers");
        let hash = hasher(Params::DEFAULT).hash_password_with_salt(password.as_bytes(), &salt);
        Self(hash.expect("the salt and the parameters are within the limits").to_string())
    }

    /// Returns whether this is the hash of `password`. Takes memory and time as the hash says: not for a thread that
    /// serves requests.
    #[must_use]
    pub fn matches(&self, password: &str) -> bool {
        let parsed = phc::PasswordHash::new(&self.0);
        let is_short = password.len() <= PASSWORD_BYTES_MAX;
        is_short
            && parsed.is_ok_and(|hash| {
                hasher(Params::DEFAULT).verify_password(password.as_bytes(), &hash).is_ok()
            })
    }

    /// Returns the text for the settings.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

fn hasher(params: Params) -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

impl FromStr for PasswordHash {
    type Err = PasswordHashError;

    fn from_str(text: &str) -> Result<Self, PasswordHashError> {
        let hash = phc::PasswordHash::new(text).map_err(|_| PasswordHashError::NotAHash)?;
        let is_current = hash.version == Some(Version::V0x13.into());
        if hash.algorithm != Algorithm::Argon2id.ident() || !is_current {
            return Err(PasswordHashError::OtherAlgorithm);
        }
        let params = Params::try_from(&hash).map_err(|_| PasswordHashError::NotAHash)?;
        check(
            "m",
            params.m_cost() as usize,
            *MEMORY_KIB.start() as usize,
            *MEMORY_KIB.end() as usize,
        )?;
        check("t", params.t_cost() as usize, *PASSES.start() as usize, *PASSES.end() as usize)?;
        check("p", params.p_cost() as usize, *LANES.start() as usize, *LANES.end() as usize)?;
        let (Some(_), Some(output)) = (&hash.salt, &hash.hash) else {
            return Err(PasswordHashError::NotAHash);
        };
        check("bytes", output.len(), *HASH_BYTES.start(), *HASH_BYTES.end())?;
        Ok(Self(text.to_owned()))
    }
}

fn check(
    name: &'static str,
    value: usize,
    min: usize,
    max: usize,
) -> Result<(), PasswordHashError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(PasswordHashError::Parameter { name, value, min, max }),
    }
}

/// The algorithm and its parameters: what `weir check` shows.
impl fmt::Display for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.match_indices('$').nth(3).map_or(0, |(at, _)| at);
        write!(formatter, "{}$..", &self.0[..end])
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PasswordHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of `correct horse`, with the least memory.
    const HASH: &str = "$argon2id$v=19$m=7168,t=1,p=1$c29tZXNhbHQ$";

    #[test]
    fn a_hash_matches_its_password_only() {
        let hash = PasswordHash::of("correct horse");
        assert!(hash.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(hash.matches("correct horse"));
        for wrong in ["correct horse ", "Correct horse", "", &"x".repeat(PASSWORD_BYTES_MAX + 1)] {
            assert!(!hash.matches(wrong));
        }
        assert_eq!(hash.expose().parse::<PasswordHash>(), Ok(hash.clone()));
        assert_ne!(PasswordHash::of("correct horse"), hash, "the salt differs");
    }

    #[test]
    fn a_hash_is_not_displayed() {
        let hash = PasswordHash::of("x");
        let shown = format!("{hash} {hash:?}");
        assert!(shown.starts_with("$argon2id$v=19$m=19456,t=2,p=1$.. "), "{shown}");
        let secret = hash.expose().rsplit('$').next().unwrap();
        assert!(!shown.contains(secret));
    }

    #[test]
    fn hashes_that_are_weak_costly_or_of_another_kind_are_rejected() {
        let output = "A".repeat(43);
        let parse = |text: String| text.parse::<PasswordHash>().map(drop);
        assert_eq!(parse(format!("{HASH}{output}")), Ok(()));
        let parameter =
            |name, value, min, max| Err(PasswordHashError::Parameter { name, value, min, max });
        let with = |from: &str, to: &str| parse(format!("{HASH}{output}").replace(from, to));
        assert_eq!(with("m=7168", "m=4194304"), parameter("m", 4_194_304, 7_168, 262_144));
        assert_eq!(with("m=7168", "m=8"), parameter("m", 8, 7_168, 262_144));
        assert_eq!(with("t=1", "t=4000000000"), parameter("t", 4_000_000_000, 1, 20));
        assert_eq!(with("p=1", "p=17"), parameter("p", 17, 1, 16));
        assert_eq!(with(&output, &"A".repeat(14)), parameter("bytes", 10, 16, 64));
        assert_eq!(with("argon2id", "argon2i"), Err(PasswordHashError::OtherAlgorithm));
        assert_eq!(with("v=19", "v=16"), Err(PasswordHashError::OtherAlgorithm));
        for text in [
            "",
            "hunter2",
            "$2b$12$abcdefghijklmnopqrstuv",
            "$argon2id$",
            "$argon2id$v=19$m=7168,t=1,p=1",
            "$argon2id$v=19$m=7168,t=1,p=1$c29tZXNhbHQ",
            "$argon2id$v=19$m=7168,t=1,p=1,x=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=99999999999,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
        ] {
            let error = parse(text.to_owned()).unwrap_err();
            assert!(text.is_empty() || !error.to_string().contains(text), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_hash_or_an_error(text in "\\PC{0,120}", tail in "[$a-z0-9=,]{0,60}") {
            let _ = text.parse::<PasswordHash>();
            if let Ok(hash) = format!("$argon2id$v=19${tail}").parse::<PasswordHash>() {
                let _ = hash.to_string();
            }
        }
    }
}

//! Maps paths to endpoints.

use std::borrow::Cow;

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::Failure;
use crate::marshal::SpecList;
use crate::mirror::HookRoute;
use crate::store::TextKind;

/// An endpoint. Its name is a label of metrics and the name of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented by its name")]
pub enum Endpoint {
    Root,
    Names,
    Versions,
    Info,
    Dependencies,
    Specs,
    Gemspec,
    File,
    Push,
    Yank,
    Hook,
}

impl Endpoint {
    /// All endpoints.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Root,
        Self::Names,
        Self::Versions,
        Self::Info,
        Self::Dependencies,
        Self::Specs,
        Self::Gemspec,
        Self::File,
        Self::Push,
        Self::Yank,
        Self::Hook,
    ];
    /// Number of endpoints.
    pub const COUNT: usize = 11;

    /// Returns the endpoint's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Names => "names",
            Self::Versions => "versions",
            Self::Info => "info",
            Self::Dependencies => "dependencies",
            Self::Specs => "specs",
            Self::Gemspec => "gemspec",
            Self::File => "file",
            Self::Push => "push",
            Self::Yank => "yank",
            Self::Hook => "hook",
        }
    }

    /// Returns whether the endpoint serves data that clients install. The others
    /// require a key or a secret of their own.
    pub(super) const fn is_read(self) -> bool {
        !matches!(self, Self::Push | Self::Yank | Self::Hook)
    }

    pub(super) fn takes(self, method: &Method) -> bool {
        match self {
            Self::Push | Self::Hook => method == Method::POST,
            Self::Yank => method == Method::DELETE,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }

    pub(super) const fn methods(self) -> &'static str {
        match self {
            Self::Push | Self::Hook => "POST",
            Self::Yank => "DELETE",
            _ => "GET, HEAD",
        }
    }
}

/// Format of a response of the dependency API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Marshal,
    Json,
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Root,
    Text(TextKind),
    Info(Cow<'a, str>),
    Dependencies(Format),
    Specs(SpecList),
    /// Full name of a release.
    Gemspec(Cow<'a, str>),
    /// Full name of a release.
    File(Cow<'a, str>),
    Push,
    Yank,
    Hook(HookRoute),
}

impl<'a> Route<'a> {
    /// Parses a path below `mount`. Returns None if there is nothing at the path.
    pub(super) fn parse(path: &'a str, mount: &str) -> Option<Self> {
        let path = path.strip_prefix(mount)?;
        Some(match path {
            "" | "/" => Self::Root,
            "/versions" => Self::Text(TextKind::Versions),
            "/names" => Self::Text(TextKind::Names),
            "/api/v1/dependencies" => Self::Dependencies(Format::Marshal),
            "/api/v1/dependencies.json" => Self::Dependencies(Format::Json),
            "/specs.4.8.gz" => Self::Specs(SpecList::Released),
            "/latest_specs.4.8.gz" => Self::Specs(SpecList::Latest),
            "/prerelease_specs.4.8.gz" => Self::Specs(SpecList::Prerelease),
            "/api/v1/gems" => Self::Push,
            "/api/v1/gems/yank" => Self::Yank,
            "/api/v1/add_spec.json" => Self::Hook(HookRoute::AddSpec),
            "/api/v1/remove_spec.json" => Self::Hook(HookRoute::RemoveSpec),
            "/api/v1/hooks/rubygems" => Self::Hook(HookRoute::Rubygems),
            _ => return Self::named(path),
        })
    }

    fn named(path: &'a str) -> Option<Self> {
        let decoded = |text: &'a str| percent_decode_str(text).decode_utf8().ok();
        if let Some(name) = path.strip_prefix("/info/") {
            return decoded(name).map(Self::Info);
        }
        if let Some(file) = path.strip_prefix("/gems/") {
            return decoded(file.strip_suffix(".gem")?).map(Self::File);
        }
        let file = path.strip_prefix("/quick/Marshal.4.8/")?;
        decoded(file.strip_suffix(".gemspec.rz")?).map(Self::Gemspec)
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        match self {
            Self::Root => Endpoint::Root,
            Self::Text(TextKind::Versions) => Endpoint::Versions,
            Self::Text(TextKind::Names) => Endpoint::Names,
            Self::Info(_) => Endpoint::Info,
            Self::Dependencies(_) => Endpoint::Dependencies,
            Self::Specs(_) => Endpoint::Specs,
            Self::Gemspec(_) => Endpoint::Gemspec,
            Self::File(_) => Endpoint::File,
            Self::Push => Endpoint::Push,
            Self::Yank => Endpoint::Yank,
            Self::Hook(_) => Endpoint::Hook,
        }
    }
}

/// Returns the 404 response for a path. For endpoints of other RubyGems commands, it says what to
/// use instead.
pub(super) fn not_served(path: &str, mount: &str) -> Failure {
    let path = path.strip_prefix(mount).unwrap_or(path);
    let of_gem = path.strip_prefix("/api/v1/gems/").and_then(|rest| rest.split_once('/'));
    let is_owners = of_gem.is_some_and(|(_, rest)| rest.split('.').next() == Some("owners"));
    let is_sign_in = path.starts_with("/api/v1/api_key") || path.starts_with("/api/v1/profile/");
    Failure::not_found(match (is_owners, is_sign_in) {
        (true, _) => {
            "This index has no owners of gems: each API key says what it may push and yank. Who runs \
             the index makes one with `weir gems key create NAME --scope push_rubygem --gem PATTERN`, \
             and takes it back with `weir gems key revoke ID`."
        }
        (_, true) => {
            "This index has no accounts to sign in to. Who runs it makes an API key with \
             `weir gems key create NAME --scope push_rubygem`; it goes into GEM_HOST_API_KEY, or into \
             ~/.gem/credentials with this index's address as its name."
        }
        _ => "there is nothing at this path",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_rubygems_org() {
        let parse = |path| Route::parse(path, "");
        assert_eq!(parse("/info/rack"), Some(Route::Info("rack".into())));
        assert_eq!(parse("/info/a%2Db"), Some(Route::Info("a-b".into())));
        assert_eq!(parse("/gems/rack-3.0.gem"), Some(Route::File("rack-3.0".into())));
        let quick = "/quick/Marshal.4.8/rack-3.0.gemspec.rz";
        assert_eq!(parse(quick), Some(Route::Gemspec("rack-3.0".into())));
        assert_eq!(parse("/api/v1/gems"), Some(Route::Push));
        assert_eq!(parse("/"), Some(Route::Root));
        for path in ["/versions/", "/gems", "/gems/rack", "/info", "/info/%ff", "/quick/x"] {
            assert_eq!(parse(path), None, "{path}");
        }
    }

    #[test]
    fn everything_lies_behind_the_mount() {
        assert_eq!(Route::parse("/a/names", "/a"), Some(Route::Text(TextKind::Names)));
        assert_eq!(Route::parse("/a", "/a"), Some(Route::Root));
        assert_eq!(Route::parse("/a/", "/a"), Some(Route::Root));
        assert_eq!(Route::parse("/names", "/a"), None);
    }

    #[test]
    fn every_endpoint_has_its_place_and_its_name() {
        for (index, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, index);
        }
        let mut names = Endpoint::ALL.map(Endpoint::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
